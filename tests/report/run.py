#!/usr/bin/env python3
"""The report in a browser: complete, quiet, alone, legible, usable by keyboard.

  tests/report/run.py PROGRAM [--screens DIR]

With --screens writes pictures of every case at 1440 and 390 pixels, light, dark and printed, instead of looking itself.
Exit code 77 where there is no Chromium.
"""
import argparse
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

from devtools import Browser

TOOLS = pathlib.Path(__file__).resolve().parents[2] / "tools"
sys.path += [str(TOOLS / "soak"), str(TOOLS / "plot")]
from kill_tuner import TRAINER, command  # noqa: E402
from report_picture import PICTURES, example, told  # noqa: E402

SKIPPED = 77
CASES = {  # name: words of `plan`, whether anything fits
    "pipeline": ("llama-3.1-8b --on 8xH100 --batch 128 --seq 8192 --fix pp=4 --tokens 1T --price 2", True),
    "nothing": ("llama-3.1-70b --on 1xH100 --batch 8 --seq 4096", False),
    "unsayable": ("llama-3.1-8b --on 8xH100 --batch 64 --seq 8192 --trainer torchtitan --precision fp8", True),
    "lora": ("llama-3.1-8b --on 1xRTX-4090 --batch 8 --seq 2048 --trainer accelerate --job lora=16:q_proj+v_proj", True),
    "today": ("llama-2-70b --on 64xA100-80GB --batch 512 --seq 4096 --from tp=8,pp=4,vpp=2,sp,zero=1,recompute=full", True),
    "wishes": ("llama-3.1-70b --on 64xH100 --batch 1024 --seq 8192 --why-not tp=8,pp=2,sp --pareto", True),
}
LARGE = {  # for screens only
    "8b": ("llama-3.1-8b --on 8xH100 --batch 128 --seq 8192", True),
    "405b": ("llama-3.1-405b --on 16384xH100 --batch 2048 --seq 8192 --tokens 15T --price 2", True),
    "deepseek": ("deepseek-v3 --on 2048xH800 --batch 15360 --seq 4096", True),
}
DOUBTED = {"unsayable", "lora"}  # torchtitan, adapters: no published run of theirs is scored
DEEP = "llama-3.1-405b --on 8192xH100 --batch 8192 --seq 8192 --fix pp=64 --fix vpp=1"  # 640 classes of ranks
MOST_BYTES = 1_000_000


def check(truth, what):
    if not truth:
        raise AssertionError(what)


def made(program, words, fits, page):
    run = subprocess.run([program, "plan", *words.split(), "--report", str(page)], capture_output=True, text=True, check=False)
    check(run.returncode == (0 if fits else 1), f"exit code {run.returncode}: {run.stderr}")
    check(page.stat().st_size < MOST_BYTES, f"{page.name} has {page.stat().st_size} bytes")


def tuned(program, folder):
    """A page about real trials, of a trainer that only prints."""
    (folder / "trainer.py").write_text(TRAINER)
    run = subprocess.run(command(program, folder / "history", folder / "trainer.py"), capture_output=True, text=True, check=False)
    check(run.returncode == 0, run.stderr)
    page = folder / "tuning.html"
    subprocess.run([program, "tune", "status", "--history", str(folder / "history"), "--report", str(page)], check=True, capture_output=True)
    return page, json.loads(run.stdout)


def tells_of_trials(browser, answer):
    sections = browser.value("[...document.querySelectorAll('main section')].map(one => one.id)")
    check(sections == ["answer", "trials", "predicted", "learned"], f"tuning: parts are {sections}")
    for where, count in (("#trials .picture rect", len(answer["trials"])), ("#predicted .picture circle", 2 * len(answer["trials"])),
                         ("#learned .picture rect", len(answer["candidates"]))):
        drawn = browser.value(f"document.querySelectorAll('{where}').length")
        check(drawn == count, f"tuning: {drawn} of {count} {where} are drawn")
    check(answer["best"]["layout"] in browser.value("document.querySelector('#answer').innerText"), "tuning: the best is not named")


