#!/usr/bin/env bash
# Lines of trainwright/ that its unit tests reach; fails where it is a smaller share than tools/coverage.txt says, which only rises: a
# higher one is written there, and committed by whoever ran it.
#   tools/check/measure_coverage.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
env=build/gcovr tool=gcovr==8.8
if [ ! -e "$env/.made-with-$tool" ]; then
  rm -rf "$env"
  python3 -m venv "$env"
  "$env/bin/pip" install --quiet "$tool"
  touch "$env/.made-with-$tool"
fi
cmake --preset coverage -DTRAINWRIGHT_PRECOMPILED=ON -DTRAINWRIGHT_UNITY=ON -DTRAINWRIGHT_WHOLE_TESTS=ON -DTRAINWRIGHT_PROPERTY_TESTS=OFF >/dev/null
mapfile -t programs < <(ctest --preset coverage -N | sed -n 's/^ *Test *#[0-9]*: [a-z]*: \([a-z]*_test\)$/\1/p')
cmake --build --preset coverage --target "${programs[@]}"
find build/coverage -name '*.gcda' -delete
ctest --preset coverage -R '_test$'
"$env/bin/gcovr" --root . --filter trainwright/ --exclude '.*_(test|bench)\.cc$' --exclude trainwright/testing/ --gcov-ignore-parse-errors \
  --json-summary build/coverage.json build/coverage
python3 - <<'END'
import json
import pathlib
floor = pathlib.Path("tools/coverage.txt")
share = json.loads(pathlib.Path("build/coverage.json").read_text())["line_percent"]
least = float(floor.read_text()) if floor.exists() else 0
print(f"{share} % of lines; at least {least}")
if share > least:
    floor.write_text(f"{share}\n")
raise SystemExit(share < least)
END
