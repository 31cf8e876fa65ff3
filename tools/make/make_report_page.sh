#!/usr/bin/env bash
# Makes data/report/page.html of web/report: one file, with the parts of d3 that it uses (Debian's node-d3 and esbuild).
#   tools/make/make_report_page.sh [OUT]
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-data/report/page.html}
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
export NODE_PATH=/usr/share/nodejs
esbuild web/report/page.js --bundle --minify --format=iife --target=es2020 --legal-comments=none --log-level=warning --outfile="$folder/page.js"
esbuild web/report/page.css --minify --log-level=warning --outfile="$folder/page.css"
python3 - "$folder" "$out" <<'PYTHON'
import pathlib, sys
folder, out = map(pathlib.Path, sys.argv[1:])
page = pathlib.Path("web/report/page.html").read_text()
for name in ("page.css", "page.js"):
    text = (folder / name).read_text().strip()
    assert "</script" not in text and "</style" not in text
    page = page.replace(f"/* {name} */", text)
out.parent.mkdir(parents=True, exist_ok=True)
out.write_text(page)
PYTHON
