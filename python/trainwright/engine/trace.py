"""Writes a trace (docs/trace.md) line by line and keeps count of what is alive, as the replay does."""
import enum
import json
from typing import TextIO

VERSION = 1


class Kind(enum.IntEnum):
    """What a storage is for; the numbers of docs/trace.md."""
    PARAMETER = 0
    BUFFER = 1
    GRADIENT = 2
    OPTIMIZER = 3
    ACTIVATION = 4
    TEMPORARY = 5
    INPUT = 6
    OTHER = 7


class Phase(enum.IntEnum):
    FORWARD = 0
    BACKWARD = 1
    RECOMPUTE = 2
    OPTIMIZER = 3
    OTHER = 4


class TraceWriter:
    """Storages are numbered here. `live` and `by_kind` are the bytes now, `peak` and `peak_by_kind`
    those after the op with the first strict maximum."""

    def __init__(self, file: TextIO, program: str, device: str, rounding: int = 1):
        self._file = file
        self._texts: dict[str, int] = {}
        self._sizes: list[int] = []  # bytes before rounding; -1: dead
        self._kinds: list[int] = []
        self._dying: list[int] = []  # freed, and not yet written
        self._rounding = rounding
        self.ops = 0
        self.live = 0
        self.by_kind = [0] * len(Kind)
        self.peak = 0
        self.peak_by_kind = [0] * len(Kind)
        self.peak_op = -1
        header = {"trainwright_trace": VERSION, "program": program, "device": device, "frees": "recorded"}
        if rounding != 1:
            header["rounding"] = rounding
        file.write(json.dumps(header) + "\n")

    @property
    def storages(self) -> int:
        return len(self._sizes)

    def size_of(self, storage: int) -> int:
        return self._sizes[storage]

    def kind_of(self, storage: int) -> int:
        return self._kinds[storage]

    def is_alive(self, storage: int) -> bool:
        return self._sizes[storage] >= 0

    def text(self, text: str | None) -> int:
        """The number of a name, which is written when it is new."""
        if text is None:
            return -1
        if text not in self._texts:
            self._texts[text] = len(self._texts)
            self._file.write(json.dumps(text) + "\n")
        return self._texts[text]

    def exist(self, size: int, kind: Kind, name: str | None = None, module: str | None = None) -> int:
        """A storage made outside any op. Before the first op it is part of the first peak."""
        storage = self._make(size, kind)
        self._event([4, storage, size, int(kind), self.text(name), self.text(module)])
        if self.ops == 0:
            self._look()
        return storage

    def op(self, name: str, phase: Phase, module: int, read: list[int], written: list[int],
           made: list[tuple[int, Kind]]) -> list[int]:
        """An op ran; `made` has the size and kind of each new storage, whose numbers come back.
        Storages that died while it ran are not listed: they are gone already."""
        name_text = self.text(name)
        storages = [self._make(size, kind) for size, kind in made]
        read = [storage for storage in read if self._sizes[storage] >= 0]
        written = [storage for storage in written if self._sizes[storage] >= 0]
        line = [0, name_text, int(phase), module, len(read), *read, len(written), *written, len(made)]
        for storage, (size, kind) in zip(storages, made):
            line += (storage, size, int(kind))
        self._event(line)
        self.ops += 1
        self._look()
        return storages

    def free(self, storage: int) -> None:
        self._count(self._kinds[storage], -self._sizes[storage])
        self._sizes[storage] = -1
        self._dying.append(storage)

    def relabel(self, storage: int, kind: Kind) -> None:
        if self._kinds[storage] == kind:
            return
        self._count(self._kinds[storage], -self._sizes[storage])
        self._kinds[storage] = kind
        self._count(kind, self._sizes[storage])
        self._event([2, int(kind), storage])

    def resize(self, storage: int, size: int) -> None:
        self._count(self._kinds[storage], -self._sizes[storage])
        self._sizes[storage] = size
        self._count(self._kinds[storage], size)
        self._event([3, storage, size])

    def mark(self, text: str) -> None:
        self._event([5, self.text(text)])

    def finish(self) -> None:
        self._write_frees()
        self._file.flush()

    def _make(self, size: int, kind: Kind) -> int:
        self._sizes.append(size)
        self._kinds.append(kind)
        self._count(kind, size)
        return len(self._sizes) - 1

    def _count(self, kind: int, size: int) -> None:
        # Rounding is upwards in absolute value, so that what is added is taken off again.
        rounded = -(-abs(size) // self._rounding) * self._rounding
        change = rounded if size >= 0 else -rounded
        self.live += change
        self.by_kind[kind] += change

    def _look(self) -> None:
        if self.live > self.peak:
            self.peak = self.live
            self.peak_by_kind = list(self.by_kind)
            self.peak_op = self.ops - 1

    def _event(self, numbers: list[int]) -> None:
        # A finalizer may run at any allocation of Python's own, so frees are written in between.
        self._write_frees()
        self._file.write("[" + ",".join(map(str, numbers)) + "]\n")

    def _write_frees(self) -> None:
        if self._dying:
            dying, self._dying = self._dying, []
            self._file.write("[1," + ",".join(map(str, dying)) + "]\n")
