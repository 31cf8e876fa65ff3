#!/usr/bin/env python3
"""The picture of README.md and docs/report.md: the first parts of the report about README's first example.

    tools/report_picture.py build/release/trainwright [--out docs/pictures/report.png]

Needs Chromium. No test compares it: fonts differ from machine to machine. Make it again where these parts look or say otherwise.
"""
import argparse
import base64
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.append(str(ROOT / "tests/report"))
from devtools import Browser  # noqa: E402

WIDTH, LAST_PART = 1200, "time"


def main():
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("program")
    words.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/pictures/report.png")
    given = words.parse_args()
    example = re.search(r"^    \$ trainwright (plan .*)$", (ROOT / "README.md").read_text(), re.M).group(1)
    with tempfile.TemporaryDirectory() as folder, Browser() as browser:
        page = pathlib.Path(folder) / "plan.html"
        subprocess.run([given.program, *shlex.split(example), "--report", str(page)], check=True, capture_output=True)
        browser.show(page, WIDTH)
        height = browser.value(f"document.getElementById('{LAST_PART}').getBoundingClientRect().bottom")
        shot = browser.ask("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                           clip={"x": 0, "y": 0, "width": WIDTH, "height": height, "scale": 1})
    given.out.write_bytes(base64.b64decode(shot["data"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
