#!/usr/bin/env python3
"""What a search costs against the size of a cluster, as an SVG and a table.

    tools/plot/search_plot.py build/release/trainwright --out docs/search.svg

`plan` for 8 to 1,048,576 accelerators, with batches that stay as they are: search space (layouts), branches that a bound was
asked for, layouts whose memory was, and CPU time (s) of the whole command with what more memory would be
worth.
"""
import argparse
import json
import math
import pathlib
import resource
import subprocess
import sys

from scale_plot import HEIGHT, LEFT, PANEL, Axes, path_of

SIZES = [2**power for power in range(3, 21)]
TEN_TRILLION = str(pathlib.Path(__file__).resolve().parents[2] / "examples/moe-10t.json")
MODELS = [("Llama-3.1-8B, H100", "llama-3.1-8b", "H100", 1024, 8192, 8), ("Llama-3.1-405B, H100", "llama-3.1-405b", "H100", 16384, 8192, 128),
          ("DeepSeek-V3, H800", "deepseek-v3", "H800", 15360, 4096, 512), ("10T mixture of experts, GB200", TEN_TRILLION, "GB200", 32768, 8192, 16384)]
COLOURS = ["#1f6fb2", "#c0562f", "#3a9b6f", "#7a4fa3"]
COUNTS = [("search space (layouts)", "space"), ("bounds", "bounded"), ("layouts evaluated", "evaluated")]
# A reader's dark mode: the paper, what is written, the grid.
DARK = ('<style>@media(prefers-color-scheme:dark){svg{fill:#ddd}.paper{fill:#14171c}path[stroke="#ddd"]{stroke:#444}'
        'circle[fill="white"]{fill:#14171c}}</style>')


def spent():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def answer(program, model, on, batch, seq):
    before = spent()
    done = subprocess.run([program, "plan", model, "--on", on, "--batch", str(batch), "--seq", str(seq), "--json"],
                          capture_output=True, text=True)
    document = json.loads(done.stdout or "{}")
    if "search" not in document:
        sys.exit(f"{model} on {on}: {done.stdout[:600]}{done.stderr}")
    return {**document["search"], "seconds": spent() - before, "end": document["end"]}


def ten_text(ten):
    """0.1, 10, 1k, 10M"""
    power = max(0, min(2, ten // 3))
    return f"{10.0 ** (ten - 3 * power):g}{['', 'k', 'M'][power]}"


def panel(title, key, curves, x, y, sizes):
    values = [found[key] for _, answers in curves for _, found in answers if found[key] > 0]
    tens = range(math.floor(math.log10(min(values))), math.ceil(math.log10(max(values))) + 1)
    axes = Axes(x, y, 10.0**tens[0], 10.0**tens[-1], True, sizes)
    yield from axes.drawn(title, [(10.0**ten, ten_text(ten)) for ten in tens])
    for colour, (_, answers) in zip(COLOURS, curves):
        points = [axes.place(ranks, found[key]) for ranks, found in answers if found[key] > 0]
        yield f'<path d="{path_of(points)}" fill="none" stroke="{colour}" stroke-width="1.6"/>'
        for px, py in points:
            yield f'<circle cx="{px:.1f}" cy="{py:.1f}" r="2" fill="{colour}"/>'


def picture(curves, sizes):
    width, height = PANEL * 2, 2 * HEIGHT + 30
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
           'font-family="sans-serif" font-size="10" fill="#333">')
    yield DARK
    yield f'<rect class="paper" width="{width}" height="{height}" fill="white"/>'
    for number, (title, key) in enumerate([*COUNTS, ("CPU time (s)", "seconds")]):
        yield from panel(title, key, curves, number % 2 * PANEL, number // 2 * HEIGHT, sizes)
    for number, (colour, (title, _)) in enumerate(zip(COLOURS, curves)):
        x = LEFT + number * 145
        yield f'<rect x="{x}" y="{2 * HEIGHT + 6}" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 14}" y="{2 * HEIGHT + 15}">{title}</text>'
    yield "</svg>"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--step", type=int, default=1, help="every so many doublings only")
    options = parser.parse_args()
    sizes = SIZES[::options.step]
    curves = []
    for title, model, accelerator, batch, seq, least in MODELS:
        print(f"{title}\n{'ranks':>9} {'space':>12} {'bounded':>10} {'evaluated':>10} {'judged':>7} {'CPU s':>6}  end", flush=True)
        answers = []
        for ranks in (size for size in sizes if size >= least):
            found = answer(options.program, model, f"{ranks}x{accelerator}", batch, seq)
            answers.append((ranks, found))
            print(f"{ranks:9,} {found['space']:12,} {found['bounded']:10,} {found['evaluated']:10,} {found['simulated']:7,} "
                  f"{found['seconds']:6.2f}  {found['end']}", flush=True)
        curves.append((title, answers))
    if options.out:
        options.out.write_text("\n".join(picture(curves, sizes)) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
