"""Reading memory snapshots: plain data comes through, nothing in a hostile file runs."""
import gc
import json
import os
import pickle
import subprocess
import time
import tracemalloc

import programs
import pytest

from trainwright.engine import snapshot_command
from trainwright.engine.__main__ import main
from trainwright.engine.snapshot import SnapshotError, convert_snapshot, read_plain_pickle

MIB = 2**20


def event(action: str, address: int = 0, size: int = 0, stream: int = 0) -> dict:
    return {"action": action, "addr": address, "size": size, "stream": stream, "time_us": 1, "frames": []}


def snapshot(trace: list[dict], segments: list[dict] = [], **more) -> bytes:
    return pickle.dumps({"segments": segments, "device_traces": [trace], **more})


def lines(text: str) -> list:
    return [json.loads(line) for line in text.splitlines()]


def test_events_come_in_order_with_streams_numbered_as_they_appear():
    trace = [event("segment_alloc", 4096, 2 * MIB, 77), event("alloc", 4096, 1000, 77), event("alloc", 8 * MIB, 10, 5),
             event("free_requested", 4096, 1000, 77), event("free_completed", 4096, 1000, 77), event("snapshot")]
    text = convert_snapshot(snapshot(trace, allocator_settings={"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True"}))
    assert lines(text) == [
        {"trainwright_snapshot": 1, "device": 0, "settings": "expandable_segments:True"},
        [3, 4096, 2 * MIB, 0], [0, 4096, 1000, 0], [0, 8 * MIB, 10, 1], [1, 4096, 1000, 0], [2, 4096, 1000, 0], [8, 0, 0, 2]]


def test_what_was_there_before_the_recording_comes_first():
    segment = {"address": 0x10000, "total_size": 2 * MIB, "stream": 0, "device": 0, "blocks": [
        {"address": 0x10000, "size": 512, "requested_size": 500, "state": "active_allocated"},
        {"address": 0x10200, "size": 512, "requested_size": 0, "state": "inactive"},
        {"address": 0x10400, "size": 2 * MIB - 1024, "requested_size": 0, "state": "inactive"}]}
    trace = [event("free_requested", 0x10200, 300), event("free_completed", 0x10200, 300)]
    assert lines(convert_snapshot(snapshot(trace, [segment])))[0]["complete"] is False
    assert lines(convert_snapshot(snapshot(trace, [segment])))[1:] == [
        [3, 0x10000, 2 * MIB, 0], [0, 0x10000, 500, 0], [0, 0x10200, 300, 0], [1, 0x10200, 300, 0], [2, 0x10200, 300, 0]]


def stack(*frames: tuple[str, str]) -> list[dict]:
    return [{"name": name, "filename": filename, "line": 1} for name, filename in frames]


def test_the_kind_of_an_allocation_is_told_by_its_stack_and_its_end():
    forward = stack(("_call_impl", "torch/nn/modules/module.py"), ("train", "train.py"))
    backward, engine = stack(("_engine_run_backward", "torch/autograd/graph.py")), []
    step = stack(("adamw", "torch/optim/adamw.py"), ("step", "torch/optim/adamw.py"))
    setup = stack(("main", "train.py"))
    trace = [(setup, 1), (setup, 2), (forward, 3), (engine, 4), (backward, 5), (None, 4), (None, 3), (step, 6), (None, 5), (None, 2)]
    events = [event("free_completed", address) if frames is None else {**event("alloc", address, 8), "frames": frames}
              for frames, address in trace]
    kinds = {address: kind for action, address, _, _, *kind in lines(convert_snapshot(snapshot(events)))[1:] if action == 0}
    # Weights stay, the batch goes; an activation; what backward needs and lets go; a gradient that lives on; a state.
    assert kinds == {1: [0], 2: [6], 3: [4], 4: [5], 5: [2], 6: [3]}


def test_without_stacks_no_kind_is_told():
    assert lines(convert_snapshot(snapshot([event("alloc", 4096, 8)])))[1:] == [[0, 4096, 8, 0]]


class Hostile:
    """Unpickled the usual way, it makes a file."""

    def __init__(self, path):
        self.path = path

    def __reduce__(self):
        return os.mkdir, (str(self.path),)


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_nothing_in_a_hostile_pickle_runs(tmp_path, protocol):
    trap = tmp_path / "trap"
    for data in (Hostile(trap), {"device_traces": [[]], "segments": [Hostile(trap)]}):
        with pytest.raises(SnapshotError, match="refused"):
            convert_snapshot(pickle.dumps(data, protocol))
    assert not trap.exists()
    pickle.loads(pickle.dumps(Hostile(trap), protocol))  # The trap does work.
    assert trap.exists()


