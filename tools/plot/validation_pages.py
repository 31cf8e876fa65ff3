#!/usr/bin/env python3
"""How wrong predictions are on published runs, as pages: docs/validation/*.md, a picture of residuals for each.

    tools/plot/validation_pages.py                         writes the pages from docs/validation/figures.json
    tools/plot/validation_pages.py --check                 says whether they are what it would write
    tools/plot/validation_pages.py --program build/release/trainwright --measurements ../shared/measurements
                                                      asks `validate` for the figures first (minutes)
    ... --about memory                                asks for these alone: time, memory, choice

Beside the figures it writes docs/validation/rows.csv, of each source at most 21 rows with their commands, evenly from the lowest to
the highest ratio of predicted to measured (tests/rows/clone.py asks them again), and what the report shows: their ratios in
data/calibrations/residuals.json, and the errors of step times in data/calibrations/accuracy.json.
"""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = ROOT / "docs/validation"
FIGURES = PAGES / "figures.json"
FIGURE = r"\d+\.\d %"
ACCURACY = ROOT / "data/calibrations/accuracy.json"

sys.path.append(str(ROOT / "tests/rows"))
import bars  # noqa: E402
import clone  # noqa: E402
import published_rows  # noqa: E402

# What others reach. "ran": the program itself, on the same rows; "published": by its authors, on rows of their own choice.
PEERS = {
    "time": [
        ("aleph-alpha-2023", "SimuMax 1.2", "12.1 %; 9.9 % leaving one sweep out", "ran"),
        ("aleph-alpha-2023", "Calculon", "22.1 %", "ran"),
        ("aleph-alpha-2023", "llm-analysis", "44.1 %; 15.4 % leaving one sweep out", "ran"),
        ("aleph-alpha-2023", "one MFU for each attention kernel", "14.9 %", "ran"),
        ("simumax_b200", "SimuMax 1.2", "5.6 %", "published"),
        ("korthikanti2022", "Calculon", "3.65 %", "published"),
        ("vtrain_single", "vTrain", "8.37 %", "published"),
        ("vtrain_multi", "vTrain", "14.73 %", "published"),
        ("sailor", "Sailor", "8.9 %", "published"),
    ],
    "memory": [
        ("aleph-alpha-2023", "SimuMax 1.2", "84.5 % right, 122 missed OOMs; 87.6 % and 75 with its margins", "ran"),
        ("aleph-alpha-2023", "Calculon", "72.2 %, 268 missed OOMs", "ran"),
        ("aleph-alpha-2023", "llm-analysis", "74.4 %, 245 missed OOMs; 78.0 % and 199 by its peak", "ran"),
        ("aleph-alpha-2023", "Megatron's formula", "78.7 %, 92 missed OOMs and 113 false OOMs", "ran"),
        ("simumax_b200", "SimuMax 1.2", "allocated 0.46 %, reserved 1.68 %", "published"),
        ("sailor", "Sailor", "5.9 %", "published"),
    ],
    "choice": [
        ("aleph-alpha-2023", "SimuMax 1.2", "7.1 % longer than the best, 25 % at worst; 3 to 5 of 10 first picks run out of memory", "ran"),
        ("aleph-alpha-2023", "Calculon", "6.2 %, 34 %; 9.7 of 10", "ran"),
        ("aleph-alpha-2023", "llm-analysis", "7.6 %, 34 %; 8.5 of 10", "ran"),
        ("aleph-alpha-2023", "a random pick", "43 %", "ran"),
    ],
}


