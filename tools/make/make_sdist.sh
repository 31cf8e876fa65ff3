#!/usr/bin/env bash
# Makes an sdist in build/wheels and looks whether it has all that a wheel is made of: it is unpacked and configured. Compiling it
# is what `pip install` of it does, in as many minutes as a build from nothing.
#   tools/make/make_sdist.sh [PYTHON]     default: python3
set -euo pipefail
cd "$(dirname "$0")/../.."
python=$(tools/make/wheel_tools.sh "${1:-python3}")/bin/python
out=build/wheels tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT
mkdir -p "$out"
rm -f "$out"/trainwright-*.tar.gz
"$python" -c "import sys; from scikit_build_core.build import build_sdist; build_sdist(sys.argv[1])" "$out" >/dev/null 2>&1
sdist=$(ls "$out"/trainwright-*.tar.gz)
tar xzf "$sdist" -C "$tree" --strip-components=1
for kept in data python/trainwright LICENSE NOTICE LICENSES; do diff -r -x __pycache__ "$kept" "$tree/$kept"; done
for left in tests tools docs build rows; do
  [ ! -e "$tree/$left" ] || { echo "$sdist has $left"; exit 1; }
done
# As pyproject.toml has it configured.
cmake -S "$tree" -B "$tree/build" -G Ninja -DTRAINWRIGHT_BINDINGS=ON -DTRAINWRIGHT_TESTS=OFF -DPython_EXECUTABLE="$python" \
  -Dnanobind_DIR="$("$python" -m nanobind --cmake_dir)" >"$tree/log" || { cat "$tree/log"; exit 1; }
ls -l "$sdist"