@pytest.mark.parametrize("data", [
    b"cos\nsystem\n(S'true'\ntR.", b"\x80\x04\x8c\x02os\x8c\x06system\x93\x8c\x04true\x85R.", b"(S'true'\nios\nsystem\n.",
    b"Ppersistent\n.", b"\x82\x01.", b"(S'true'\nocos\nsystem\n.", b"\x80\x04}\x94}b.", b"\x80\x05\x97.", b"", b"\x80", b"}r\xff\xff\xff\x7f.no",
    b"\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", b"]" * 100, b"\x80\x04N."])
def test_damaged_and_hostile_files_are_refused(data):
    with pytest.raises(SnapshotError):
        convert_snapshot(data)


def test_plain_data_is_read_as_it_is():
    value = {"a": [1, -1, 2**70, 1.5, None, True, "text", b"bytes", (), (1,), (1, 2, 3, 4)], "b": {1: {}}}
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        if protocol > 2:  # Bytes have instructions of their own from protocol 3 on.
            assert read_plain_pickle(pickle.dumps(value, protocol)) == value
    assert read_plain_pickle(pickle.dumps({"a": [1, 2**70, "x"]}, 0)) == {"a": [1, 2**70, "x"]}


@pytest.mark.parametrize("wrong", [{"action": "eat"}, {"addr": -1}, {"addr": "x"}, {"size": 2**63}, {"stream": None}])
def test_events_with_wrong_fields_are_refused(wrong):
    with pytest.raises(SnapshotError):
        convert_snapshot(snapshot([{**event("alloc", 1, 1), **wrong}]))


def nested(times: int) -> list:
    """[[x, x], [x, x]] and so on: a few bytes of a pickle for each level, and twice the text of the one before."""
    value: list = []
    for _ in range(times):
        value = [value, value]
    return value


def deep_tuples(depth: int) -> bytes:
    """A snapshot whose only event has for its address a tuple of a tuple of a tuple, which no pickler writes."""
    data = snapshot([{**event("alloc"), "addr": 7.5}], padding="x" * 8 * depth)
    number = pickle.BINFLOAT + b"\x40\x1e" + bytes(6)
    assert data.count(number) == 1
    return pickle.PROTO + b"\x04" + data[11:].replace(number, pickle.EMPTY_TUPLE + pickle.TUPLE1 * depth)


