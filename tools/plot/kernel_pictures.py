#!/usr/bin/env python3
"""Measured and modelled TFLOP/s of products over their size, a panel for each accelerator, as one SVG.

    tools/plot/kernel_pictures.py --shared ../shared --out docs/kernels.svg

Dots are published timings (a few of each size), lines medians by size: of the timings, and of what the functions that
ship answer for the same shapes (build/release/kernel_times, data/calibrations/kernels.json).
"""
import argparse
import collections
import math
import pathlib
import statistics
import sys

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "fit"))

import kernel_tables as tables  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
WIDTH, HEIGHT, COLUMNS = 230, 170, 3
LEFT, TOP, RIGHT, BOTTOM = 40, 24, 10, 30
FEWEST = 60  # rows of a panel's curve
DOTS = 8  # of one size and type
COLOURS = {"bf16": "#1f6fb2", "fp8": "#c0562f"}
# A reader's dark mode: the paper, what is written, the grid.
DARK = ('<style>@media(prefers-color-scheme:dark){svg{fill:#ddd}.paper{fill:#14171c}path[stroke="#ddd"]{stroke:#444}'
        'circle[fill="white"]{fill:#14171c}}</style>')


def bins_of(rows):
    """Rows by size, two bins for each power of ten."""
    bins = collections.defaultdict(list)
    for flops, measured, modelled in rows:
        bins[math.floor(2 * math.log10(flops))].append((flops, measured, modelled))
    return {at: rows for at, rows in sorted(bins.items()) if len(rows) >= 5}


class Panel:
    """Where sizes and rates lie."""

    def __init__(self, rows, x, y):
        self.x, self.y = x, y
        sizes = [flops for of in rows.values() for flops, _, _ in of]
        self.least, self.most = math.log10(min(sizes)), math.log10(max(sizes))
        top = max(rate for of in rows.values() for _, *rates in of for rate in rates) * 1.05
        step = 10 ** math.floor(math.log10(top))
        self.step = next(step * s for s in (0.2, 0.5, 1, 2) if top / (step * s) <= 6)
        self.top = self.step * math.ceil(top / self.step)

    def place(self, flops, rate):
        across = (math.log10(flops) - self.least) / (self.most - self.least)
        return (self.x + LEFT + across * (WIDTH - LEFT - RIGHT),
                self.y + HEIGHT - BOTTOM - rate / self.top * (HEIGHT - TOP - BOTTOM))

    def axes(self, name):
        left, right = self.x + LEFT, self.x + WIDTH - RIGHT
        bottom = self.y + HEIGHT - BOTTOM
        yield f'<text x="{left}" y="{self.y + 16}" font-weight="bold">{name}</text>'
        rate = 0
        while rate <= self.top * 1.001:
            y = self.place(10**self.least, rate)[1]
            yield f'<path d="M{left} {y:.0f}H{right}" stroke="#ddd"/>'
            yield f'<text x="{left - 4}" y="{y + 3:.0f}" text-anchor="end">{rate:g}</text>'
            rate += self.step
        for power in range(math.ceil(self.least), math.floor(self.most) + 1):
            x = self.place(10.0**power, 0)[0]
            yield f'<path d="M{x:.0f} {bottom}v3" stroke="#888"/>'
            yield f'<text x="{x:.0f}" y="{bottom + 13}" text-anchor="middle">{10.0**power / 1e12:g}</text>'

    def curves(self, type_, rows):
        colour, bins = COLOURS[type_], bins_of(rows)
        dots = [self.place(flops, measured) for of in bins.values() for flops, measured, _ in of[::max(1, len(of) // DOTS)]]
        path = "".join(f"M{x:.0f} {y:.0f}h0" for x, y in dots)
        yield f'<path d="{path}" stroke="{colour}" stroke-width="2.6" stroke-linecap="round" opacity="0.35"/>'
        for which, style in ((1, ""), (2, ' stroke-dasharray="5 3"')):
            points = [self.place(statistics.median(row[0] for row in of), statistics.median(row[which] for row in of))
                      for of in bins.values()]
            path = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
            yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.6"{style}/>'


def picture(by_accelerator):
    columns, rows = COLUMNS, math.ceil(len(by_accelerator) / COLUMNS)
    width, height = columns * WIDTH, rows * HEIGHT + 40
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="9" fill="#333">')
    yield DARK
    yield f'<rect class="paper" width="{width}" height="{height}" fill="white"/>'
    for number, (name, of) in enumerate(sorted(by_accelerator.items())):
        panel = Panel(of, number % columns * WIDTH, number // columns * HEIGHT)
        yield from panel.axes(name)
        for type_, timings in sorted(of.items()):
            yield from panel.curves(type_, timings)
    at = height - 24
    yield (f'<text x="{LEFT}" y="{at}">TFLOP/s over TFLOP of a product, m, n, k at least 1,024. Dots: timings; '
           'solid: their median by size; dashed: the model for the same shapes.</text>')
    for number, (type_, colour) in enumerate(sorted(COLOURS.items())):
        x = LEFT + 90 * number
        yield f'<path d="M{x} {at + 12}h20" stroke="{colour}" stroke-width="2"/>'
        yield f'<text x="{x + 25}" y="{at + 15}">{"bf16, fp16" if type_ == "bf16" else type_}</text>'
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shared", type=pathlib.Path, default=ROOT / "../shared")
    parser.add_argument("--program", type=pathlib.Path, default=ROOT / "build/release/kernel_times")
    parser.add_argument("--out", type=pathlib.Path, default=ROOT / "docs/kernels.svg")
    options = parser.parse_args()
    timings = list(tables.products(options.shared / "kernels"))
    known = {path.stem.lower() for folder in ("data", "tests/kernels") for path in (ROOT / folder / "accelerators").glob("*.json")}
    counts = collections.Counter((timing.accelerator, timing.shape[0]) for timing in timings)
    timings = [timing for timing in timings if counts[timing.accelerator, timing.shape[0]] >= FEWEST
               and timing.accelerator.lower().removeprefix("intel-") in known]
    guesses = tables.predicted(options.program, ROOT, timings, ROOT / "data/calibrations/kernels.json")
    by_accelerator = collections.defaultdict(lambda: collections.defaultdict(list))
    for timing, guess in zip(timings, guesses):
        type_, m, n, k, count, _ = timing.shape
        flops = 2.0 * m * n * k * count
        by_accelerator[timing.accelerator][type_].append((flops, flops / timing.seconds / 1e12, flops / guess / 1e12))
    options.out.write_text("\n".join(picture(by_accelerator)) + "\n")
    print(f"{options.out}: {len(by_accelerator)} accelerators, {len(timings)} timings")
    return 0


if __name__ == "__main__":
    sys.exit(main())
