"""Our generators against PyTorch's own action lists, action by action.

`get_schedule_ops` builds PyTorch's schedules on mocked stages. REDUCE_GRAD and blanks are left out.
Its list for 1F1B lacks the first forward of the last rank, so that one is compared with the loop
that PyTorch's runtime executes: min(m, p - r) forwards, then one backward and one forward in turn.
"""
import os
import subprocess

import pytest

torch = pytest.importorskip("torch")
from torch.distributed.pipelining import _schedule_visualizer as visualizer  # noqa: E402

PROGRAM = os.environ["TRAINWRIGHT_BINARY"]
SHAPES = [(p, m) for p in range(2, 9) for m in range(p, 4 * p + 1)]


def ours(kind, p, m, chunks):
    command = [PROGRAM, "schedule", "make", kind, "--ranks", str(p), "--microbatches", str(m),
               "--chunks", str(chunks), "--csv", "-"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=900)
    return [row.split(",") for row in done.stdout.splitlines()]


def theirs(name, p, m, chunks):
    """PyTorch's lists, or None where it refuses the arguments."""
    try:
        rows = visualizer.get_schedule_ops(name, p, m, chunks)
    except ValueError:
        return None
    return [[str(action) for action in row
             if action is not None and "REDUCE_GRAD" not in str(action)] for row in rows]


def loop_of_1f1b(p, m):
    rows = []
    for r in range(p):
        warmup = min(m, p - r)
        row = [f"{r}F{i}" for i in range(warmup)]
        forward = warmup
        for backward in range(m):
            row.append(f"{r}B{backward}")
            if forward < m:
                row.append(f"{r}F{forward}")
                forward += 1
        rows.append(row)
    return rows


def compare_all(kind, name, chunk_counts):
    compared = refused = 0
    for p, m in SHAPES:
        for chunks in chunk_counts:
            expected = theirs(name, p, m, chunks)
            if expected is None:
                refused += 1
                continue
            assert ours(kind, p, m, chunks) == expected, (kind, p, m, chunks)
            compared += 1
    return compared, refused


# PyTorch refuses 74 of the 224 shapes of the two interleaved kinds and 35 of 112 of DualPipeV.
@pytest.mark.parametrize("kind, name, chunks, refused", [
    ("gpipe", "GPipe", (1,), 0),
    ("looped-bfs", "LoopedBFS", (2, 3), 0),
    ("interleaved-1f1b", "Interleaved1F1B", (2, 3), 74),
    ("interleaved-zb", "InterleavedZeroBubble", (2, 3), 74),
    ("zb-v", "ZBVZeroBubble", (2,), 0),
    ("dualpipe-v", "DualPipeV", (2,), 35),
])
def test_lists_equal_pytorchs(kind, name, chunks, refused):
    assert compare_all(kind, name, chunks) == (len(SHAPES) * len(chunks) - refused, refused)


def test_1f1b_equals_the_loop_of_the_runtime():
    for p, m in SHAPES:
        assert ours("1f1b", p, m, 1) == loop_of_1f1b(p, m), (p, m)