@pytest.mark.parametrize("field", ["action", "addr", "size", "stream"])
@pytest.mark.parametrize("value", [nested(40), 1 << 100_000, "x" * 100_000, [1], {}], ids=["nested", "huge", "text", "list", "dict"])
def test_a_value_that_is_no_field_is_told_in_a_few_words_with_its_event(tmp_path, capsys, field, value):
    path = tmp_path / "bad.pickle"
    path.write_bytes(snapshot([event("alloc", 1, 1), {**event("alloc", 1, 1), field: value}]))
    assert main(["snapshot", str(path), "-o", str(tmp_path / "out")]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{path}: event 1: ") and len(told) < 300, told


def test_deep_values_end_in_a_fault_and_not_in_a_traceback(tmp_path, capsys):
    path = tmp_path / "deep.pickle"
    path.write_bytes(deep_tuples(20_000))
    assert main(["snapshot", str(path), "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err.startswith(f"{path}: event 0: 'addr' is a tuple, not ")
    with pytest.raises(SnapshotError, match="makes more lists, tuples and dictionaries"):
        convert_snapshot(pickle.EMPTY_TUPLE + pickle.TUPLE1 * 200_000 + pickle.STOP)


def test_names_of_a_dictionary_are_plain():
    """The hash of a tuple walks through all of it: of 30 tuples of two, a milliard steps."""
    value: tuple = ()
    for _ in range(30):
        value = (value, value)
    data = pickle.dumps([value], 4).removesuffix(b"e.").removesuffix(b"a.").removeprefix(b"\x80\x04")
    for dictionary in (b"\x80\x04" + data + b"0}h\x00K\x01s.", b"\x80\x04" + data + b"0}(h\x00K\x01u.",
                       b"\x80\x04" + data + b"0(h\x00K\x01d."):
        with pytest.raises(SnapshotError, match="a dictionary has a list for a name"):
            convert_snapshot(dictionary)
    with pytest.raises(SnapshotError, match="a dictionary has a tuple for a name"):
        read_plain_pickle(pickle.dumps({(): 1}))


def test_a_stack_of_nested_names_has_no_kind_and_takes_no_time():
    frames = [{"name": nested(40), "filename": nested(40)}]
    assert lines(convert_snapshot(snapshot([{**event("alloc", 4096, 8), "frames": frames}])))[1:] == [[0, 4096, 8, 0, 5]]


@pytest.mark.parametrize("repeated", ["events", "blocks", "segments"])
def test_what_is_named_again_and_again_is_refused(repeated):
    one, block = event("alloc", 1, 1), {"size": 1, "state": "x"}
    segment = {"address": 1, "total_size": 1, "blocks": [block] * (1000 if repeated == "blocks" else 1)}
    data = snapshot([one] * (1000 if repeated == "events" else 1), [segment] * (1 if repeated == "events" else 1000))
    with pytest.raises(SnapshotError, match="it repeats its events or segments"):
        convert_snapshot(data)


def test_a_file_without_an_end_is_refused(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr(snapshot_command, "LARGEST", 2**20)
    assert main(["snapshot", "/dev/zero", "-o", str(tmp_path / "out")]) == 2
    assert capsys.readouterr().err == "/dev/zero: is larger than 1 MiB; record fewer events (max_entries)\n"


# What a byte of a file can be made to do, and what it takes to read a snapshot.
SHAPES = {
    "lists": lambda n: b"]" * n + b".", "dictionaries": lambda n: b"}" * n + b".", "marks": lambda n: b"(" * n + b".",
    "tuples": lambda n: b")" + b"\x85" * n + b".", "nothing": lambda n: b"N" * n + b".", "copies": lambda n: b"]" + b"2" * n + b".",
    "append": lambda n: b"]" + b"Na" * (n // 2) + b".", "numbers": lambda n: b"K\x01" * (n // 2) + b".",
    "text": lambda n: b"X" + n.to_bytes(4, "little") + b"x" * n + b".", "digits": lambda n: b"I" + b"1" * n + b"\n.",
    "long": lambda n: b"\x8b" + n.to_bytes(4, "little") + b"x" * n + b".", "memo": lambda n: b"\x80\x04]" + b"\x94" * n + b".",
    "frames": lambda n: b"\x80\x04" + (b"\x95\x01" + bytes(7) + b"N") * (n // 10) + b".",
    "texts": lambda n: b"\x8c\x01x" * (n // 3) + b".", "lines": lambda n: b"Vx\n" * (n // 3) + b".",
    "events": lambda n: snapshot([event("alloc", i, 1) for i in range(n // 40)]),
    "stacks": lambda n: snapshot([{**event("alloc", i, 1), "frames": stack(("f", "a.py"))} for i in range(n // 90)]),
    "one stack": lambda n: one_stack(stack(("f", "a.py")) * (n // 20), n // 100),
    "blocks": lambda n: snapshot([], [{"address": 0, "total_size": 1, "blocks": [{"size": 1, "address": i} for i in range(n // 20)]}]),
}


def one_stack(frames: list[dict], events: int) -> bytes:
    return snapshot([{**event("alloc", i, 1), "frames": frames} for i in range(events)])


def read(data: bytes) -> None:
    try:
        convert_snapshot(data)
    except SnapshotError:
        pass


@pytest.mark.parametrize("shape", SHAPES)
def test_reading_takes_time_and_memory_in_proportion_to_the_bytes(shape):
    def seconds(data: bytes) -> float:
        times = []
        gc.disable()  # Its walks through all that is alive are Python's, not the reader's.
        for _ in range(3):
            start = time.process_time()
            read(data)
            times.append(time.process_time() - start)
        gc.enable()
        return min(times)
    small, large = SHAPES[shape](15_000), SHAPES[shape](150_000)
    times = seconds(large) / max(seconds(small), 0.005) * 10 * len(small) / len(large)
    assert times <= 22  # What is quadratic takes 100 times as long; a busy host's caches, up to twice the 10 of what is linear.
    tracemalloc.start()
    read(large)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak <= 64 * len(large), f"{peak / len(large):.1f} bytes a byte"


@pytest.mark.skipif(not programs.program(), reason="no program that replays in TRAINWRIGHT_BINARY")
def test_the_program_replays_what_is_written(tmp_path):
    """1000 bytes make a segment of 2 MiB, 2 MiB one of 20 MiB: the caching allocator's rules."""
    trace = [event("segment_alloc", 1 << 30, 2 * MIB), event("alloc", 1 << 30, 1000),
             event("segment_alloc", 1 << 31, 20 * MIB), event("alloc", 1 << 31, 2 * MIB),
             event("free_requested", 1 << 30, 1000), event("free_completed", 1 << 30, 1000)]
    path = tmp_path / "snapshot.jsonl"
    path.write_text(convert_snapshot(snapshot(trace)))
    run = subprocess.run([programs.program(), "replay", str(path), "--json"], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    answer = json.loads(run.stdout)
    assert answer["mismatches"] == 0 and answer["reserved_peak_modelled"] == 22 * MIB, answer