def says_nothing_odd(browser, name):
    for word in ("undefined", "NaN", "null", "[object"):
        check(word not in browser.value("document.querySelector('main').innerHTML"), f"{name}: the page says {word}")


def everything_has_a_colour(browser, name):
    black = browser.value("(() => { const {parts, categories} = JSON.parse(document.getElementById('data').textContent).details.names; "
                          "const one = document.querySelector('svg').appendChild(document.createElementNS('http://www.w3.org/2000/svg', 'rect')); "
                          "const black = [...Object.keys(parts), ...Object.keys(categories)].filter(what => { "
                          "one.setAttribute('class', `f-${what}`); return getComputedStyle(one).fill === 'rgb(0, 0, 0)'; }); "
                          "one.remove(); return black; })()")
    check(black == [], f"{name}: {black} have no colour")


def is_complete(browser, name, fits):
    sections = browser.value("[...document.querySelectorAll('main section')].map(one => one.id)")
    wanted = ["answer", "memory", "search", "sure"] if not fits else ["answer", "others", "memory", "time", "search", "sure"]
    data = "JSON.parse(document.getElementById('data').textContent)"
    pipelined = fits and browser.value(f"(p => /\\bpp=(?!1\\b)/.test(p.best[p.recommended].layout))({data})")
    check(pipelined or name not in ("pipeline", "today"), f"{name}: no pipeline is recommended")
    if pipelined:
        wanted.insert(4, "timeline")
    if name == "today":
        wanted.insert(1, "today")
    if fits:
        wanted[-2:-2] = ["front", "scaling"] if name == "wishes" else ["scaling"]
    check(sections == wanted, f"{name}: parts are {sections}")
    links = browser.value("[...document.querySelectorAll('nav a')].map(one => one.getAttribute('href'))")
    check(links == [f"#{one}" for one in wanted], f"{name}: links are {links}")
    bars = browser.value(f"(() => {{ const p = {data}, one = p.best[p.recommended] || p.smallest; return "
                         "one.memory.classes.flatMap(c => Object.values(c.bytes)).filter(b => b > 0).length; })()")
    drawn = browser.value("document.querySelectorAll('#memory .picture rect.seg').length")
    check(drawn == bars, f"{name}: {drawn} of {bars} parts of memory are drawn")
    left = {table: browser.value(f"{data}.details.accuracy.{table}.map(one => one.off.length)") for table in ("time", "memory_runs")}
    drawn = browser.value("document.querySelectorAll('#sure .picture circle.left').length")
    check(all(len(one) >= 2 and min(one) >= 4 for one in left.values()) and drawn == sum(map(sum, left.values())) <= 600,
          f"{name}: {drawn} dots of residuals for {left}")
    doubt = browser.value(f"{data}.details.accuracy.doubt")
    said = browser.value("document.querySelector('#sure').innerText").replace("\u00a0", " ")
    check(doubt in said and (doubt != "") == (name in DOUBTED), f"{name}: how well memory is known is {'' if doubt else 'not '}doubted")
    if fits:
        check(browser.value("document.querySelectorAll('#answer .card').length") >= 4, f"{name}: cards are missing")
        parts = browser.value("document.querySelectorAll('#time rect.seg').length")
        check(parts > 0 and browser.value("document.querySelectorAll('#time .rule').length") > 0, f"{name}: no parts of time")
        rows = browser.value(f"document.querySelector('#others table').rows.length - 1 - {data}.best.length")
        check(rows == 0, f"{name}: layouts are missing in the table")
        warned = "Export cannot write precision=fp8" in browser.value("document.querySelector('#answer').innerText")
        check(warned == (name == "unsayable"), f"{name}: what export cannot write is {'' if warned else 'not '}said")
    else:
        check("32xH100" in browser.value("document.querySelector('#answer').innerText"), f"{name}: what would fit is not said")
    if pipelined:
        shows_phases(browser, name)
    tells_of_the_search(browser, name)
    tells_of_wishes(browser, name)
    breaks_commands_between_words(browser, name)
    everything_has_a_colour(browser, name)
    says_nothing_odd(browser, name)


