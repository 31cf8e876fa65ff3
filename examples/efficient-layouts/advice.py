#!/usr/bin/env python3
"""The four pieces of advice of Hagemann et al. (arXiv:2311.05610, section 5), asked of the program: every layout of their ten spaces.

  advice.py [PROGRAM] [--svg FOLDER]
"""
import math
import pathlib
import sys

from sweep import SPACES, SVG, predicted


def gain(times, follows):
    """How much longer the best against the advice takes, in percent; nothing where one side does not fit."""
    best = {side: min((time for run, time in times.items() if follows(run) is side), default=None) for side in (True, False)}
    return 100 * (best[False] / best[True] - 1) if best[True] and best[False] else None


def stages(times):
    """Pairs that differ in having stages instead of tensor parallelism: (faster, all, mean gain in percent)."""
    ratios = []
    for less, time in times.items():
        for more, other in times.items():
            alike = (less.mbs, less.sp, less.recompute, less.fused_norm) == (more.mbs, more.sp, more.recompute, more.fused_norm)
            if less.tp < more.tp and less.tp * less.pp == more.tp * more.pp and alike:
                ratios.append(other / time)
    if not ratios:
        return None
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return sum(ratio > 1 for ratio in ratios), len(ratios), 100 * (mean - 1)


def text(value):
    if value is None:
        return "-"
    return f"{value:+.1f} %" if isinstance(value, float) else f"{value[2]:+.1f} % ({value[0]} of {value[1]})"


def main():
    spaces = {space: predicted(space) for space in SPACES}

    def of(times, plain):
        return {run: time for run, time in times.items() if plain(run)}

    advice = [
        ("Micro-batches of one sequence", [
            (space, gain(of(times, lambda run: run.fused_norm), lambda run: run.mbs == 1), space.mbs_measured) for space, times in spaces.items()]),
        ("No recompute (unfused norm on both sides)", [
            (space, gain(of(times, lambda run: not run.fused_norm), lambda run: not run.recompute), space.recompute_measured)
            for space, times in spaces.items() if not space.sp]),
        ("Stages before tensor parallelism (mean; pairs)", [
            (space, stages(of(times, lambda run: run.fused_norm)), space.stages_measured) for space, times in spaces.items()]),
        ("Sequence parallelism (above 30B or 2k)", [
            (space, gain(times, lambda run: run.sp), space.sp_measured) for space, times in spaces.items() if space.sp]),
    ]
    print("How much longer the best layout against the advice takes than the best that follows it")
    rows = []
    for name, answers in advice:
        print(f"\n{name:46}{'predicted':>17}{'measured':>20}")
        rows.append(name)
        for space, ours, theirs in answers:
            print(f"  {str(space):44}{text(ours):>17}{text(theirs):>20}")
            label = str(space)
            for value, colour in ((ours, 0), (theirs, 1)):
                if value is not None:
                    value = value[2] if isinstance(value, tuple) else value
                    rows.append((label, [0] * colour + [value], f"{value:+.1f} %"))
                    label = ""
    if SVG:
        sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
        from bars import bars
        (pathlib.Path(SVG) / "advice.svg").write_text(bars(
            "How much longer a step takes against the advice: Hagemann et al., LLaMA on A100", ["predicted", "measured"], rows, 40, "%", least=-20))


main()
