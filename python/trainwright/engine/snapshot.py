"""Turns a PyTorch memory snapshot (`torch.cuda.memory._dump_snapshot`) into the form of docs/trace.md.

A snapshot is a pickle, and a pickle from somebody else is a program. This reader is a machine that
knows only the instructions for plain data (numbers, text, lists, tuples, dictionaries): those that
look up a name, call something or set up an object do not exist in it, so nothing in the file can
run. Sizes that the file claims are never believed, because all of it is in memory already. What a file holds once it can name
any number of times: such a value is never walked or printed as a whole, and events and blocks are counted against its bytes.

Of allocations whose stack was recorded the kind is written too, by the rule of docs/trace.md: made inside an optimizer's step;
inside backward (whose own thread has no stack), a gradient if it outlives that backward pass; inside forward; else weights if
they stay, and inputs if they go.
"""
import io
import json
import pickle
from collections.abc import Callable, Iterator
from typing import Any, TextIO

ACTIONS = ("alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map",
           "segment_unmap", "oom", "snapshot")
_PARAMETER, _GRADIENT, _OPTIMIZER, _ACTIVATION, _TEMPORARY, _INPUT = 0, 2, 3, 4, 5, 6  # docs/trace.md
_SETTINGS = ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF")
_DATA = (
    pickle.PROTO, pickle.FRAME, pickle.STOP, pickle.MARK, pickle.POP, pickle.POP_MARK, pickle.DUP,
    pickle.NONE, pickle.NEWTRUE, pickle.NEWFALSE, pickle.INT, pickle.BININT, pickle.BININT1, pickle.BININT2,
    pickle.LONG, pickle.LONG1, pickle.LONG4, pickle.FLOAT, pickle.BINFLOAT,
    pickle.UNICODE, pickle.BINUNICODE, pickle.SHORT_BINUNICODE, pickle.BINUNICODE8,
    pickle.SHORT_BINBYTES, pickle.BINBYTES, pickle.BINBYTES8,
    pickle.EMPTY_LIST, pickle.LIST, pickle.APPEND, pickle.APPENDS, pickle.EMPTY_TUPLE, pickle.TUPLE,
    pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3, pickle.EMPTY_DICT, pickle.DICT, pickle.SETITEM, pickle.SETITEMS,
    pickle.GET, pickle.BINGET, pickle.LONG_BINGET, pickle.PUT, pickle.BINPUT, pickle.LONG_BINPUT, pickle.MEMOIZE,
)


# One byte of a file makes one of them, which takes a hundred or so.
_CONTAINERS = (pickle.MARK, pickle.EMPTY_LIST, pickle.EMPTY_DICT, pickle.TUPLE1, pickle.TUPLE2, pickle.TUPLE3,
               pickle.MEMOIZE)


class SnapshotError(ValueError):
    """The file is no snapshot, or does something that a snapshot has no need of."""


# An event or a block takes more bytes of a pickle, with its memoised names: a dictionary, a mark, two entries of a name (2)
# and a number (2), their end.
_LEAST_BYTES = 12


class _Instructions(dict):
    def __missing__(self, code: int):
        raise SnapshotError(f"instruction {bytes([code])!r} is not for plain data: refused")


def _counted(step: Callable[[Any], None]) -> Callable[[Any], None]:
    def load_counted(machine: Any) -> None:
        machine.containers -= 1
        if machine.containers < 0:
            raise SnapshotError("it makes more lists, tuples and dictionaries than a snapshot of its size has")
        step(machine)
    return load_counted


class _DataUnpickler(pickle._Unpickler):
    """The one written in Python: its memo is a dictionary, where the other allocates what it is told."""
    stack: list[Any]
    append: Callable[[Any], None]
    pop_mark: Callable[[], list[Any]]
    dispatch = _Instructions({code[0]: pickle._Unpickler.dispatch[code[0]] for code in _DATA})

    def __init__(self, data: bytes) -> None:
        super().__init__(io.BytesIO(data))
        self.containers = len(data) // 3 + 100  # that it may still make

    for _code in _CONTAINERS:
        dispatch[_code[0]] = _counted(dispatch[_code[0]])

    # The hash of a tuple is a walk through all of it, by recursion.
    def load_dict(self) -> None:
        items = self.pop_mark()
        self.append({_key(name): value for name, value in zip(items[::2], items[1::2], strict=True)})
    dispatch[pickle.DICT[0]] = load_dict

    def load_setitem(self) -> None:
        value, name = self.stack.pop(), self.stack.pop()
        self.stack[-1][_key(name)] = value
    dispatch[pickle.SETITEM[0]] = load_setitem

    def load_setitems(self) -> None:
        items = self.pop_mark()
        self.stack[-1].update({_key(name): value for name, value in zip(items[::2], items[1::2], strict=True)})
    dispatch[pickle.SETITEMS[0]] = load_setitems

    def find_class(self, module: str, name: str):
        raise SnapshotError(f"the file asks for {module}.{name}: refused")

    def persistent_load(self, _):
        raise SnapshotError("the file asks for an object outside it: refused")