# What was set out to be reached, in per cent, before any of it was built: mean errors, unless it says otherwise. Of sources with rows
# that contradict themselves, those without these rows count.
GOALS = {
    "held_out": [("aleph-alpha-2023", 3.5), ("korthikanti2022", 2), ("simumax_b200", 3.5), ("zero-bubble", 3.4), ("vocab_parallel_artifact", 5),
                 ("vtrain_single", 5.5), ("vtrain_multi", 7.5), ("sailor", 6), ("vendor-dense", 4.7), ("vendor-moe", 18),
                 ("vendor-moe, median", 13), ("nanotron_playbook, median", 8), ("llm_foundry", 5), ("flagperf", 10),
                 ("bigscience_bloom_prequel", 10), ("internevo", 10), ("torchtitan", 15)],
    "as_shipped": [("vendor-dense", 7), ("aleph-alpha-2023", 15), ("simumax_b200", 15), ("vtrain_multi", 25), ("torchtitan", 25),
                   ("bigscience_bloom_prequel", 18), ("dgxc_benchmarking", 18), ("flagperf", 18), ("internevo", 18), ("korthikanti2022", 18),
                   ("llm_foundry", 18), ("megatron_bridge", 18), ("mlperf", 18), ("nanotron_playbook", 18), ("nemo_24_07", 18), ("sailor", 18),
                   ("vendor-moe", 18), ("vocab_parallel", 18), ("vocab_parallel_artifact", 18), ("vtrain_single", 18), ("zero_bubble", 18)],
    "one_row": [("aleph-alpha-2023", 8), ("simumax_b200", 8), ("vtrain_multi", 12)],
}
PICKS = [("as_shipped", "regret_mean", "mean", 4), ("held_out", "regret_mean", "mean", 1), ("held_out", "regret_max", "worst", 3)]
LEAST_INSIDE = 80  # per cent of each source's runs, as shipped
COMPOSED = {"vtrain_single"}  # of a few measured layer times, so that intervals say nothing about it

# The page about step times has a table of these, the others stand in the page of validation alone.
TOLD = [("simumax_b200", "SimuMax on B200"), ("zero_bubble", "zero bubble"), ("flagperf", "FlagPerf"), ("vendor-dense", "NVIDIA's dense runs"),
        ("aleph-alpha-2023", "Aleph Alpha's sweep on A100"), ("vocab_parallel", "vocabulary parallelism"), ("internevo", "InternEvo"),
        ("torchtitan", "torchtitan"), ("llm_foundry", "llm-foundry"), ("vendor-moe", "NVIDIA's MoE recipes"),
        ("vtrain_multi", "vTrain, several nodes"), ("bigscience_bloom_prequel", "BLOOM"), ("sailor", "Sailor"), ("nanotron_playbook", "nanotron")]

# Rows of index.md, some of which the READMEs have, by the counts in their second column, and whose errors they tell: as shipped, then held out.
READMES = ["README.md", "README.zh-CN.md"]
README_ROWS = {("401",): ["aleph-alpha-2023"], ("44", "272"): ["simumax_b200", "dgxc_benchmarking"], ("54",): ["internevo"],
               ("162", "131"): ["vocab_parallel", "zero_bubble"], ("300", "37"): ["llm_foundry", "torchtitan"], ("189",): ["vendor-moe"],
               ("1,715",): ["nanotron_playbook"]}

# ---- figures ------------------------------------------------------------------------------------

def asked(program, about, measurements, files):
    words = [program, "validate", about, "--measurements", str(measurements), "--json"]
    words += [] if about == "choice" else ["--rows", "--files", files]
    return json.loads(subprocess.run(words, check=True, capture_output=True, text=True).stdout)["sources"]


def without_rows(value):
    """The scores alone, to six digits."""
    if isinstance(value, dict):
        return {key: without_rows(one) for key, one in value.items() if key != "rows" or isinstance(one, int)}
    if isinstance(value, list):
        return [without_rows(one) for one in value]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def renewed(figures, about, sources):
    figures[about] = [without_rows(one) for one in sources if about != "time" or "rows" in one["as_shipped"]]


def lines_of(tables, remark=""):
    """JSON with a line for each source."""
    parts = [f'  "{name}": [\n' + ",\n".join(f"    {json.dumps(one)}" for one in rows) + "\n  ]" for name, rows in tables.items()]
    return remark + "{\n" + ",\n".join(parts) + "\n}\n"


def stored(path):
    return clone.json_of(path) if path.exists() else {}


