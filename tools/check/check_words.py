#!/usr/bin/env python3
"""Fails on what the playground's compiler does not take (Debian's emscripten: a libc++ of 2022, sizes and long of 32 bits), as
the check run does not start it; and on numbers read as the locale of a host program has them."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
ELSEWHERE = {"measured", "logs", "calibrate", "tune", "testing"}  # CMakeLists.txt: not in the playground
LACKS = re.compile(r"std::(bit_cast|ranges::|format\b|source_location)|Json::of\(std::(ssize|lround)")
BY_LOCALE = re.compile(r"\b(stold|stod|stof|strtold|strtod|strtof|atof)\b")
READER = "trainwright/base/text.cc"  # parse_number
found = []
for folder in ("trainwright", "python/bindings", "web/playground"):
    for path in sorted((ROOT / folder).rglob("*")):
        if path.suffix not in (".h", ".cc") or str(path.relative_to(ROOT)) == READER:
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if used := BY_LOCALE.search(line.split("//")[0]):
                found.append(f"{path.relative_to(ROOT)}:{number}: {used[0]} reads 2.5 as 2 under a locale with a comma: parse_number")
for path in sorted((ROOT / "trainwright").rglob("*")):
    local = path.relative_to(ROOT)
    if path.suffix not in (".h", ".cc") or local.parts[1] in ELSEWHERE or path.stem.endswith(("_test", "_bench")) \
            or path.name.startswith("tune"):
        continue
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if used := LACKS.search(line.split("//")[0]):
            found.append(f"{local}:{number}: {used[0]} does not compile for the playground")
print("\n".join(found))
sys.exit(1 if found else 0)
