#!/usr/bin/env python3
"""Step time and what of it is not computing against the size of a cluster, as an SVG and a table.

    tools/plot/scale_plot.py build/release/trainwright --out docs/scale.svg

Llama-3.1-405B on H100 and DeepSeek-V3 on H800, in the layouts of their papers as soon as those fit the cluster. Batches
are those of the papers up to 16,384 accelerators and grow with the cluster from there on. Published steps are marked.
"""
import argparse
import json
import math
import pathlib
import re
import subprocess
import sys

from production_table import RUNS

SIZES = [2**power for power in range(3, 18)]
PANEL, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 330, 210, 46, 26, 14, 34
GROWS = 16384  # accelerators from which on batches grow
# Parts of a step that are not computing, from the bottom up.
SHARES = [("bubble", ("bubble",), "#b9b9b9"), ("tensor parallelism", ("tensor",), "#1f6fb2"),
          ("experts", ("expert",), "#7a4fa3"), ("between stages", ("pipeline",), "#3a9b6f"),
          ("gradients and weights", ("data",), "#c0562f"), ("ranks wait for each other", ("waiting",), "#d9a62e")]
# A reader's dark mode: the paper, what is written, the grid.
DARK = ('<style>@media(prefers-color-scheme:dark){svg{fill:#ddd}.paper{fill:#14171c}path[stroke="#ddd"]{stroke:#444}'
        'circle[fill="white"]{fill:#14171c}}</style>')


