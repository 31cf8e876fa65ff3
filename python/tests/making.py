"""Schedules for the engine tests: PyTorch's own, random valid ones, and those of our program.

Everything here returns CSV text. Rows are made of `schedule_csv.Action`.
"""
import functools
import json
import os
import random
import subprocess
import tempfile

from trainwright.engine.schedule_csv import Action, schedule_text

HANGS = 900  # seconds; a command takes one, on a busy host more

# (name in PyTorch, stages per rank, placement). 1F1B's list lacks its first forward there and GPipe
# has no list either, so both come from our own loops below.
TORCH_KINDS = (
    ("LoopedBFS", 2, "loop"),
    ("Interleaved1F1B", 2, "loop"),
    ("Interleaved1F1B", 3, "loop"),
    ("InterleavedZeroBubble", 2, "loop"),
    ("ZBVZeroBubble", 2, "v"),
    ("DualPipeV", 2, "v"),
)


def loop_placement(ranks: int, chunks: int) -> tuple[int, ...]:
    return tuple(stage % ranks for stage in range(ranks * chunks))


def wave_placement(ranks: int, chunks: int) -> tuple[int, ...]:
    """Down, up, down, ...; with two chunks it is the V."""
    down = list(range(ranks))
    return tuple(rank for chunk in range(chunks) for rank in (down if chunk % 2 == 0 else down[::-1]))


def torch_schedule(name: str, ranks: int, microbatches: int, chunks: int) -> str | None:
    """PyTorch's own schedule without its bubbles; None where PyTorch refuses the arguments."""
    from torch.distributed.pipelining._schedule_visualizer import get_schedule_ops
    try:
        rows = get_schedule_ops(name, ranks, microbatches, chunks)
    except (ValueError, AssertionError, IndexError):
        return None
    kept = [[cell for cell in row if cell is not None and "REDUCE" not in str(cell)] for row in rows]
    return schedule_text(kept)


def one_forward_one_backward(ranks: int, microbatches: int, backward: str = "B") -> str:
    """1F1B; `backward` is B or IW."""
    rows = []
    for rank in range(ranks):
        warmup = min(microbatches, ranks - rank)
        order = [("F", m) for m in range(warmup)]
        for m in range(microbatches):
            order.append(("B", m))
            order += [("F", m + warmup)] if m + warmup < microbatches else []
        rows.append([Action(rank, kind, m) for letter, m in order for kind in (backward if letter == "B" else "F")])
    return schedule_text(rows)


def random_schedule(seed: int, ranks: int) -> tuple[str, int]:
    """A random valid schedule and its micro-batches: any placement with every rank used, any number
    of stages, backward whole or split by coin, actions in any order that the dependencies and the
    engine's rule for losses (last stage forward in order) allow."""
    coin = random.Random(seed)
    stages = ranks + coin.randrange(0, 2 * ranks + 1)
    owners = list(range(ranks)) + [coin.randrange(ranks) for _ in range(stages - ranks)]
    coin.shuffle(owners)
    microbatches = coin.randrange(1, 7)
    split = {(s, m): coin.random() < 0.5 for s in range(stages) for m in range(microbatches)}
    return schedule_text(_random_order(coin, owners, microbatches, split)), microbatches


def _random_order(coin: random.Random, owners: list[int], microbatches: int, split: dict) -> list[list[Action]]:
    """Runs a random ready action until none is left: a linear order of all, so no deadlock."""
    last = len(owners) - 1
    ready = [Action(0, "F", m) for m in range(1 if last == 0 else microbatches)]
    rows: list[list[Action]] = [[] for _ in range(max(owners) + 1)]
    losses, waiting = 0, set()
    while ready:
        action = ready.pop(coin.randrange(len(ready)))
        stage, m = action.stage, action.microbatch
        if action.kind == "F" and stage == last and m != losses:
            waiting.add(m)  # Arrived, but the engine wants losses in order.
            continue
        rows[owners[stage]].append(action)
        backward = "I" if split[stage, m] else "B"
        if action.kind == "F" and stage == last:
            losses += 1
            ready.append(Action(stage, backward, m))
            if losses in waiting or last == 0 and losses < microbatches:
                ready.append(Action(stage, "F", losses))
        elif action.kind == "F":
            ready.append(Action(stage + 1, "F", m))
        if action.kind == "I":
            ready.append(Action(stage, "W", m))
        if action.kind in "IB" and stage > 0:
            ready.append(Action(stage - 1, "I" if split[stage - 1, m] else "B", m))
    return rows


def program() -> str | None:
    """The built `trainwright`, if there is one that knows schedules."""
    path = os.environ.get("TRAINWRIGHT_BINARY", "")
    return path if path and os.path.exists(path) and _knows_schedules(path) else None


@functools.cache
def _knows_schedules(path: str) -> bool:
    return subprocess.run([path, "schedule", "--help"], capture_output=True, timeout=HANGS).returncode == 0


def all_schedules(ranks: int, microbatches: int):
    """(title, text) of PyTorch's own kinds and, with a program, of all of ours and `auto`."""
    yield "1F1B with split backward", one_forward_one_backward(ranks, microbatches, "IW")
    yield from torch_schedules(ranks, microbatches)
    if program():
        yield from program_schedules(ranks, microbatches)