def text_of(browser, where):
    return browser.value(f"document.querySelector('{where}').innerText").replace("\u00a0", " ")


def shows_phases(browser, name):
    """Warm-up, steady part and cool-down are named; what is not drawn is a break."""
    line = browser.value("JSON.parse(document.getElementById('data').textContent).details.timelines[0]")
    check(browser.value("document.querySelectorAll('#timeline .bracket').length") >= 2, f"{name}: phases of the pipeline are not marked")
    drawn = browser.value("document.querySelectorAll('#timeline path.break').length")
    check(drawn == (line["micro_batches_drawn"] < line["micro_batches"]), f"{name}: {drawn} breaks for {line['micro_batches_drawn']} of {line['micro_batches']} micro-batches")


def tells_of_the_search(browser, name):
    plan = browser.value("JSON.parse(document.getElementById('data').textContent)")
    said = text_of(browser, "#search")
    for note in plan["details"]["notes"]:
        check(note["about"] != "left" or note["text"] in said, f"{name}: what was not searched is not said")
    rows = browser.value("[...document.querySelectorAll('#search table')[0].rows].slice(1).map(row => Number(row.cells[1].textContent.replaceAll(',', '')))")
    check(min(rows) >= 0 and sum(rows[:-1]) == rows[-1] == plan["search"]["space"], f"{name}: layouts of the search do not add up: {rows}")
    part = "#others" if plan["best"] else "#search"  # that has the scatter
    marks = browser.value(f"[...document.querySelectorAll('{part} .legend li svg')].map(one => one.innerHTML)")
    check(len(set(marks)) == len(marks), f"{name}: two marks of the search look the same")
    numbered = browser.value(f"document.querySelectorAll('{part} .picture circle.p-best').length")
    check(numbered == (len(plan["best"]) or numbered), f"{name}: {numbered} layouts of the table are in the figure")
    for what, mark in (("path.front", "line.front"), ("circle.bound", "circle.p-bound")):
        drawn, told = (browser.value(f"!!document.querySelector('{part} {where}')") for where in (f".picture {what}", f".legend {mark}"))
        check(drawn == told, f"{name}: {what} is {'' if drawn else 'not '}drawn and {'' if told else 'not '}in the legend")
    shown = plan["details"]["layouts"][plan["recommended"] if plan["best"] else 0]
    fullest = (plan["best"][plan["recommended"]] if plan["best"] else plan["smallest"])["memory"]
    if fullest["classes"][fullest["worst"]]["peak"].get("in_flight"):
        counted = "chunk" in text_of(browser, "#memory p")
        check(counted == (shown["chunks"] > 1), f"{name}: it is not said that chunks are in flight")


def tells_of_wishes(browser, name):
    plan = browser.value("JSON.parse(document.getElementById('data').textContent)")
    details = plan["details"]
    if name == "today":
        check(details["today"]["says"] in text_of(browser, "#today"), "today's layout is not named")
        bars = browser.value("document.querySelectorAll('#today .picture rect').length")
        check(bars == 2 * (1 + min(8, len(plan["best"]))), f"{bars} bars for today and its changes")
        check(all(one in text_of(browser, "#today table") for one in details["today"]["changes"]), "a change is missing")
        check("copies (dp)" in text_of(browser, "#scaling") and len(details["scaling"]["points"]) >= 2, "today's layout has no other sizes")
    if name == "wishes":
        dots = browser.value("document.querySelectorAll('#front .picture circle').length")
        check(dots == len(details["pareto"]) >= 3, f"{dots} dots for {len(details['pareto'])} of --pareto")
        rows = browser.value("[...document.querySelectorAll('#others table')].map(one => one.rows.length - 1)")
        check(rows[1] == len(details["why_not"]["rows"]) >= 5, f"--why-not has {rows} rows")
        check(details["why_not"]["verdict"] in text_of(browser, "#others"), "--why-not has no verdict")


