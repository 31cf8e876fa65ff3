#!/usr/bin/env bash
# Makes the playground, a static page with the core as WebAssembly (Debian's emscripten, esbuild and node-d3).
#   tools/make/make_playground.sh [OUT]          OUT: build/playground
#   python3 -m http.server -d build/playground
set -euo pipefail
cd "$(dirname "$0")/../.."
out=${1:-build/playground}
export NODE_PATH=/usr/share/nodejs:/usr/lib/nodejs
cmake --preset wasm >/dev/null
cmake --build --preset wasm -j "${CMAKE_BUILD_PARALLEL_LEVEL:-2}"
mkdir -p "$out"
cp build/wasm/trainwright.{js,wasm} web/playground/{index.html,worker.js} NOTICE "$out"
for name in page.js page.css; do
  esbuild "web/playground/$name" --bundle --minify --format=iife --target=es2020 --legal-comments=none --log-level=warning --outfile="$out/$name"
done
# All that the hash in an answer is of, as they are, so that places in them are the program's.
python3 - "$out/data.json" <<'PYTHON'
import json, pathlib, sys
data = {f"/{path}": path.read_text() for path in sorted(pathlib.Path("data").rglob("*"))
        if path.is_file() and path.parts[1] != "judges"}
pathlib.Path(sys.argv[1]).write_text(json.dumps(data, ensure_ascii=False))
PYTHON
total=0
for file in "$out"/*; do
  small=$(gzip -9 -c "$file" | wc -c)
  total=$((total + small))
  printf '%9d bytes, %7d by gzip -9: %s\n' "$(wc -c <"$file")" "$small" "$(basename "$file")"
done
printf '%d bytes by gzip -9 in all\n' "$total"
