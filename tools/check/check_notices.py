#!/usr/bin/env python3
"""Fails where code of others that ships does not stand with its notice: NOTICE names each library with its licence, and MIT and
BSD-3-Clause ask for the copyright and their text beside it; the report's page, which people pass on alone, has that of d3 inside."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = {"MIT": "this permission notice shall be included", "BSD-3-Clause": "must reproduce the above copyright notice"}
PAGES = ("web/report/page.html", "data/report/page.html")
notice = (ROOT / "NOTICE").read_text()
rows = re.findall(r"^  (\S+(?: \S+)?) +(\S.*?) {2,}.*?https?://", notice, re.M)
texts = {licence: " ".join(re.findall(rf"^{licence}.*:\n\n((?:  .*\n|\n)+)", notice, re.M)) for licence in TEXTS}
found = [] if len(rows) > 15 else [f"NOTICE names {len(rows)} libraries only"]
for name, licence in rows:
    kind = re.split(r"[ ,(]", licence)[0]
    if kind not in TEXTS:
        continue
    if not re.search(rf"^  {re.escape(name)}: Copyright \(c\) \d{{4}}", notice, re.M):
        found.append(f"NOTICE does not say whose {name} is")
    if TEXTS[kind] not in " ".join(texts[kind].split()):
        found.append(f"NOTICE has no text of {kind}, which {name} asks for")
for page in PAGES:
    text = " ".join((ROOT / page).read_text().split())
    found += [f"{page} does not say '{part}'" for part in ("Copyright (c) 2010-2020 Mike Bostock", TEXTS["BSD-3-Clause"], "POSSIBILITY OF SUCH DAMAGE")
              if part not in text]
print("\n".join(found))
sys.exit(1 if found else 0)