def breaks_commands_between_words(browser, name):
    """No line of a command begins behind anything but a blank, a comma or a hyphen of a long word (overlap-parameter-gather)."""
    wrong = browser.value("""[...document.querySelectorAll('.command code')].flatMap(code => {
        const found = [], walk = document.createTreeWalker(code, NodeFilter.SHOW_TEXT), range = document.createRange();
        let line = null, last = ' ';
        while (walk.nextNode()) for (let i = 0; i < walk.currentNode.length; ++i) {
          const letter = walk.currentNode.data[i];
          range.setStart(walk.currentNode, i);
          range.setEnd(walk.currentNode, i + 1);
          const box = range.getBoundingClientRect();
          if (letter !== ' ' && line !== null && box.top > line + 4 && last !== ' ' && last !== ',' && last !== '-') found.push(code.textContent.slice(0, 60) + ': ' + last + '/' + letter);
          if (letter !== ' ') line = box.top;
          last = letter;
        }
        return found;
      })""")
    check(not wrong, f"{name}: commands are broken inside words: {wrong}")


# Of labels whose boxes a dashed upright line or another label crosses; halos reach 1 pixel beyond them.
CROSSED = """[...document.querySelectorAll('main .picture svg')].flatMap(svg => {
  const texts = [...svg.querySelectorAll('text:not(.inside)')].map(one => [one.textContent, one.getBoundingClientRect()]).filter(([, box]) => box.width > 0);
  const rules = [...svg.querySelectorAll('line.rule')].map(one => one.getBoundingClientRect()).filter(box => box.width < 3);
  const name = svg.getAttribute('aria-label'), found = [];
  texts.forEach(([text, a], i) => {
    const inside = a.height / 5;  // of a box above and below its letters
    for (const b of rules) if (b.left > a.left + 1 && b.right < a.right - 1 && b.top < a.bottom - inside && b.bottom > a.top + inside) found.push(`${name}: a line through ${text}`);
    for (const [other, b] of texts.slice(i + 1)) {
      if (a.left + 1 < b.right && b.left + 1 < a.right && a.top + inside < b.bottom - inside && b.top + inside < a.bottom - inside) found.push(`${name}: ${text} on ${other}`);
    }
  });
  return found;
})"""


def fits_the_screen(browser, name, width):
    wide = browser.value("document.documentElement.scrollWidth")
    check(wide <= width, f"{name}: {wide} pixels wide on a screen of {width}")
    cut = browser.value("[...document.querySelectorAll('main svg text')].filter(one => one.getBoundingClientRect().width > 0 && "
                        "(one.getBoundingClientRect().right > innerWidth || one.getBoundingClientRect().left < 0)).map(one => one.textContent)")
    check(not cut, f"{name}: cut off at {width} pixels: {cut}")
    crossed = browser.value(CROSSED)
    check(not crossed, f"{name}: crossed at {width} pixels: {crossed}")


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2]