def llama(ranks):
    pp = min(16, ranks // 8)
    chunks = ",vpp=4,count_embedding=1,count_loss=1" if pp == 16 else ""
    # 126 layers and both ends are 128, for a power of two of stages.
    ends = ",count_embedding=1,count_loss=1" if 1 < pp < 16 else ""
    return f"tp=8,pp={pp}{chunks}{ends},sp,zero=1,mbs=1,gbs={2048 * max(1, ranks // GROWS)},seq=8192"


def deepseek(ranks):
    ep, pp = min(64, ranks), min(16, max(1, ranks // 64))
    ends = {1: "", 2: ",first_layers=31,last_layers=30", 4: ",first_layers=15,last_layers=14", 8: ",first_layers=7,last_layers=6",
            16: ",first_layers=3,last_layers=2"}[pp]
    return (f"tp=1,pp={pp},ep={ep}{ends},zero=1,mbs=1,gbs={15360 * max(1, ranks // GROWS)},seq=4096,precision=fp8-blockwise,"
            "recompute=modules:norm+mla-up-projection,dispatcher=flex")


MODELS = [("Llama-3.1-405B, H100, bf16", "llama-3.1-405b", "H100", "megatron", llama),
          ("DeepSeek-V3, H800, fp8", "deepseek-v3", "H800", "megatron@0.16", deepseek)]


def measured(model, layout):
    """(ranks, seconds) of published runs with the batch of the curve."""
    runs = []
    for _, name, on, _, words, what, value, _ in RUNS:
        if name != model or what != "step":
            continue
        ranks = int(on.split("x")[0])
        batch = re.search("gbs=[0-9]+,", layout(ranks))[0]
        if batch in words:
            runs.append((ranks, value))
    return runs


def answer(program, model, on, trainer, layout):
    done = subprocess.run([program, "estimate", model, "--on", on, "--trainer", trainer, "--layout", layout, "--json"],
                          capture_output=True, text=True)
    document = json.loads(done.stdout or "{}")
    if "time" not in document:
        sys.exit(f"{on} {layout}: {done.stdout[:600]}{done.stderr}")
    return document


def short(ranks):
    """8, 2k, 1M"""
    return ranks if ranks < 1 << 10 else f"{ranks >> 10}k" if ranks < 1 << 20 else f"{ranks >> 20}M"


class Axes:
    """A panel with the logarithm of the accelerators across."""

    def __init__(self, x, y, least, most, log, sizes=SIZES):
        self.x, self.y, self.log, self.sizes = x, y, log, sizes
        self.least, self.most = (math.log10(least), math.log10(most)) if log else (least, most)

    def place(self, ranks, value):
        across = math.log2(ranks / self.sizes[0]) / math.log2(self.sizes[-1] / self.sizes[0])
        up = ((math.log10(value) if self.log else value) - self.least) / (self.most - self.least)
        return (self.x + LEFT + across * (PANEL - LEFT - RIGHT), self.y + HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM))

    def drawn(self, title, ticks):
        left, right, bottom = self.x + LEFT, self.x + PANEL - RIGHT, self.y + HEIGHT - BOTTOM
        yield f'<text x="{left}" y="{self.y + 16}" font-weight="bold">{title}</text>'
        for value, text in ticks:
            y = self.place(self.sizes[0], value)[1]
            yield f'<path d="M{left} {y:.1f}H{right}" stroke="#ddd"/>'
            yield f'<text x="{left - 4}" y="{y + 3:.1f}" text-anchor="end">{text}</text>'
        for ranks in self.sizes[::2]:
            x = self.place(ranks, 1)[0]
            yield f'<path d="M{x:.1f} {bottom}v3" stroke="#888"/>'
            yield f'<text x="{x:.1f}" y="{bottom + 14}" text-anchor="middle">{short(ranks)}</text>'
        yield f'<text x="{right}" y="{bottom + 26}" text-anchor="end">accelerators</text>'


def path_of(points):
    return "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in points)


def step_panel(title, answers, published, x):
    most = max(time["high"] for _, time, _ in answers)
    least = min(time["low"] for _, time, _ in answers)
    tens = range(math.floor(math.log10(least)), math.ceil(math.log10(most)) + 1)
    axes = Axes(x, 0, 10.0**tens[0], 10.0**tens[-1], True)
    yield from axes.drawn(title + ": step time (s)", [(10.0**ten, f"{10.0**ten:,g}") for ten in tens])
    band = [axes.place(ranks, time["high"]) for ranks, time, _ in answers]
    band += [axes.place(ranks, time["low"]) for ranks, time, _ in reversed(answers)]
    yield f'<path d="{path_of(band)}Z" fill="#1f6fb2" opacity="0.18"/>'
    yield f'<path d="{path_of([axes.place(r, t["step"]) for r, t, _ in answers])}" fill="none" stroke="#1f6fb2" stroke-width="1.6"/>'
    for ranks, time, fits in answers:
        px, py = axes.place(ranks, time["step"])
        yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2.6" fill="{"#1f6fb2" if fits else "white"}" stroke="#1f6fb2"/>'
    for ranks, seconds in published:
        px, py = axes.place(ranks, seconds)
        yield f'<path d="M{px - 5:.1f} {py - 5:.1f}l10 10m0 -10l-10 10" stroke="#c0202f" stroke-width="2"/>'


def share_panel(answers, x):
    axes = Axes(x, HEIGHT, 0, 1, False)
    yield from axes.drawn("non-compute share of the step", [(n / 5, f"{20 * n} %") for n in range(6)])
    floor = [0.0] * len(answers)
    for _, parts, colour in SHARES:
        roof = [low + sum(time["parts"][part] for part in parts) / time["step"] for low, (_, time, _) in zip(floor, answers)]
        points = [axes.place(ranks, share) for share, (ranks, _, _) in zip(roof, answers)]
        points += [axes.place(ranks, share) for share, (ranks, _, _) in reversed(list(zip(floor, answers)))]
        yield f'<path d="{path_of(points)}Z" fill="{colour}" opacity="0.85"/>'
        floor = roof


def picture(columns):
    width, height = PANEL * len(columns), 2 * HEIGHT + 44
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="10" fill="#333">')
    yield DARK
    yield f'<rect class="paper" width="{width}" height="{height}" fill="white"/>'
    for number, (title, answers, published) in enumerate(columns):
        yield from step_panel(title, answers, published, number * PANEL)
        yield from share_panel(answers, number * PANEL)
    y = 2 * HEIGHT + 12
    for number, (name, _, colour) in enumerate(SHARES):
        x = LEFT + number % 3 * 150
        yield f'<rect x="{x}" y="{y - 8 + number // 3 * 15}" width="10" height="10" fill="{colour}" opacity="0.85"/>'
        yield f'<text x="{x + 14}" y="{y + number // 3 * 15}">{name}</text>'
    x = LEFT + 3 * 150
    yield f'<text x="{x}" y="{y}" fill="#c0202f">x published</text><text x="{x}" y="{y + 15}">hollow: does not fit</text></svg>'


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    columns = []
    for title, model, accelerator, trainer, layout in MODELS:
        answers = []
        print(f"{title}\n{'ranks':>8} {'step, s':>9} {'MFU':>6}" + "".join(f" {name:>26}" for name, _, _ in SHARES) + "  fits")
        for ranks in SIZES:
            document = answer(options.program, model, f"{ranks}x{accelerator}", trainer, layout(ranks))
            time, fits = document["time"], document["memory"]["oom"] <= 0.5
            answers.append((ranks, time, fits))
            shares = [sum(time["parts"][part] for part in parts) / time["step"] for _, parts, _ in SHARES]
            print(f"{ranks:8} {time['step']:9.2f} {time['mfu']:6.1%}" + "".join(f" {share:26.1%}" for share in shares) + f"  {fits}")
        columns.append((title, answers, measured(model, layout)))
        print("published:", columns[-1][2])
    if options.out:
        options.out.write_text("\n".join(picture(columns)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