def torch_schedules(ranks: int, microbatches: int):
    """(title, text) of what PyTorch ships, wherever it accepts the arguments."""
    everything_first = [[Action(r, kind, m) for kind in "FB" for m in range(microbatches)] for r in range(ranks)]
    yield "PyTorch GPipe", schedule_text(everything_first)
    yield "PyTorch 1F1B", one_forward_one_backward(ranks, microbatches)
    for name, chunks, _ in TORCH_KINDS:
        text = torch_schedule(name, ranks, microbatches, chunks)
        if text is not None:
            yield f"PyTorch {name}, {chunks} chunks", text


def program_kinds() -> list[str]:
    """Every kind that the program knows by name, without `auto`."""
    return [row["kind"] for row in program_json("schedule", "compare", "--ranks", "2", "--microbatches", "2")["kinds"]]


def program_schedules(ranks: int, microbatches: int):
    """(title, text) of every kind with every number of chunks up to three that it takes, of waves
    and loops, and of `auto`. A kind refuses numbers of chunks that it does not know."""
    for kind in program_kinds():
        for chunks in (1, 2, 3):
            text = make(kind, ranks, microbatches, "--chunks", str(chunks))
            if text is not None:
                yield f"{kind}, {chunks} chunks", text
    if not knows_auto():
        return
    for chunks, placement in ((1, "loop"), (2, "loop"), (2, "v"), (3, "v")):
        text = make("auto", ranks, microbatches, "--chunks", str(chunks), "--placement", placement)
        if text is None:
            raise RuntimeError(f"auto made nothing for {ranks} ranks, {microbatches} micro-batches")
        yield f"auto, {chunks} chunks, {placement}", text


def timed_schedules(ranks: int, microbatches: int):
    """(title, text) of every kind once, with its usual chunks; PyTorch's own without a program."""
    if not program():
        yield from torch_schedules(ranks, microbatches)
        return
    for kind in program_kinds():
        text = make(kind, ranks, microbatches)
        if text is not None:
            yield kind, text
    for kind in ("interleaved-1f1b", "zb-vpp"):
        yield f"{kind}, 3 chunks", make(kind, ranks, microbatches, "--chunks", "3")
    if knows_auto():
        yield "auto, 2 chunks", make("auto", ranks, microbatches, "--chunks", "2", "--placement", "any")


@functools.cache
def knows_auto() -> bool:
    return program() is not None and make("auto", 2, 2, "--chunks", "1") is not None


def make(kind: str, ranks: int, microbatches: int, *more: str) -> str | None:
    """`trainwright schedule make KIND ... --csv -`; None where the program refuses the arguments."""
    command = [program(), "schedule", "make", kind, "--ranks", str(ranks), "--microbatches", str(microbatches), *more, "--csv", "-"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANGS)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"{' '.join(command)} ended with {done.returncode}: {done.stderr}")
    return done.stdout if done.returncode == 0 else None


def auto_schedule(ranks: int, microbatches: int, chunks: int, seconds, action: float) -> str:
    """`auto` for stages of these seconds (F, I, W each) on PyTorch's runtime, any placement."""
    with tempfile.TemporaryDirectory() as folder:
        text = make("auto", ranks, microbatches, "--chunks", str(chunks), "--placement", "any", "--engine", "pytorch",
                    "--costs", _write(folder, "costs.json", json.dumps(_costs(seconds, action))))
    if text is None:
        raise RuntimeError("auto made nothing")
    return text


def simulated_step(text: str, seconds, action: float) -> float:
    """Seconds of a step by the program's clock with PyTorch's rules."""
    return simulated(text, _costs(seconds, action))["makespan"]


def simulated(text: str, costs: dict) -> dict:
    """`trainwright schedule simulate` with PyTorch's rules."""
    with tempfile.TemporaryDirectory() as folder:
        return program_json("schedule", "simulate", _write(folder, "schedule.csv", text), "--engine", "pytorch",
                            "--costs", _write(folder, "costs.json", json.dumps(costs)))


def checker_refuses(text: str) -> bool:
    """Whether `trainwright schedule check` says no: unreadable or not sound."""
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run([program(), "schedule", "check", _write(folder, "schedule.csv", text)],
                              capture_output=True, text=True, timeout=HANGS)
    if done.returncode not in (0, 1, 2):
        raise RuntimeError(f"schedule check ended with {done.returncode}: {done.stderr}")
    return done.returncode != 0


def program_json(*arguments: str):
    done = subprocess.run([program(), *arguments, "--json"], capture_output=True, text=True, timeout=HANGS)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stdout}{done.stderr}")
    return json.loads(done.stdout)


def _costs(seconds, action: float) -> dict:
    forward, by_input, by_weight = zip(*seconds)
    return {"F": forward, "I": by_input, "W": by_weight, "action": action}


def _write(folder: str, name: str, text: str) -> str:
    path = os.path.join(folder, name)
    with open(path, "w", newline="") as file:
        file.write(text)
    return path
