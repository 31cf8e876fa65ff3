#!/usr/bin/env python3
"""Memory snapshots with damage: each is converted or refused, within seconds and some memory of its size.

  PYTHONPATH=python tools/soak/fuzz_snapshots.py --seconds 4 --kept ~/.cache/trainwright/fuzz/snapshot

Pickles of snapshots are cut, joined, repeated and overwritten with instructions. Those that make the reader go a way (lines of
its code) that none went before are kept, and begin the next run. What breaks it is written to --kept as `broken-*` and named.
"""
import argparse
import hashlib
import pathlib
import pickle
import random
import sys
import time
import tracemalloc

from trainwright.engine import snapshot as reader

MOST_BYTES = 1_000_000
INSTRUCTIONS = [value for name, value in vars(pickle).items() if name.isupper() and isinstance(value, bytes) and len(value) == 1]


def event(address: int, frames: list) -> dict:
    return {"action": "alloc", "addr": address, "size": 512, "stream": 0, "frames": frames}


def seeds() -> list[bytes]:
    frames = [{"name": "step", "filename": "torch/optim/adam.py", "line": 1}]
    segment = {"address": 0, "total_size": 4096, "stream": 0, "device": 0, "blocks": [{"size": 512, "state": "active_allocated"}]}
    whole = {"segments": [segment], "device_traces": [[event(4096, frames), event(8192, []), {**event(4096, []), "action": "free_completed"}]],
             "allocator_settings": {"PYTORCH_ALLOC_CONF": "expandable_segments:True"}}
    return [pickle.dumps(whole, protocol) for protocol in range(pickle.HIGHEST_PROTOCOL + 1)]


def mutated(draw: random.Random, known: list[bytes]) -> bytes:
    data = bytearray(draw.choice(known))
    for _ in range(draw.randint(1, 8)):
        at = draw.randrange(len(data) + 1)
        to = min(len(data), at + draw.randint(0, 40))
        piece = draw.choice([draw.choice(INSTRUCTIONS), bytes([draw.randrange(256)]), bytes(data[at:to]),
                             draw.choice(known)[:draw.randint(0, 200)], b"\xff" * draw.randint(1, 8)])
        times = draw.choice([0, 1, 1, 1, 2, 50, 3000])
        data[at:draw.choice([at, to])] = piece * times
    return bytes(data[:MOST_BYTES])


def lines_of(data: bytes) -> set[tuple[str, int]]:
    """The lines of the reader that were run, as what was refused or converted."""
    lines: set[tuple[str, int]] = set()

    def trace(frame, happened, _):
        if frame.f_code.co_filename not in (reader.__file__, pickle.__file__):
            return None
        if happened == "line":
            lines.add((frame.f_code.co_filename, frame.f_lineno))
        return trace
    sys.settrace(trace)
    try:
        reader.convert_snapshot(data)
    except reader.SnapshotError:
        pass
    finally:
        sys.settrace(None)
    return lines


def fault_of(data: bytes) -> str:
    """What is wrong with how it is read; an exception but SnapshotError is, too."""
    tracemalloc.start()
    start = time.process_time()
    try:
        reader.convert_snapshot(data)
    except reader.SnapshotError as error:
        if len(str(error)) > 1000:
            return "a fault of more than 1,000 characters"
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    if time.process_time() - start > 5 + len(data) / 20_000:
        return "it takes too long"
    return "it takes too much memory" if peak > 2**20 + 64 * len(data) else ""


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=4)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--kept", type=pathlib.Path, required=True, help="folder of inputs found, made if need be")
    asked = options.parse_args()
    asked.kept.mkdir(parents=True, exist_ok=True)
    draw = random.Random(asked.seed)
    known, seen, runs = [], set(), 0
    for data in [*seeds(), *(path.read_bytes() for path in sorted(asked.kept.glob("input-*")))]:
        lines = lines_of(data)
        if not lines <= seen:
            known.append(data)
        seen |= lines
    end = time.monotonic() + asked.seconds
    while time.monotonic() < end:
        data = mutated(draw, known)
        runs += 1
        try:
            fault = fault_of(data)
        except Exception as error:  # noqa: BLE001: whatever it is, it is what is looked for
            fault = f"{type(error).__name__}: {error}"
        name = hashlib.sha256(data).hexdigest()[:16]
        if fault:
            (asked.kept / f"broken-{name}").write_bytes(data)
            print(f"{asked.kept / f'broken-{name}'}: {fault}", file=sys.stderr)
            return 1
        if len(data) < 5000 and not (lines := lines_of(data)) <= seen:
            seen |= lines
            known.append(data)
            (asked.kept / f"input-{name}").write_bytes(data)
    print(f"snapshot: {runs} inputs, {len(known)} kept")
    return 0


if __name__ == "__main__":
    sys.exit(main())