def contrast(one, other):
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def is_legible(browser, theme):
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for shapes (1.4.11)."""
    names = browser.value("[...document.styleSheets[0].cssRules].find(one => one.selectorText === ':root').style.length")
    check(names > 20, "the palette is not found")
    palette = browser.value("(() => { const found = {}; const all = getComputedStyle(document.documentElement); for (const one of "
                            "[...document.styleSheets[0].cssRules].find(one => one.selectorText === ':root').style) "
                            "found[one] = all.getPropertyValue(one).trim(); return found; })()")
    names_on_bars = palette["--on"]
    palette = {name: value if len(value) == 7 else "#" + "".join(2 * c for c in value[1:]) for name, value in palette.items()}
    for paper in ("--paper", "--card"):
        for name, colour in palette.items():
            if name in ("--paper", "--card", "--line", "--on"):
                continue
            least = 3 if name.startswith("--s-") or name == "--focus" else 4.5
            found = contrast(colour, palette[paper])
            check(found >= least, f"{theme}: {name} on {paper} has a contrast of {found:.2f}, less than {least}")
    for name in (name for name in palette if name.startswith("--s-") and name not in ("--s-fits", "--s-near", "--s-over")):  # dots bear no names
        found = contrast(names_on_bars, palette[name])
        check(round(found, 1) >= 4.5, f"{theme}: a name on {name} has a contrast of {found:.2f}")


def tabbed(browser, most=400):
    """What Tab reaches, in order, and whether each shows it."""
    reached = []
    for _ in range(most):
        for kind in ("keyDown", "keyUp"):
            browser.ask("Input.dispatchKeyEvent", type=kind, key="Tab", code="Tab", windowsVirtualKeyCode=9)
        one = browser.value("(() => { const e = document.activeElement; return e === document.body ? null : [e.tagName.toLowerCase(), "
                            "(e.getAttribute('aria-label') || e.textContent || '').slice(0, 40), getComputedStyle(e).outlineStyle]; })()")
        if one is None:
            break
        reached.append(one)
    return reached


def works_by_keyboard(browser):
    controls = browser.value("[...document.querySelectorAll('a[href], button, select, summary, [tabindex]')].filter(one => one.checkVisibility()).length")
    reached = tabbed(browser)
    check(len(reached) == controls, f"Tab reaches {len(reached)} of {controls} controls")
    unseen = [one for one in reached if one[2] == "none"]
    check(not unseen, f"focus is not seen on {unseen}")
    before = browser.value("document.querySelector('#timeline .zoomed rect:nth-of-type(9)').getAttribute('width')")
    browser.value("document.querySelector('#timeline button[aria-label=\"Zoom in\"]').click()")
    after = browser.value("document.querySelector('#timeline .zoomed rect:nth-of-type(9)').getAttribute('width')")
    check(float(after) > 1.5 * float(before), "the timeline does not zoom")
    browser.value("window.saved = []; HTMLAnchorElement.prototype.click = () => {}; "
                  "URL.createObjectURL = one => { one.text().then(text => saved.push(text)); return '#'; }; 0")
    browser.value("document.querySelector('#memory button.save').click()")
    saved = browser.value("new Promise(done => setTimeout(() => done(saved[0]), 50))")
    check(saved.startswith("<svg") and "fill:rgb(" in saved and 'class="' not in saved, "a saved picture does not stand alone")
    browser.value("saved.length = 0; [...document.querySelectorAll('#timeline button')].find(one => one.textContent === 'Save as trace').click()")
    events = json.loads(browser.value("new Promise(done => setTimeout(() => done(saved[0]), 50))"))["traceEvents"]
    check({one["ph"] for one in events} == {"M", "X"} and all(one["dur"] > 0 for one in events if one["ph"] == "X"), "the trace is not one")
    sorts_and_copies(browser)
    words = browser.value("document.querySelector('#memory p').textContent")
    browser.value("(() => { const list = document.querySelector('#memory select'); list.value = (Number(list.value) + 1) % list.options.length; "
                  "list.dispatchEvent(new Event('change')); })()")
    check(browser.value("document.querySelector('#memory p').textContent") != words, "another layout shows the same memory")


def sorts_and_copies(browser):
    """Of the table of layouts: a press sorts by numbers, another turns it round, the whole is CSV, a row chooses what figures show."""
    column = "[...document.querySelectorAll('#others table')[0].tBodies[0].rows].map(row => parseFloat(row.cells[5].textContent))"
    press = "[...document.querySelectorAll('#others button.sort')].find(one => one.textContent === 'peak memory').click()"
    browser.value(press)
    rising = browser.value(column)
    browser.value(press)
    check(rising == sorted(rising) and browser.value(column) == sorted(rising, reverse=True), f"layouts are not sorted by memory: {rising}")
    browser.value("Object.defineProperty(navigator, 'clipboard', {configurable: true, value: {writeText: text => { window.copied = text; return Promise.resolve(); }}}); "
                  "document.querySelector('#others .sheet button.save').click(); 0")
    lines = list(csv.reader(browser.value("window.copied").splitlines()))
    check(len(lines) == len(rising) + 1 and {len(one) for one in lines} == {8} and lines[0][:2] == ["no.", "layout"], f"the CSV is {lines[:2]}")
    words = browser.value("document.querySelector('#time p').textContent")
    browser.value("[...document.querySelectorAll('#others button.pick')].find(one => one.ariaPressed === 'false').click()")
    check(browser.value("document.querySelector('#time p').textContent") != words, "a chosen row does not change the figures")


def looks_right(browser, page, name):
    for theme in ("dark", "light"):
        for width in (390, 1440):
            browser.show(page, width, 900, theme)
            fits_the_screen(browser, name, width)
        is_legible(browser, theme)
    for width in (390, 760):
        browser.show(page, width, 900, media="print")
        fits_the_screen(browser, name, width)
    browser.show(page)


def answered(program, words, details=True):
    run = subprocess.run([program, "plan", *words.split(), "--json", *(["--details"] if details else [])], capture_output=True, text=True, check=False)
    return json.loads(run.stdout)


def timelines_are_whole(program):
    """Warm-up and steady passes are drawn, of the fullest rank too, and idle is told of the whole step."""
    for words, ranks, batches, idle in ((DEEP, 64, 1024, 63 / (1024 + 63)), (LARGE["405b"][0], 16, 32, 15 / (4 * 32 + 15))):
        plan = answered(program, words)
        line, memory = plan["details"]["timelines"][0], plan["best"][plan["recommended"]]["memory"]
        check((line["pipeline_ranks"], line["micro_batches"]) == (ranks, batches), f"another pipeline is planned: {words}")
        check(line["micro_batches_drawn"] >= min(batches, 3 * ranks), f"{line['micro_batches_drawn']} micro-batches are drawn: {words}")
        drawn = {one["rank"]: one for one in line["ranks"]}
        check(memory["worst"] in drawn and {0, ranks - 1} < set(drawn) and len(drawn) <= 16, f"ranks drawn are {sorted(drawn)}: {words}")
        check(max(drawn[memory["worst"]]["memory"][1::2]) > 0.95 * drawn[memory["worst"]]["peak"], f"the fullest rank is never full: {words}")
        # Ends of the pipeline are shorter than the rest, which leaves more idle than even stages would.
        told = float(line["idle"].removesuffix(" %")) / 100
        check(idle <= told + 0.001 and told < idle + 0.03, f"{told:.3f} of the step is idle, {idle:.3f} of even stages: {words}")
    curve = answered(program, LARGE["deepseek"][0])["details"]["scaling"]
    check(len(curve["points"]) >= 2 and "copies (dp)" in curve["says"], "a space too large to search anew has no other sizes")


def adapters_are_told_alike(program, folder):
    words = CASES["nothing"][0]
    adapters = answered(program, words, details=False)["adapters"]
    text = subprocess.run([program, "plan", *words.split()], capture_output=True, text=True, check=False).stdout
    page = (folder / "nothing.html").read_text()
    for option in (f"--trainer {adapters['trainer']}", "--job " + adapters["job"].removeprefix("optimizer=adamw,")):
        check(option in " ".join(text.split()) and option in page, f"text or page do not say {option}")


def check_all(program, folder):
    timelines_are_whole(program)
    made(program, DEEP, True, folder / "deep.html")
    with Browser() as browser:
        page, answer = tuned(program, folder)
        looks_right(browser, page, "tuning")
        tells_of_trials(browser, answer)
        says_nothing_odd(browser, "tuning")
        looks_right(browser, folder / "deep.html", "deep")
        for name, (words, fits) in CASES.items():
            page = folder / f"{name}.html"
            made(program, words, fits, page)
            looks_right(browser, page, name)
            browser.show(page, 390)
            breaks_commands_between_words(browser, name)
            browser.show(page)
            is_complete(browser, name, fits)
            if name == "pipeline":
                works_by_keyboard(browser)
        check(not browser.faults(), f"the page complains: {browser.faults()[:2]}")
        adapters_are_told_alike(program, folder)
        elsewhere = [url for url in browser.asked_for() if not url.startswith(("file:", "about:", "data:"))]
        check(not elsewhere, f"the page asks for {elsewhere}")


def pictures_are_todays(program):
    plan = json.loads(subprocess.run([program, *example(), "--json", "--details"], capture_output=True, check=True, text=True).stdout)
    check(told(plan) == json.loads((PICTURES / "report.json").read_text()), f"docs/pictures are of another answer: tools/plot/report_picture.py {program}")


def report_equals(program, folder):
    """`report` of what --json --details prints is the page that --report writes."""
    words = CASES["pipeline"][0].split()
    plan = subprocess.run([program, "plan", *words, "--json", "--details"], capture_output=True, check=True).stdout
    (folder / "plan.json").write_bytes(plan)
    subprocess.run([program, "report", str(folder / "plan.json"), "--out", str(folder / "again.html"), "--svg", str(folder / "svg")],
                   check=True, capture_output=True)
    check((folder / "again.html").read_bytes() == (folder / "pipeline.html").read_bytes(), "`report` and --report differ")
    drawn = {one.stem: ElementTree.parse(one).getroot() for one in (folder / "svg").glob("*.svg")}
    dotted = {"search", "scaling", "residuals-time", "residuals-memory"}
    check({"memory", "time"} | dotted < set(drawn) and any(name.startswith("timeline-") for name in drawn), f"pictures are {sorted(drawn)}")
    for name, one in drawn.items():
        shapes = len(one.findall("{*}circle" if name in dotted else "{*}rect"))
        check(shapes > (4 if name == "scaling" else 10), f"the picture {name} is empty")

    (folder / "nothing.json").write_text(json.dumps(answered(program, CASES["nothing"][0])))
    subprocess.run([program, "report", str(folder / "nothing.json"), "--out", str(folder / "again.html"), "--svg", str(folder / "few")], check=True, capture_output=True)
    check({one.stem for one in (folder / "few").glob("*.svg")} == {"memory", "residuals-time", "residuals-memory"}, "where nothing fits there are other pictures")


def screens(program, folder):
    folder.mkdir(parents=True, exist_ok=True)
    with Browser() as browser:
        for name, (words, fits) in {**CASES, **LARGE}.items():
            page = folder / f"{name}.html"
            made(program, words, fits, page)
            for width in (1440, 390):
                for theme in ("light", "dark", "print"):
                    browser.show(page, width, 900, *(("light", "print") if theme == "print" else (theme,)))
                    paint = browser.value("new Promise(done => new PerformanceObserver(list => list.getEntriesByName('first-contentful-paint')"
                                          ".forEach(one => done(one.startTime))).observe({type: 'paint', buffered: true}))")
                    print(f"{name} {width} {theme}: {page.stat().st_size} bytes, first paint after {paint:.0f} ms")
                    browser.value("document.querySelector('header').style.position = 'static'")
                    (folder / f"{name}-{width}-{theme}.png").write_bytes(browser.screen())


def main():
    words = argparse.ArgumentParser()
    words.add_argument("program")
    words.add_argument("--screens", type=pathlib.Path)
    given = words.parse_args()
    if shutil.which("chromium") is None:
        print("there is no chromium here: the pages were not looked at")
        return SKIPPED
    if given.screens:
        screens(given.program, given.screens)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        check_all(given.program, pathlib.Path(folder))
        report_equals(given.program, pathlib.Path(folder))
        pictures_are_todays(given.program)
    return 0


if __name__ == "__main__":
    sys.exit(main())