REMARK = """// What is left between predictions and published runs, as shipped: 100 x (predicted / measured - 1). Of each source at most 21
// values, evenly from the lowest to the highest; rows that contradict themselves are left out. Written by
// tools/plot/validation_pages.py of what `trainwright validate` says.
"""


ACCURACY_REMARK = """// How far predictions were off, as shipped: with constants that were fitted without the source. Mean
// of |predicted / measured - 1| in per cent; `inside` is the share of runs inside the 90 % interval.
// The tables of docs/validation/time.md (written with it by tools/plot/validation_pages.py) and docs/dev/memory.md (by hand);
// a test compares them.
"""


def errors_of_time(sources):
    return [{"source": one["source"], "runs": one["as_shipped"]["rows"], "error": round(100 * one["as_shipped"]["mape"], 1),
             "inside": round(100 * one["as_shipped"]["coverage_90"], 1)} for one in sources if one["stacks"]]


# ---- pictures -----------------------------------------------------------------------------------

STYLE = """<style>text{fill:#333}.grid{stroke:#ccc}.zero{stroke:#666}.dot{fill:#1769aa}.box{fill:#1769aa;fill-opacity:.22}.mid{stroke:#c2410c}
@media(prefers-color-scheme:dark){text{fill:#ddd}.grid{stroke:#555}.zero{stroke:#aaa}.dot{fill:#6db7f2}.box{fill:#6db7f2}.mid{stroke:#fb923c}}</style>
"""


