#!/usr/bin/env python3
"""Several schedules train the same small Llama on PyTorch's pipeline runtime, one after the other: their losses side by side.

    converge.py 1f1b.csv zb-h1.csv ... --steps 1000 --out FOLDER

Each starts from the same weights, sees the same batches and takes the same steps of AdamW, in fp32 on CPU processes (gloo). The
text is drawn from a seeded chain, in which the next token depends on the last two: what is left of the loss when that has been
learned is the chain's entropy, below which no model gets. Writes losses.csv and losses.svg. Exit status 1 if two schedules
differ by more than --most in the loss of any step.
"""
import argparse
import csv
import math
import multiprocessing
import pathlib
import sys
import tempfile
import time

from trainwright.engine.schedule_csv import read_schedule

WIDTH, HEADS, SEQUENCE, SAMPLES, VOCABULARY = 64, 4, 64, 2, 256
LAYERS_OF_RANK = 2
CHANCES = (0.4, 0.2, 0.25, 0.15)  # of two tokens that the last one names, and of two that the one before it names
RATE, WARM_UP = 2e-3, 50
COLOURS = ("#3175bb", "#c05621", "#2f855a", "#8f57b3")


class Text:
    """The same batches whoever asks, a step's after the other's."""

    def __init__(self, torch, microbatches: int):
        self.torch, self.rows = torch, microbatches * SAMPLES
        self.source = torch.Generator().manual_seed(1)
        self.named = torch.randint(0, VOCABULARY, (VOCABULARY, 4), generator=self.source)
        self.chances = torch.tensor(CHANCES).expand(self.rows, 4)

    def batch(self):
        tokens = self.torch.randint(0, VOCABULARY, (self.rows, SEQUENCE + 1), generator=self.source)
        choice = self.torch.multinomial(self.chances, SEQUENCE - 1, replacement=True, generator=self.source)
        for place in range(2, SEQUENCE + 1):
            chosen = choice[:, place - 2]
            by = self.torch.where(chosen < 2, tokens[:, place - 1], tokens[:, place - 2])
            tokens[:, place] = self.named[by, chosen]
        return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def entropy() -> float:
    """Of a token after two others; the first of a row is any."""
    chain = -sum(chance * math.log(chance) for chance in CHANCES)
    return (math.log(VOCABULARY) + (SEQUENCE - 1) * chain) / SEQUENCE


def initialise(torch, module, stage: int, layers: int) -> None:
    """Weights by layer of the model, so that they are the same however it is cut."""
    pieces = {100 + stage * layers + i: layer for i, layer in enumerate(module.layers)} | {
        10: module.embedding, 11: module.norm, 12: module.head}
    for number, piece in pieces.items():
        generator = torch.Generator().manual_seed(number)
        for weight in piece.parameters() if piece is not None else ():
            weight.data = torch.randn(weight.shape, generator=generator) * 0.05 if weight.dim() > 1 else torch.ones(weight.shape)


def train(torch, schedule, group, steps: int) -> list[float]:
    """The losses of a rank that holds the last stage; empty elsewhere."""
    from trainwright.engine.runtime import PipelineRank
    from trainwright.engine.stages import ModelSpec
    layers = LAYERS_OF_RANK * schedule.ranks // schedule.stages
    spec = ModelSpec("llama", (layers,), width=WIDTH, sequence=SEQUENCE, microbatch_size=SAMPLES, heads=HEADS, vocabulary=VOCABULARY)
    pipeline = PipelineRank(schedule, spec, group, torch.device("cpu"))
    for stage, module in pipeline.modules.items():
        initialise(torch, module, stage, layers)
    weights = [weight for module in pipeline.modules.values() for weight in module.parameters()]
    pipeline.optimizer = torch.optim.AdamW(weights, lr=RATE, weight_decay=0.01)
    text, losses = Text(torch, schedule.microbatches), []
    for step in range(steps):
        pipeline.inputs, pipeline.targets = text.batch()
        for values in pipeline.optimizer.param_groups:
            values["lr"] = RATE * min(1, (step + 1) / WARM_UP)
        seen = pipeline.step().losses
        if seen:
            losses.append(math.fsum(seen) / len(seen))
    return losses


def process(rank: int, ranks: int, options: argparse.Namespace, meet: str) -> None:
    import torch
    import torch.distributed as dist
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meet}", rank=rank, world_size=ranks)
    columns = {}
    for path in options.schedules:
        start = time.monotonic()
        losses = train(torch, read_schedule(path.read_text()), dist.group.WORLD, options.steps)
        everything: list = [None] * ranks
        dist.all_gather_object(everything, losses)
        columns[path.stem] = next(one for one in everything if one)
        if rank == 0:
            print(f"{path.stem:8} {options.steps} steps, loss {columns[path.stem][0]:.4f} to {columns[path.stem][-1]:.4f}, "
                  f"{time.monotonic() - start:.0f} s", flush=True)
    dist.destroy_process_group()
    if rank == 0:
        write(options.out, columns)
        largest = difference(columns)
        print(f"largest difference of two schedules in the loss of a step: {largest:.2g}", flush=True)
        sys.exit(int(largest > options.most))


