"""`python -m trainwright.engine snapshot memory.pickle --output snapshot.jsonl`."""
import argparse
import pathlib
import sys

from .snapshot import SnapshotError, convert_snapshot

EXAMPLE = """\
example, on a machine with a GPU:
  torch.cuda.memory._record_memory_history(); ...; torch.cuda.memory._dump_snapshot("memory.pickle")
  python -m trainwright.engine snapshot memory.pickle --output snapshot.jsonl
  trainwright replay snapshot.jsonl

Nothing in the pickle is run: a file that holds more than plain data is refused.

exit status: 0 converted, 2 bad input
"""


def add_snapshot(commands) -> None:
    parser = commands.add_parser("snapshot", help="convert a PyTorch memory snapshot for trainwright replay",
                                 formatter_class=argparse.RawDescriptionHelpFormatter, epilog=EXAMPLE)
    parser.add_argument("pickle", help="what torch.cuda.memory._dump_snapshot wrote")
    parser.add_argument("--output", "-o", required=True, metavar="FILE", help="JSON lines (docs/trace.md, Snapshots)")
    parser.add_argument("--device", type=int, default=0, help="index of the device")
    parser.add_argument("--capacity", type=int, metavar="BYTES", help="what the device has")
    parser.set_defaults(run=run_snapshot)


LARGEST = 2**30  # bytes of a pickle; what it becomes takes up to some forty times as many


def read_at_most(path: str, most: int) -> bytes:
    """A device or a pipe never ends by itself."""
    with open(path, "rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise SnapshotError(f"is larger than {most // 2**20:,} MiB; record fewer events (max_entries)")
    return data


def run_snapshot(options: argparse.Namespace) -> int:
    try:
        text = convert_snapshot(read_at_most(options.pickle, LARGEST), options.device, options.capacity)
        pathlib.Path(options.output).write_text(text)
    except (OSError, SnapshotError) as error:
        print(f"{options.pickle}: {error}", file=sys.stderr)
        return 2
    print(f"{text.count(chr(10)) - 1:,} events; trainwright replay {options.output} compares them with the model")
    return 0