def _key(name: Any) -> Any:
    if not isinstance(name, (str, bytes, int)):
        raise SnapshotError(f"a dictionary has a {type(name).__name__} for a name: refused")
    return name


def read_plain_pickle(data: bytes) -> Any:
    """The data of a pickle that holds nothing else; SnapshotError otherwise."""
    try:
        return _DataUnpickler(data).load()
    except SnapshotError:
        raise
    except Exception as error:  # A damaged pickle can fail anywhere in the machine.
        raise SnapshotError(f"not a readable pickle: {type(error).__name__}: {str(error)[:200]}") from None


def convert_snapshot(data: bytes, device: int = 0, capacity: int | None = None) -> str:
    """The text of docs/trace.md, section Snapshots, for one device."""
    snapshot = _typed(read_plain_pickle(data), dict, "the snapshot")
    traces = _typed(snapshot.get("device_traces"), (list, tuple), "device_traces")
    if not 0 <= device < len(traces):
        raise SnapshotError(f"device {device}: the snapshot has {len(traces)}")
    entries = _typed(traces[device], (list, tuple), "the device's trace")
    listed = _typed(snapshot.get("segments", []), (list, tuple), "segments")
    blocks = sum(len(entry["blocks"]) for entry in listed
                 if isinstance(entry, dict) and isinstance(entry.get("blocks"), (list, tuple)))
    if (len(entries) + len(listed) + blocks) * _LEAST_BYTES > len(data):
        raise SnapshotError(f"it repeats its events or segments: {len(entries):,} events, {len(listed):,} segments and "
                            f"{blocks:,} blocks of {len(data):,} bytes")
    trace = [_event(entry, f"event {at}") for at, entry in enumerate(entries)]
    segments = [_segment(entry, f"segment {at}") for at, entry in enumerate(listed)]
    before = _before(trace, [segment for segment in segments if segment["device"] == device])
    header = {"trainwright_snapshot": 1, "device": device, "settings": _settings(snapshot)}
    if capacity is not None:
        header["capacity"] = capacity
    if before:
        header["complete"] = False
    file = io.StringIO()
    file.write(json.dumps(header) + "\n")
    _write_events(file, [*before, *trace], [*[None] * len(before), *_kinds(entries, trace)])
    return file.getvalue()


def _write_events(file: TextIO, events: list[tuple[int, int, int, int]], kinds: list[int | None]) -> None:
    streams: dict[int, int] = {}
    for (action, address, size, stream), kind in zip(events, kinds, strict=True):
        told = "" if kind is None else f",{kind}"
        file.write(f"[{action},{address},{size},{streams.setdefault(stream, len(streams))}{told}]\n")


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def _phase(frames: Any) -> int:
    """What was going on, by the names on the stack: the kind of what is made then if nothing else is known of it."""
    known = [frame for frame in frames if isinstance(frame, dict)] if isinstance(frames, (list, tuple)) else []
    names = [_text(frame.get("name")) for frame in known]
    files = [_text(frame.get("filename")) for frame in known]
    if any(name == "step" and "optim" in file for name, file in zip(names, files)):
        return _OPTIMIZER
    # The engine's thread has frames of C++ at most.
    if not any(file.endswith(".py") for file in files) or any(
            name in ("backward", "_engine_run_backward") and "autograd" in file for name, file in zip(names, files)):
        return _TEMPORARY
    return _ACTIVATION if any(name in ("forward", "_call_impl") for name in names) else _PARAMETER


def _kinds(entries: list[dict], trace: list[tuple[int, int, int, int]]) -> list[int | None]:
    """Of each event that is an allocation, if stacks were recorded at all."""
    alloc = ACTIONS.index("alloc")
    frees = {ACTIONS.index("free_requested"), ACTIONS.index("free_completed")}
    kinds: list[int | None] = [None] * len(trace)
    if not any(entry.get("frames") for entry in entries):
        return kinds
    phases: dict[int, int] = {}  # of a stack, which many events may share
    alive: dict[int, int] = {}  # event that made what is at an address
    phase, since = None, 0  # the last allocation's, and the event where it began
    begun: dict[int, int] = {}  # when the phase of an allocation began, by event
    for at, (action, address, _, _) in enumerate(trace):
        if action == alloc:
            frames = entries[at].get("frames")
            now = phases[id(frames)] if id(frames) in phases else phases.setdefault(id(frames), _phase(frames))
            if now != phase:
                phase, since = now, at
            kinds[at], begun[at], alive[address] = now, since, at
        elif action in frees and address in alive:
            made = alive.pop(address)
            if kinds[made] == _PARAMETER:
                kinds[made] = _INPUT
            elif kinds[made] == _TEMPORARY and begun[made] != since:
                kinds[made] = _GRADIENT
    for made in alive.values():
        if kinds[made] == _TEMPORARY and begun[made] != since:
            kinds[made] = _GRADIENT
    return kinds


