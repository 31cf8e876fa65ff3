#!/usr/bin/env python3
"""The pictures of docs/concepts/step-time.md: operators of a layer on the roofline of an accelerator, and a step with one of its micro-batches.

    tools/plot/step_pictures.py build/release/trainwright --out docs/pictures

Writes roofline.svg and micro-batch.svg: what `show work`, `show cluster` and `estimate` answer for the question of that page.
"""
import argparse
import json
import math
import pathlib
import subprocess

MODEL, ON = "llama-3.1-8b", "16xH100"
LAYOUT = "tp=2,sp,pp=2,dp=4,zero=1,mbs=1,gbs=64,seq=8192"
TEXT = 'font-family="sans-serif" font-size="11" fill="#222"'
COLOURS = {"products": "#1f6fb2", "attention": "#7a4fa3", "streams": "#3a9b6f", "loss": "#8bbf9f", "gaps": "#c9c9c9", "host": "#d9a62e",
           "tensor": "#c0562f", "context": "#d98b6b", "expert": "#a33f5f", "pipeline": "#e0b090", "bubble": "#e6e6e6", "data": "#c0562f",
           "offload": "#666", "optimizer": "#1f6fb2", "waiting": "#b9b9b9", "fixed": "#999"}
NAMES = {"products": "GEMMs", "attention": "attention", "streams": "memory-bound kernels", "loss": "loss", "gaps": "gaps", "host": "host",
         "tensor": "exposed TP", "context": "exposed CP", "expert": "exposed EP", "pipeline": "exposed PP", "bubble": "pipeline bubble",
         "data": "exposed DP", "offload": "offload", "optimizer": "optimizer", "waiting": "imbalance", "fixed": "fixed"}
ONCE = ("bubble", "data", "optimizer", "waiting", "fixed")  # the others belong to a micro-batch


def asked(program, *words):
    return json.loads(subprocess.run([program, *words, "--json"], check=True, capture_output=True, text=True).stdout)


def line(x1, y1, x2, y2, colour="#222", width=1.0, more=""):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{colour}" stroke-width="{width}" {more}/>'