def picture(rows, most, title):
    """Ratios on a logarithmic axis; what is beyond its ends is drawn at them."""
    left, width, row, top = 190, 470, 20, 30
    height = top + row * len(rows) + 34

    def x(off):
        share = math.log(max(1 + off / 100, 1e-9)) / math.log(most)
        return left + width / 2 * (1 + max(-1, min(1, share)))

    text = (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {left + width + 20} {height}" width="{left + width + 20}" '
            f'height="{height}" font-family="sans-serif" font-size="11" role="img">\n<title>{title}</title>\n{STYLE}')
    end = top + row * len(rows)
    for ratio in (1 / most, 1 / math.sqrt(most), 1, math.sqrt(most), most):
        at = x(100 * (ratio - 1))
        text += f'<path class="{"zero" if ratio == 1 else "grid"}" d="M{at:.0f} {top}V{end}"/>'
        text += f'<text x="{at:.0f}" y="{end + 14}" text-anchor="middle">{ratio:.3g}</text>\n'
    text += f'<text x="{left + width / 2:.0f}" y="{end + 29}" text-anchor="middle">predicted / measured</text>\n'
    text += f'<text x="{left + width / 2 - 8:.0f}" y="{top - 12}" text-anchor="end">too little</text>'
    text += f'<text x="{left + width / 2 + 8:.0f}" y="{top - 12}">too much</text>\n'
    for number, one in enumerate(rows):
        y, off = top + row * number + row / 2, one["off"]
        text += f'<text x="{left - 8}" y="{y + 4:.0f}" text-anchor="end">{one["source"]}</text>'
        quarter = (len(off) - 1) // 4
        low, high, middle = x(off[quarter]), x(off[-1 - quarter]), x(off[len(off) // 2])
        text += f'<rect class="box" x="{low:.1f}" y="{y - 7:.0f}" width="{max(high - low, 1):.1f}" height="14"/>'
        text += "".join(f'<circle class="dot" cx="{x(value):.1f}" cy="{y:.0f}" r="2"/>' for value in off)
        text += f'<path class="mid" stroke-width="2" d="M{middle:.1f} {y - 8:.0f}v16"/>\n'
    return text + "</svg>\n"


# ---- pages --------------------------------------------------------------------------------------

def percent(share, digits=1):
    return "" if share is None else f"{100 * share:.{digits}f} %"


def table(head, rows):
    marks = ["---"] + ["---:"] * (len(head) - 1)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in [head, marks, *rows]) + "\n"


def peers(about):
    rows = [[source, name, figure, how] for source, name, figure, how in PEERS[about]]
    text = "| source | program | error | how it is known |\n|---|---|---|---|\n"
    return "## Beside others\n\n" + text + "".join("| " + " | ".join(row) + " |\n" for row in rows) + (
        "\n*ran*: the program was run on the same rows, as it comes. *published*: by its authors, of their own rows, mostly with constants "
        "measured on that machine.\n")


HOW = """*Out of the box* is what `estimate` answers with parameters fitted without the source: the accuracy to expect on an unseen cluster.
*Cross-validated* is with the source's other folds (sweep, model size, release) measured. Errors are means of |predicted / measured - 1|; *90 %
coverage* is the share of runs inside the 90 % interval.
"""
SHOWN = """Each dot is a run out of the box, at most {} of each source, evenly from the lowest to the highest ratio. The box holds the middle half, the line is
the median. Internally inconsistent rows are excluded; what is beyond the axis is drawn at its end.
""".format(published_rows.MOST_ROWS)
MADE = "*Made by `tools/plot/validation_pages.py` of what `trainwright validate {}` says.*\n"


def time_page(figures):
    sources, rows = figures["time"], []
    for one in sources:
        shipped, held = one["as_shipped"], one["held_out"]
        name = one["source"] if one["stacks"] else f"*{one['source']}*"
        rows.append([name, f"{shipped['rows']:,}".replace(",", ""), percent(shipped["mape"]), percent(shipped.get("coverage_90")),
                     percent(one.get("one_row", {}).get("mape")), percent(held["mape"]), percent(held["median"]),
                     percent(held.get("coverage_90"))])
        if "without_broken" in shipped:
            whole, other = shipped["without_broken"], held.get("without_broken", {})
            rows.append(["&nbsp; without inconsistent rows", str(whole["rows"]), percent(whole["mape"]), "", "", percent(other.get("mape")),
                         percent(other.get("median")), ""])
    head = ["runs", "rows", "out of the box", "90 % coverage", "one run", "cross-validated", "median", "90 % coverage"]
    return ("# Step time against published runs\n\n" + HOW + "*One run* is with one run of the source measured, the mean over such runs. The form "
            "and the default values of the\nparameters were chosen with all of these rows in view. The model and its limits: "
            "[step time](../time.md).\n\n"
            "![Predicted over measured step times by source](time.svg)\n\n" + SHOWN + "\n" + table(head, rows) +
            "\nIn italics: rows of several sources together. Inconsistent: rows whose own figures contradict each other.\n\n" +
            goals(figures) + peers("time") + "\n" + MADE.format("time"))


KINDS = {"as_shipped": "out of the box", "held_out": "cross-validated", "one_row": "one run"}


def goals(figures):
    """What was missed, and how many were reached."""
    of = {one["source"]: one for one in figures["time"]}
    asked = []
    for how, wanted in GOALS.items():
        for name, goal in wanted:
            source, _, median = name.partition(", ")
            score = of[source][how]
            asked.append((name, KINDS[how], score.get("without_broken", score)[median or "mape"], goal / 100, "at most"))
    asked += [(f"{one['source']}, 90 % coverage", "out of the box", one["as_shipped"]["coverage_90"], LEAST_INSIDE / 100, "at least")
              for one in figures["time"] if one["stacks"] and one["source"] not in COMPOSED]
    sweeps = next(one for one in figures["choice"] if one["source"] == "aleph-alpha-2023")
    asked += [(f"top-1 in the A100 sweep, {word}", KINDS[how], sweeps[how][key], goal / 100, "at most") for how, key, word, goal in PICKS]
    missed = [[name, how, percent(figure), f"{bound} {100 * goal:g} %"] for name, how, figure, goal, bound in asked
              if (figure > goal if bound == "at most" else figure < goal)]
    return ("## Targets\n\nOf " + f"{len(asked)} targets that were set beforehand, {len(asked) - len(missed)} are reached. These are not; "
            "why, and what was tried:\n[step time](../time.md).\n\n" +
            table(["runs", "what", "figure", "target"], missed) + "\n")


def told_in_short(sources):
    """What the page about step times says of them."""
    of = {one["source"]: one for one in sources}
    rows = sorted(((of[source], name) for source, name in TOLD), key=lambda row: row[0]["as_shipped"]["mape"])
    text = table(["runs", "out of the box", "one run", "cross-validated"],
                 [[name, percent(one["as_shipped"]["mape"]), percent(one.get("one_row", {}).get("mape")), percent(one["held_out"]["mape"])]
                  for one, name in rows])
    own = [one for one in sources if one["stacks"]]
    worse = [one["one_row"]["mape"] - one["as_shipped"]["mape"] for one in own if one["one_row"]["mape"] > one["as_shipped"]["mape"]]
    halved = sum(one["one_row"]["mape"] < 0.6 * one["as_shipped"]["mape"] for one in own)
    return text + (f"\nOne run takes the error to less than six tenths in {halved} of {len(own)} sources; in {len(worse)} it adds "
                   f"{100 * min(worse):.1f} to {100 * max(worse):.1f} points.\n")


def with_errors(text, figures, expected):
    """A page with these errors in their rows, and how much longer the pick of the A100 sweep takes."""
    of = {one["source"]: one for one in figures["time"]}
    sweeps = next(one for one in figures["choice"] if one["source"] == "aleph-alpha-2023")
    lines, found = text.split("\n"), 0
    for place, line in enumerate(lines):
        cells = line.split(" | ")
        if len(cells) != 3 or "memory.md" in line:
            continue
        counts = re.findall(r"(?<![\w.,])\d[\d,]*(?![\w.])", cells[1])
        sources = next((of_row for key, of_row in README_ROWS.items() if list(key) == counts[:len(key)]), [])
        picks = "choice.md" in cells[2]
        if not sources and not picks or len(re.findall(FIGURE, cells[2])) != (2 if picks else 2 * len(sources)):
            continue
        shares = ([sweeps[how]["regret_mean"] for how in ("as_shipped", "held_out")] if picks else
                  [of[source][how]["mape"] for how in ("as_shipped", "held_out") for source in sources])
        told = iter(shares)
        cells[2] = re.sub(FIGURE, lambda _: percent(next(told)), cells[2])
        lines[place], found = " | ".join(cells), found + 1
    if found != expected:
        sys.exit(f"{found} rows tell errors of step times, expected {expected}")
    return "\n".join(lines)


def with_part(text, name, made):
    """A page with a part that is made, between two marks."""
    start, end = f"<!-- {name}: made by tools/plot/validation_pages.py -->\n", "<!-- made -->"
    head, rest = text.split(start)
    return head + start + "\n" + made + "\n" + rest[rest.index(end):]


def bar_of(source, figure):
    for name, what, least, most in bars.BARS:
        if name == source and what == figure:
            return (f"at most {100 * most:.3g} %" if least == 0 else f"at least {100 * least:.3g} %") if most <= 1 else ""
    return ""


def memory_page(sources):
    counters = {"": "", "_allocated": ", allocated", "_reserved": ", reserved", "_static": ", between steps"}
    errors, verdicts = [], []
    for one in sources:
        shipped, held = one["as_shipped"], one["held_out"]
        kinds = [kind for kind in counters if kind and f"mape{kind}" in shipped] or [""] if "mape" in shipped else []
        for kind in kinds:
            errors.append([one["source"] + counters[kind], percent(shipped[f"mape{kind}"], 2), percent(shipped[f"median{kind}"], 2),
                           percent(shipped[f"worst{kind}"]), percent(held.get(f"mape{kind}"), 2),
                           bar_of(one["source"], f"as_shipped.mape{kind}")])
        if "without_broken" in shipped and "mape" in shipped["without_broken"]:
            whole, other = shipped["without_broken"], held.get("without_broken", {})
            errors.append(["&nbsp; without inconsistent rows", percent(whole["mape"], 2), percent(whole["median"], 2), percent(whole["worst"]),
                           percent(other.get("mape"), 2), bar_of(one["source"], "as_shipped.without_broken.mape")])
        if "verdicts" in shipped:
            verdicts.append([one["source"], str(shipped["verdicts"]), percent(shipped["fit_right"]),
                             f"{shipped['false_fits']} / {shipped['false_ooms']}", percent(held["fit_right"]),
                             f"{held['false_fits']} / {held['false_ooms']}", bar_of(one["source"], "as_shipped.fit_right")])
    cover = [[one["source"], str(one["as_shipped"]["coverage_rows"]), percent(one["as_shipped"]["coverage_90"]),
              percent(one["as_shipped"]["median_half_width"]), percent(one["held_out"].get("coverage_90")),
              bar_of(one["source"], "as_shipped.coverage_90")] for one in sources if "coverage_90" in one["as_shipped"]]
    left_out = [[one["source"], reason, str(count)] for one in sources
                for reason, count in [*one["skipped"].items(), *((f"rejected by rule {rule}", n) for rule, n in one["refused"].items())]]
    return ("# Memory against published runs\n\n" + HOW + "The model and its limits: "
            "[memory](../memory.md).\n\n![Predicted over measured memory by source](memory.svg)\n\n" + SHOWN + "\n## Bytes\n\n" +
            table(["readings", "out of the box", "median", "worst", "cross-validated", "CI threshold"], errors) + "\n## Whether it fits\n\n" +
            table(["fit or OOM", "rows", "right", "missed / false OOMs", "cross-validated", "missed / false OOMs", "CI threshold"], verdicts) +
            "\n## 90 % coverage\n\n" + table(["readings", "rows", "out of the box", "half width of the interval (median)", "cross-validated", "CI threshold"], cover) +
            "\n" + peers("memory") + "\n## Not scored\n\n" + "| source | why | rows |\n|---|---|---:|\n" +
            "".join("| " + " | ".join(row) + " |\n" for row in left_out) + "\n" + MADE.format("memory"))


SHOWN_KEYS = ("tp", "pp", "vpp", "dp", "cp", "ep", "zero", "mbs")


def in_short(layout):
    """What sweeps vary, without what is 1."""
    said = []
    for key, _, value in (part.partition("=") for part in layout.split(",")):
        if key == "sp" or key == "recompute" and value != "none":
            said.append(value or key)
        elif key == "mbs" or key in SHOWN_KEYS and value != "1":
            said.append(f"{key}{value}")
    return " ".join(said)


def regret(score, digits=1):
    return f"{100 * score['regret']:.{digits}f} %" + (", OOM first" if score["out_of_memory"] else "")


def sweep_rows(sources):
    rows = []
    for one in sources:
        for sweep in one["sweeps"]:
            worst = sweep["as_shipped"]["regret"] == one["as_shipped"]["regret_max"] > 0
            mark = "**" if worst else ""
            rows.append([f"{one['source']}: {sweep['sweep']}", f"{sweep['tried']}, {sweep['ran']}", in_short(sweep["as_shipped"]["layout"]),
                         mark + regret(sweep["as_shipped"]) + mark, regret(sweep["held_out"]), regret(sweep["simple"]),
                         f"{100 * sweep['random']['regret']:.1f} %"])
    return rows


def beside_the_rule(sources):
    """Where the simple rule picks better."""
    said = ""
    for one in sources:
        ours, rule = one["as_shipped"]["regret_mean"], one["simple"]["regret_mean"]
        if ours > rule:
            lost = sum(sweep["as_shipped"]["regret"] > sweep["simple"]["regret"] for sweep in one["sweeps"])
            said += (f"\n**On {one['source']} the simple rule picks better**: {100 * rule:.1f} % against {100 * ours:.1f} % out of the box on average; its pick is "
                     f"the faster one in {lost}\nof {len(one['sweeps'])} sweeps. With other folds of the source measured ours is {100 * one['held_out']['regret_mean']:.1f} %.\n")
    return said


def choice_page(sources):
    def regrets(score):
        return " / ".join(f"{100 * score[f'regret_{which}']:.1f}" for which in ("mean", "median", "max")) + " %"

    rows = [[f"{one['source']}, {len(one['sweeps'])}", regrets(one["as_shipped"]), regrets(one["held_out"]), regrets(one["simple"]),
             str(one["as_shipped"]["first_picks_oom"])] for one in sources]
    return ("# Which layout is picked, against published sweeps\n\nA sweep is everything that somebody tried for one model, one number of "
            "accelerators and one batch. Picked is the layout that is predicted\nto be the fastest among those that fit. The figures say how much "
            "longer its measured step takes than the best one measured, mean /\nmedian / worst over the sweeps. The simple rule is most data "
            "parallelism, then least tensor parallelism. What limits it: [step time](../time.md).\n\n" +
            table(["sweeps", "out of the box", "cross-validated", "simple rule", "first picks that ran out of memory"], rows) + beside_the_rule(sources) +
            "\n" + peers("choice") +
            "\n## Every sweep\n\nWith how many were tried and how many of them ran, and the layout that is picked out of the box. *OOM first*: the first pick ran out "
            "of memory,\nso the first one that ran counts. The worst of each source is bold. *Random*: the mean over all that ran.\n\n" +
            table(["sweep", "tried, ran", "picked", "out of the box", "cross-validated", "simple rule", "random"], sweep_rows(sources)) +
            "\n" + MADE.format("choice"))


def pages(figures, residuals):
    return {
        "time.md": time_page(figures),
        "memory.md": memory_page(figures["memory"]),
        "choice.md": choice_page(figures["choice"]),
        "time.svg": picture(residuals["time"], 4, "Predicted over measured step times by source"),
        "../time.md": with_part((PAGES.parent / "time.md").read_text(), "left-out", told_in_short(figures["time"])),
        "index.md": with_errors((PAGES / "index.md").read_text(), figures, len(README_ROWS) + 1),
        **{f"../../{name}": with_errors((ROOT / name).read_text(), figures, 4) for name in READMES},
        "memory.svg": picture(residuals["memory"], 2, "Predicted over measured memory by source"),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if a page would change")
    parser.add_argument("--program", type=pathlib.Path, help="asks it for the figures")
    parser.add_argument("--measurements", type=pathlib.Path, default=ROOT.parent / "shared/measurements")
    parser.add_argument("--about", nargs="*", choices=["time", "memory", "choice"], default=["time", "memory", "choice"])
    options = parser.parse_args()
    figures, rows = stored(FIGURES), clone.stored() if clone.ROWS.exists() else []
    for about in options.about if options.program else []:
        program = options.program.resolve()
        with tempfile.TemporaryDirectory() as files:
            sources = asked(program, about, options.measurements.resolve(), files)
            renewed(figures, about, sources)
            if about != "choice":
                rows = sorted([row for row in rows if row["about"] != about] + published_rows.chosen(program.parent, about, sources),
                              key=lambda row: row["about"])
    residuals = {about: clone.ratios(rows, about) for about in ("time", "memory")}
    made = pages(figures, residuals)
    if options.check:
        stale = [name for name, text in made.items() if (PAGES / name).read_text() != text]
        print("\n".join(f"{(PAGES / name).resolve().relative_to(ROOT)} is not what tools/plot/validation_pages.py writes" for name in stale) or f"{len(made)} pages are as written")
        return 1 if stale else 0
    PAGES.mkdir(exist_ok=True)
    FIGURES.write_text(lines_of(figures))
    clone.RESIDUALS.write_text(lines_of(residuals, REMARK))
    published_rows.write(rows)
    ACCURACY.write_text(lines_of({**stored(ACCURACY), "time": errors_of_time(figures["time"])}, ACCURACY_REMARK))
    for name, text in made.items():
        (PAGES / name).write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
