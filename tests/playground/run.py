#!/usr/bin/env python3
"""The playground in a browser: it answers, says what is wrong, and asks nobody.

  tests/playground/run.py [--made build/playground] [--screens DIR]

With --screens writes pictures at 1440 and 390 pixels, light and dark, instead of looking itself.
Exit code 77 where there is no Chromium or no playground (tools/make/make_playground.sh).
"""
import argparse
import functools
import http.server
import io
import pathlib
import shutil
import sys
import tarfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests/report"))
from devtools import Browser  # noqa: E402

SKIPPED = 77
SMALL = "#model=llama-3.2-1b&on=4xH100&batch=32&seq=2048"
NOTHING = "#model=llama-3.1-70b&on=1xH100&batch=8&seq=4096"
WRONG = "#model=lama-2-7b&on=8xH1000&batch=0&seq=4096"
OWN = ('#on=8xH100&batch=64&seq=2048&config={"model_type":"llama","hidden_size":2048,"intermediate_size":8192,"num_hidden_layers":16,'
       '"num_attention_heads":32,"num_key_value_heads":8,"vocab_size":128256,"tie_word_embeddings":true}')


def check(truth, what):
    if not truth:
        raise AssertionError(what)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def serve(folder):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server, f"http://127.0.0.1:{server.server_port}/index.html"


def waits(browser, script, what, seconds=60):
    end = time.monotonic() + seconds
    while not browser.value(script):
        check(time.monotonic() < end, f"{what}: {browser.value('document.body.innerText')[:500]}")
        time.sleep(0.05)


def opened(browser, url, width=1440, theme="light"):
    """A new page each time: with the same address but for what stands behind '#' the old one would stay."""
    browser.view(width, 900, theme)
    browser.ask("Page.navigate", url="about:blank")
    browser.ask("Page.navigate", url=url)
    waits(browser, "!!document.querySelector('#state') && /Ready|Planned|error/.test(document.querySelector('#state').textContent)", "it does not load")


def answered(browser):
    waits(browser, "/Planned|error/.test(document.querySelector('#state').textContent)", "there is no answer")


def says(browser, selector):
    return browser.value(f"document.querySelector({selector!r}).innerText")


def question_and_link(browser, page):
    opened(browser, page)
    check(browser.value("document.querySelectorAll('#models option').length") > 200, "the zoo is not listed")
    browser.value("document.querySelector('form').elements.on.value = '4xH100'; document.querySelector('.go').click()")
    answered(browser)
    sections = browser.value("[...document.querySelectorAll('main section')].map(one => one.id)")
    check(sections[:4] == ["ask", "answer", "files", "others"] and sections[-1] == "sure", f"parts are {sections}")
    title, link = says(browser, "#answer h1"), browser.value("location.href")
    check("llama-3.1-8b on 4xH100" in title, f"the answer is about {title}")
    check(link.endswith("#model=llama-3.1-8b&on=4xH100&batch=128&seq=8192"), f"the link is {link}")
    table = says(browser, "#others table")
    browser.value("document.querySelector('nav a[href=\"#memory\"]').click()")
    check(browser.value("location.href") == link, "a part of the page took the place of the question")
    opened(browser, link)
    answered(browser)
    check(says(browser, "#others table") == table, "the link asks something else")


def files(browser):
    """Of the answer that is shown: they are there, and an archive of them is one."""
    names = browser.value("[...document.querySelectorAll('.files summary')].map(one => one.textContent)")
    check("plan.json" in names and len(names) >= 3, f"files are {names}")
    browser.value("window.saved = []; HTMLAnchorElement.prototype.click = function () { saved.push(this.download); }; "
                  "URL.createObjectURL = one => { one.arrayBuffer().then(all => saved.push([...new Uint8Array(all)])); return '#'; }; "
                  "document.querySelector('#files .controls button').click()")
    waits(browser, "saved.length === 2", "nothing is saved")
    name, content = browser.value("saved")
    with tarfile.open(fileobj=io.BytesIO(bytes(content))) as archive:
        check(name == "run.tar" and sorted(one.rsplit("/", 1)[-1] for one in archive.getnames()) == sorted(names), f"{name} has {archive.getnames()}")
        check(all(archive.extractfile(one).read() for one in archive.getnames()), "a file in the archive is empty")


def faults(browser, page):
    opened(browser, page + WRONG)
    answered(browser)
    told = browser.value("[...document.querySelectorAll('#faults li')].map(one => one.innerText)")
    check(len(told) == 3 and "unknown accelerator" in told[1] and "did you mean 'H100'" in told[1], f"faults are {told}")
    marked = browser.value("[...document.querySelectorAll('[aria-invalid]')].map(one => one.name).sort().join()")
    check(marked == "batch,model,on", f"marked are {marked}")
    check(browser.value("document.querySelectorAll('#found > *').length") == 0, "an old answer stands below faults")


def other_answers(browser, page):
    opened(browser, page + NOTHING)
    answered(browser)
    check("Nothing fits" in says(browser, "#answer h1"), "it does not say that nothing fits")
    opened(browser, page + OWN)
    answered(browser)
    check(says(browser, "#answer h1").startswith("llama of 1.236 B parameters on 8xH100"), f"a pasted model gives {says(browser, '#answer h1')}")


def stops(browser, page):
    opened(browser, page)
    browser.value("document.querySelector('form').elements.model.value = 'llama-3.1-405b'; document.querySelector('form').elements.on.value = '16384xH100'; "
                  "document.querySelector('form').elements.batch.value = '2048'; document.querySelector('.go').click()")
    waits(browser, "!document.querySelector('#stop').hidden", "there is nothing to stop")
    browser.value("document.querySelector('#stop').click()")
    waits(browser, "document.querySelector('#state').textContent === 'Stopped.' && !document.querySelector('.go').disabled", "it does not stop", 5)


def fits_the_screen(browser, page):
    for theme in ("light", "dark"):
        for width in (390, 1440):
            opened(browser, page + SMALL, width, theme)
            answered(browser)
            wide = browser.value("document.documentElement.scrollWidth")
            check(wide <= width, f"{wide} pixels wide on a screen of {width}")


def check_all(page):
    with Browser() as browser:
        question_and_link(browser, page)
        files(browser)
        faults(browser, page)
        other_answers(browser, page)
        stops(browser, page)
        fits_the_screen(browser, page)
        check(not browser.faults(), f"the page complains: {browser.faults()[:2]}")
        elsewhere = [url for url in browser.asked_for() if not url.startswith((page.rsplit("/", 1)[0], "about:", "data:", "blob:"))]
        check(not elsewhere, f"the page asks for {elsewhere}")


def screens(page, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for name, asked in (("first", ""), ("answer", SMALL), ("nothing", NOTHING), ("wrong", WRONG), ("own", OWN)):
            for width in (1440, 390):
                for theme in ("light", "dark"):
                    opened(browser, page + asked, width, theme)
                    if asked:
                        answered(browser)
                    browser.value("document.querySelector('header').style.position = 'static'; scrollTo(0, 0)")
                    browser.value("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
                    (folder / f"{name}-{width}-{theme}.png").write_bytes(browser.screen())


def main():
    words = argparse.ArgumentParser()
    words.add_argument("--made", type=pathlib.Path, default=ROOT / "build/playground")
    words.add_argument("--screens", type=pathlib.Path)
    given = words.parse_args()
    if shutil.which("chromium") is None or not (given.made / "trainwright.wasm").exists():
        print("there is no chromium or no playground here: it was not looked at")
        return SKIPPED
    server, page = serve(given.made)
    if given.screens:
        screens(page, given.screens)
    else:
        check_all(page)
    server.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
