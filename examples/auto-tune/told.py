#!/usr/bin/env python3
"""What a tuning spared: layouts that the memory model rules out before any trial, those that were tried, how they ended.

    told.py trainwright STATUS.json [--published sweep.csv] [--svg FILE] -- MODEL --on CLUSTER ...     STATUS.json: of `tune status --json`

The words after -- are those of `estimate`. With what others have measured of every layout it also says how the ruled-out ones ended, and
draws all of them.
"""
import argparse
import concurrent.futures
import csv
import html
import json
import math
import os
import subprocess

MOST_CHANCE = 0.7  # of OOM, with which `tune` tries a layout (trainwright/tune/tune.h)
GIB = 2**30


def asked(program, words, layout):
    """(GiB of the fullest rank, OOM probability, capacity) before any trial."""
    run = subprocess.run([program, "estimate", *words, "--layout", layout, "--json"], capture_output=True, text=True)
    memory = json.loads(run.stdout)["memory"]
    return max(one["driver"] for one in memory["classes"]) / GIB, memory["oom"], memory["capacity"] / GIB


def ticks(least, most, step):
    return [step * k for k in range(math.ceil(least / step), math.floor(most / step) + 1)]


def picture(title, points, capacity):
    """points: (GiB, seconds or None, ruled out, number of its trial or None)."""
    ran = [seconds for _, seconds, _, _ in points if seconds]
    least, most, widest = 0.95 * min(ran), max(ran), max(gib for gib, *_ in points)
    first = min(gib for gib, *_ in points)

    def x(gib):
        return 70 + 620 * (gib - first) / (widest - first)

    def y(seconds):
        return 70 if seconds is None else 330 - 210 * (seconds - least) / (most - least)

    text = ('<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 720 410" font-family="sans-serif" font-size="12">\n'
            '<rect width="720" height="410" fill="#ffffff"/>\n'
            f'<text x="16" y="24" font-size="14" font-weight="bold">{html.escape(title)}</text>\n'
            '<circle cx="22" cy="44" r="5" fill="#b8b8b8"/><text x="32" y="48">ruled out by the memory model, never tried</text>\n'
            '<circle cx="322" cy="44" r="5" fill="#ffffff" stroke="#1f6fb2"/><text x="332" y="48">not worth a trial</text>\n'
            '<circle cx="462" cy="44" r="7" fill="#c0562f"/><text x="475" y="48">tried, in this order</text>\n'
            '<rect x="60" y="58" width="640" height="26" fill="#f4e3dc"/><text x="704" y="100" text-anchor="end" fill="#555555">above: ran out of memory</text>\n')
    for seconds in ticks(least, most, 20):
        text += f'<path d="M60 {y(seconds):.0f}H700" stroke="#e3e3e3"/><text x="54" y="{y(seconds) + 4:.0f}" text-anchor="end">{seconds:.0f} s</text>\n'
    for gib in ticks(first, widest, 50):
        text += f'<text x="{x(gib):.0f}" y="356" text-anchor="middle">{gib:.0f}</text>\n'
    text += (f'<text x="380" y="378" text-anchor="middle">predicted memory of the fullest rank, GiB</text><text x="16" y="398" fill="#555555">height: '
             f'measured seconds of a step</text>\n<path d="M{x(capacity):.0f} 58V340" stroke="#555555" stroke-dasharray="4 3"/>'
             f'<text x="{x(capacity) + 6:.0f}" y="336" fill="#555555">{capacity:.0f} GiB</text>\n')
    for place, (gib, seconds, out, trial) in enumerate(sorted(points, key=lambda point: point[3] or 0)):
        height = y(seconds) + (0 if seconds else place % 3 * 5 - 4)
        at = f'cx="{x(gib):.1f}" cy="{height:.1f}"'
        if trial:
            text += (f'<circle {at} r="8" fill="#c0562f"/><text x="{x(gib):.1f}" y="{height + 4:.1f}" text-anchor="middle" fill="#ffffff" '
                     f'font-size="11">{trial}</text>\n')
        else:
            text += f'<circle {at} r="4.5" ' + ('fill="#b8b8b8"/>\n' if out else 'fill="#ffffff" stroke="#1f6fb2"/>\n')
    return text + "</svg>\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("status", type=argparse.FileType())
    parser.add_argument("--published", type=argparse.FileType())
    parser.add_argument("--svg")
    parser.add_argument("words", nargs="+")
    options = parser.parse_args()
    status = json.load(options.status)
    layouts = [one["layout"] for one in status["candidates"]]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        memory = dict(zip(layouts, pool.map(lambda layout: asked(options.program, options.words, layout), layouts)))
    out = {layout for layout, (_, chance, _) in memory.items() if chance > MOST_CHANCE}
    trials = {one["layout"]: number for number, one in enumerate(status["trials"], 1)}
    ends = [one["end"] for one in status["trials"]]
    print(f"ruled out before any trial (OOM probability above {100 * MOST_CHANCE:.0f} %): {len(out)} of {len(layouts)}, {100 * len(out) / len(layouts):.0f} %")
    print(f"tried: {len(ends)} ({', '.join(f'{ends.count(end)} {end}' for end in dict.fromkeys(ends))}); stopped: {status['why']}")
    if not options.published:
        return
    rows = csv.DictReader(options.published, delimiter=";")
    measured = {row["layout"]: None if row["seconds"] == "oom" else float(row["seconds"]) for row in rows}
    ran = {layout for layout in layouts if measured[layout]}
    best = min(measured[layout] for layout in ran)
    print(f"of those ruled out {len(out - ran)} ran out of memory when their authors tried them, {len(out & ran)} ran; of the others {len(set(layouts) - out - ran)} did not run")
    print(f"the best of all measured: {best:.1f} s; found: {status['best']['step_seconds']:.1f} s, {100 * (status['best']['step_seconds'] / best - 1):.1f} % above")
    if options.svg:
        points = [(memory[layout][0], measured[layout], layout in out, trials.get(layout)) for layout in layouts]
        with open(options.svg, "w") as file:
            file.write(picture(f"{len(layouts)} published runs, {len(ends)} trials", points, next(iter(memory.values()))[2]))


if __name__ == "__main__":
    main()
