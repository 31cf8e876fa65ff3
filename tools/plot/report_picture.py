#!/usr/bin/env python3
"""The pictures of README.md and docs/report.md: the head of the report about README's first example, light and dark.

    tools/plot/report_picture.py build/release/trainwright [--out docs/pictures]

Needs Chromium. report.json beside them has what they say; tests/report/run.py fails where the program says something else by now.
"""
import argparse
import base64
import json
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PICTURES = ROOT / "docs/pictures"
sys.path.append(str(ROOT / "tests/report"))
from devtools import Browser  # noqa: E402

WIDTH, MARGIN = 1200, 24


def example():
    return shlex.split(re.search(r"^    \$ trainwright (plan [^|\n]*)", (ROOT / "README.md").read_text(), re.M).group(1))


def told(plan):
    """What the pictures say."""
    one, detail = plan["best"][plan["recommended"]], plan["details"]["layouts"][plan["recommended"]]
    worst = one["memory"]["classes"][one["memory"]["worst"]]
    return {"plan": example(), "layout": detail["settings"], "step": f"{one['time']['step']:.3g}", "mfu": f"{one['time']['mfu']:.3f}",
            "peak": f"{worst['driver'] / 2**30:.1f}", "oom": detail["oom"]}


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("program")
    words.add_argument("--out", type=pathlib.Path, default=PICTURES)
    given = words.parse_args()
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = pathlib.Path(folder) / "plan.html"
        done = subprocess.run([given.program, *example(), "--report", str(page), "--json", "--details"], check=True, capture_output=True, text=True)
        for theme, name in (("light", "report.png"), ("dark", "report-dark.png")):
            browser.show(page, WIDTH, 900, theme)
            bottom = browser.value("document.querySelector('#answer .cards').getBoundingClientRect().bottom")
            shot = browser.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                               clip={"x": 0, "y": 0, "width": WIDTH, "height": bottom + MARGIN, "scale": 1})
            (given.out / name).write_bytes(base64.b64decode(shot["data"]))
        (given.out / "report.json").write_text(json.dumps(told(json.loads(done.stdout)), indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