def text(x, y, words, anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" {TEXT}>{words}</text>'


def saved(path, width, height, parts):
    path.write_text(f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n'
                    f'<rect width="{width}" height="{height}" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n")


def in_units(quantity):
    """"989.4TFLOP/s", "3.35TB/s" as a number."""
    scale = {"G": 1e9, "T": 1e12, "P": 1e15}
    digits = quantity.rstrip("FLOPB/sGT P")
    return float(digits) * scale[quantity[len(digits):].strip()[0]]


def roofline(program, path):
    group = asked(program, "show", "cluster", ON)["groups"][0]["accelerator"]
    peak, bandwidth = in_units(group["peak"]["bf16"]), in_units(group["memory_bandwidth"])
    stage = asked(program, "show", "work", MODEL, "--on", ON, "--layout", LAYOUT)["stages"][0]
    layer = next(piece for piece in stage["pieces"] if piece["what"] not in ("embedding", "head"))
    width, height, left, bottom = 640, 330, 60, 40
    low, high = 0.05, 20000.0

    def place(intensity, rate):
        x = left + (width - left - 20) * math.log(intensity / low) / math.log(high / low)
        return x, height - bottom - (height - bottom - 20) * math.log(rate / 1e10) / math.log(2e15 / 1e10)

    ridge = peak / bandwidth
    parts = [line(*place(low, low * bandwidth), *place(ridge, peak), width=2), line(*place(ridge, peak), *place(high, peak), width=2)]
    for power in range(-1, 5):
        x, _ = place(10.0**power, 1e10)
        parts += [line(x, height - bottom, x, height - bottom + 4), text(x, height - bottom + 16, f"{10.0**power:g}", "middle")]
    for power in range(10, 16):
        _, y = place(low, 10.0**power)
        parts += [line(left - 4, y, left, y), text(left - 8, y + 4, f"{10.0**(power - 12):g}", "end")]
    parts += [line(left, 20, left, height - bottom), line(left, height - bottom, width - 20, height - bottom),
              text(width / 2, height - 6, "FLOPs per byte moved, forward", "middle"), text(left + 6, 14, "TFLOP/s, at most"),
              text(*place(600, peak * 1.35), f"peak {peak / 1e12:.0f} TFLOP/s, bf16"),
              text(*place(0.07, 0.02 * bandwidth), f"memory {bandwidth / 1e12:.2f} TB/s")]
    points = {}  # (FLOPs per byte, a product) -> names
    for operator in layer["list"]["operators"]:
        effort = operator["forward"]
        moved = effort["bytes_read"] + effort["bytes_written"]
        flops = effort["matmul_flops"] + effort["other_flops"]
        if moved and flops:
            names = points.setdefault((round(flops / moved, 2), effort["matmul_flops"] > 0), [])
            names += [] if operator["name"] in names else [operator["name"]]
    for row, ((intensity, product), names) in enumerate(sorted(points.items(), key=lambda one: (one[0][1], one[0][0]))):
        x, y = place(intensity, min(peak, intensity * bandwidth))
        below = 18 + 14 * (row - sum(not product for _, product in points))  # products crowd below the roof
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="{COLOURS["products" if product else "streams"]}"/>')
        if product:
            parts += [line(x, y + 5, x, y + below, "#999", 0.7), text(x - 3, y + below + 3, ", ".join(names), "end")]
        else:
            parts.append(text(x + 9, y + 8, ", ".join(names)))
    saved(path, width, height, parts)


def bar(parts, y, x, width, shares, total, least):
    """Segments of a row; those too narrow for their name are named below it."""
    narrow = []
    for name, seconds in shares:
        wide = width * seconds / total
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{wide:.1f}" height="34" fill="{COLOURS[name]}" stroke="white"/>')
        words = f"{1000 * seconds:.3g} ms"
        if wide > least:
            parts += [text(x + wide / 2, y + 50, NAMES[name], "middle"), text(x + wide / 2, y + 63, words, "middle")]
        else:
            narrow.append(f"{NAMES[name]} {words}")
        x += wide
    if narrow:
        parts.append(text(14, y + 80, "then " + ", ".join(narrow)))


def step(program, path):
    answer = asked(program, "estimate", MODEL, "--on", ON, "--layout", LAYOUT)["time"]
    batches = 16  # gbs / dp / mbs
    each = [(name, seconds / batches) for name, seconds in answer["parts"].items() if name not in ONCE and seconds > 0]
    once = [(name, answer["parts"][name]) for name in ONCE if answer["parts"][name] > 0]
    width, height, left = 720, 236, 14
    room, micro = width - 2 * left, sum(seconds for _, seconds in each)
    parts = [text(left, 18, f"one micro-batch on its slowest stage, forward and backward: {1000 * micro:.0f} ms")]
    bar(parts, 26, left, room, sorted(each, key=lambda one: -one[1]), micro, 62)
    total = answer["step"]
    parts.append(text(left, 138, f"the step: {batches} micro-batches, and what comes once: {total:.2f} s"))
    x = left
    for _ in range(batches):
        wide = room * micro / total
        parts.append(f'<rect x="{x:.1f}" y="146" width="{wide:.1f}" height="34" fill="#1f6fb2" stroke="white"/>')
        x += wide
    bar(parts, 146, x, room, sorted(once, key=lambda one: -one[1]), total, 44)
    parts += [line(left, 60, left, 146, "#999", 0.7, 'stroke-dasharray="3"'),
              line(left + room, 60, left + room * micro / total, 146, "#999", 0.7, 'stroke-dasharray="3"')]
    saved(path, width, height, parts)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("docs/pictures"))
    arguments = parser.parse_args()
    roofline(arguments.program, arguments.out / "roofline.svg")
    step(arguments.program, arguments.out / "micro-batch.svg")


if __name__ == "__main__":
    main()