def write(folder: pathlib.Path, columns: dict[str, list[float]]) -> None:
    with open(folder / "losses.csv", "w", newline="") as file:
        rows = csv.writer(file, lineterminator="\n")
        rows.writerow(["step", *columns])
        rows.writerows([step + 1, *(f"{loss:.9g}" for loss in losses)] for step, losses in enumerate(zip(*columns.values())))
    (folder / "losses.svg").write_text(picture(columns))


def difference(columns: dict[str, list[float]]) -> float:
    """The largest between two schedules in any step."""
    return max(max(losses) - min(losses) for losses in zip(*columns.values()))


def picture(columns: dict[str, list[float]]) -> str:
    """Curves in dashes that leave each other's gaps free, so that equal ones are seen side by side."""
    left, right, top, bottom, dash = 60, 940, 60, 390, 14
    steps, most = len(next(iter(columns.values()))), math.log(VOCABULARY) + 0.2
    x = lambda step: left + (right - left) * step / max(1, steps - 1)  # noqa: E731
    y = lambda loss: bottom - (bottom - top) * loss / most  # noqa: E731
    gap = f"{largest:.2g}" if (largest := difference(columns)) else "0: they are equal to the last bit"
    lines = ['<svg xmlns="http://www.w3.org/2000/svg" width="960" height="440" viewBox="0 0 960 440" font-family="sans-serif" font-size="13">',
             '<rect width="960" height="440" fill="#fff"/>',
             f'<text x="{left}" y="22" font-size="15">Loss of a small Llama over {steps} steps on PyTorch\'s pipeline runtime, by schedule</text>',
             f'<text x="{left}" y="42" fill="#555">largest difference of two schedules in any step: {gap}</text>']
    for loss in range(6):
        lines.append(f'<path d="M{left} {y(loss):.1f}H{right}" stroke="#ddd"/><text x="{left - 8}" y="{y(loss) + 4:.1f}" text-anchor="end">{loss}</text>')
    lines.append(f'<path d="M{left} {y(entropy()):.1f}H{right}" stroke="#888" stroke-dasharray="2 4"/>'
                 f'<text x="{left + 8}" y="{y(entropy()) + 16:.1f}" fill="#555">entropy of the text, {entropy():.3f}</text>')
    for number, (name, losses) in enumerate(columns.items()):
        colour = COLOURS[number % len(COLOURS)]
        points = " ".join(f"{x(step):.1f},{y(loss):.1f}" for step, loss in enumerate(losses))
        lines.append(f'<polyline points="{points}" fill="none" stroke="{colour}" stroke-width="2" '
                     f'stroke-dasharray="{dash} {dash * (len(columns) - 1)}" stroke-dashoffset="{-dash * number}"/>')
        place = right - 80 * (len(columns) - number)
        lines.append(f'<rect x="{place}" y="36" width="24" height="4" fill="{colour}"/><text x="{place + 30}" y="42">{name}</text>')
    lines.append("".join(f'<text x="{x(step):.0f}" y="{bottom + 20}" text-anchor="middle">{step + 1}</text>'
                         for step in sorted({0, steps // 4 - 1, steps // 2 - 1, 3 * steps // 4 - 1, steps - 1} - {-1})))
    return "\n".join([*lines, f'<text x="{(left + right) / 2}" y="{bottom + 40}" text-anchor="middle">step</text>', "</svg>\n"])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("schedules", nargs="+", type=pathlib.Path, help="CSVs of one or two stages per rank, as `schedule make --csv` writes them")
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--most", type=float, default=1e-3, metavar="LOSS", help="default: 0.001")
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path("."), metavar="FOLDER")
    options = parser.parse_args()
    shapes = {(one.ranks, one.microbatches) for one in (read_schedule(path.read_text()) for path in options.schedules)}
    if len(shapes) > 1:
        parser.error("the schedules have different numbers of ranks or micro-batches")
    world = shapes.pop()[0]
    with tempfile.TemporaryDirectory() as folder:
        fork = multiprocessing.get_context("fork")
        ranks = [fork.Process(target=process, args=(rank, world, options, f"{folder}/meet")) for rank in range(world)]
        import torch  # noqa: F401  before the fork: once, not four times
        for one in ranks:
            one.start()
        for one in ranks:
            one.join()
    return int(any(one.exitcode for one in ranks))


if __name__ == "__main__":
    sys.exit(main())