def _typed(value: Any, kind: type | tuple[type, ...], what: str) -> Any:
    if not isinstance(value, kind):
        raise SnapshotError(f"{what} is a {type(value).__name__}, not what a snapshot has there")
    return value


def _shown(value: Any) -> str:
    if isinstance(value, str):
        return repr(value[:40])
    if isinstance(value, int) and value.bit_length() > 64:
        return f"a number of {value.bit_length():,} bits"
    return repr(value) if isinstance(value, (int, float, type(None))) else f"a {type(value).__name__}"


def _number(entry: dict, where: str, name: str, default: int | None = None) -> int:
    value = entry.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise SnapshotError(f"{where}: '{name}' is {_shown(value)}, not a number of bytes, an address or a stream")
    return value


def _event(entry: Any, where: str) -> tuple[int, int, int, int]:
    entry = _typed(entry, dict, where)
    action = entry.get("action")
    if not isinstance(action, str) or action not in ACTIONS:
        raise SnapshotError(f"{where}: action {_shown(action)} is unknown")
    address = 0 if action in ("oom", "snapshot") else _number(entry, where, "addr")
    return ACTIONS.index(action), address, _number(entry, where, "size", 0), _number(entry, where, "stream", 0)


def _segment(entry: Any, where: str) -> dict:
    entry = _typed(entry, dict, where)
    blocks = [_typed(block, dict, f"{where}: a block")
              for block in _typed(entry.get("blocks"), (list, tuple), f"{where}: blocks")]
    address, placed = _number(entry, where, "address"), []
    for block in blocks:  # Older snapshots give no address: blocks follow one another.
        at, size = _number(block, where, "address", address), _number(block, where, "size")
        placed.append((at, _number(block, where, "requested_size", size), block.get("state") != "inactive"))
        address = at + size
    return {"address": _number(entry, where, "address"), "size": _number(entry, where, "total_size"),
            "stream": _number(entry, where, "stream", 0), "device": _number(entry, where, "device", 0),
            "expandable": bool(entry.get("is_expandable")), "blocks": placed}


def _settings(snapshot: dict) -> str:
    settings = snapshot.get("allocator_settings")
    found = [settings[name] for name in _SETTINGS if isinstance(settings, dict) and isinstance(settings.get(name), str)]
    return next((text for text in found if text), "")


def _before(trace: list[tuple[int, int, int, int]], segments: list[dict]) -> list[tuple[int, int, int, int]]:
    """What was there when the recording began, as events: every segment that is there at the end or is
    given back and was never taken, followed by its blocks of which the same is true, by address."""
    missing_segments = {address: (size, stream) for _, address, size, stream in
                        _never_made(trace, made=("segment_alloc", "segment_map"), gone=("segment_free", "segment_unmap"))}
    missing_blocks = {address: (size, stream) for _, address, size, stream in
                      _never_made(trace, made=("alloc",), gone=("free_requested", "free_completed"))}
    made = {ACTIONS.index(name): {event[1] for event in trace if event[0] == ACTIONS.index(name)}
            for name in ("alloc", "segment_alloc", "segment_map")}
    taken = made[ACTIONS.index("segment_alloc")] | made[ACTIONS.index("segment_map")]
    expandable = {segment["address"] for segment in segments if segment["expandable"]}
    for segment in segments:
        if segment["address"] not in taken:
            missing_segments.setdefault(segment["address"], (segment["size"], segment["stream"]))
        for address, size, active in segment["blocks"]:
            if active and address not in made[ACTIONS.index("alloc")]:
                missing_blocks.setdefault(address, (size, segment["stream"]))
    # A segment comes before the blocks at its address: sorted by address, then by kind.
    events = [(address, 0, ACTIONS.index("segment_map" if address in expandable else "segment_alloc"), *rest)
              for address, rest in missing_segments.items()]
    events += [(address, 1, ACTIONS.index("alloc"), *rest) for address, rest in missing_blocks.items()]
    return [(action, address, size, stream) for address, _, action, size, stream in sorted(events)]


def _never_made(trace, made: tuple[str, ...], gone: tuple[str, ...]) -> Iterator[tuple[int, int, int, int]]:
    makes, ends = ({ACTIONS.index(name) for name in names} for names in (made, gone))
    known: set[int] = set()
    for event in trace:
        if event[0] in ends and event[1] not in known:
            known.add(event[1])
            yield event
        elif event[0] in makes:
            known.add(event[1])
