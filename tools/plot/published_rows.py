"""The rows of docs/validation/rows.csv: which of a source's, and their commands as a clone runs them (tests/rows/clone.py)."""
import csv
import hashlib
import pathlib
import re
import shlex
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests/rows"))
import clone  # noqa: E402

MOST_ROWS = 21  # of a source
MOST_OFF = 0.002  # between a score and its command, which reads constants of four digits
MEMORY = ROOT / "data/calibrations/memory.json"
WITHOUT_A_PLACE = {
    "aleph-alpha-2023": "https://github.com/Aleph-Alpha/NeurIPS-WANT-submission-efficient-parallelization-layouts",
    "sailor": "https://github.com/eth-easl/sailor",
    "zbh1_3090": "https://github.com/PFCCLab/Camp/tree/main/WeeklyReports/Hackathon_6th/10_AndSonder",
}


def link_of(source, label):
    """Of places like "OWNER/NAME@COMMIT:FILE#LINE remark" and "remark (arXiv:NUMBER) remark"."""
    if source in WITHOUT_A_PLACE:
        return WITHOUT_A_PLACE[source]
    paper = re.search(r"arXiv:(\d{4}\.\d{5})", label)
    file = re.match(r"([\w.-]+/[\w.-]+?)(?:@(\w+))?:([^\s]+)", label)
    if file and (not paper or file.start() < paper.start()):
        repository, commit, path = file.groups()
        if "*" in path:  # several files of a folder
            return f"https://github.com/{repository}/tree/{commit or 'HEAD'}/{path[:path.index('*')].rpartition('/')[0]}"
        return f"https://github.com/{repository}/blob/{commit or 'HEAD'}/{path}"
    if not paper:
        raise ValueError(f"{source}: {label} says no address")
    return f"https://arxiv.org/abs/{paper[1]}"


def is_scored(row):
    return row["measured"] and row["as_shipped"] and row.get("kind") != "verdict" and not row.get("undetermined") and not row["broken"]


def evenly(rows):
    """From the lowest to the highest ratio of predicted to measured."""
    rows = sorted(filter(is_scored, rows), key=lambda row: (row["as_shipped"] / row["measured"], row["label"]))
    if len(rows) <= MOST_ROWS:
        return rows
    return [rows[round(i * (len(rows) - 1) / (MOST_ROWS - 1))] for i in range(MOST_ROWS)]


def values(path):
    constants = clone.json_of(path)
    return {name: of["value"] if isinstance(of, dict) and "value" in of else of for name, of in constants.items()}


def kept(path):
    """The name under which a clone has the file that a command reads; empty where it is what the command would read anyhow."""
    if path.name.startswith("constants-") and values(path) == values(MEMORY):
        return ""
    name = path.name.replace("constants-", "memory-")
    if path.name.startswith("order-"):
        name = f"order-{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}.csv"
    clone.FILES.mkdir(exist_ok=True)
    (clone.FILES / name).write_bytes(path.read_bytes())
    return str((clone.FILES / name).relative_to(ROOT))


def command_of(row):
    words, given = [], iter(row["estimate"])
    for word in given:
        if word not in ("--constants", "--calibration", "--schedule"):
            words.append(word)
        elif name := kept(pathlib.Path(next(given))):
            words += [word, name]
    return shlex.join(words)


def row_of(about, source, row):
    time = about == "time"
    rank = "" if time else clone.WORST if row["at"] == "worst-rank" else str(row["pipeline_rank"])
    unit = 1 if time else clone.MIB
    return {"about": about, "source": source, "link": link_of(source, row["label"]),
            "where": re.sub(r" \((?:checked|from a stored)[^)]*\)", "", row["label"]), "command": command_of(row),
            "figure": "step" if time else row["kind"], "rank": rank, "unit": "s" if time else "MiB",
            "measured": f"{row['measured'] / unit:.6g}", "answered": f"{row['as_shipped'] / unit:.6g}"}


def chosen(build, about, sources):
    """The rows of what `validate` scored, as a clone asks them."""
    scored = [row_of(about, one["source"], row) for one in sources for row in evenly(one.get("rows", []))]
    rows = clone.asked(build, scored)
    for row, score in zip(rows, scored):
        if abs(float(row["answered"]) / float(score["answered"]) - 1) > MOST_OFF:
            raise SystemExit(f"scored {score['answered']}, answered {row['answered']} {row['unit']}\n{row['command']}")
    return rows


def write(rows):
    with open(clone.ROWS, "w", newline="") as file:
        writer = csv.DictWriter(file, clone.COLUMNS, lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)
    for path in clone.FILES.iterdir():
        if not any(str(path.relative_to(ROOT)) in row["command"] for row in rows):
            path.unlink()
