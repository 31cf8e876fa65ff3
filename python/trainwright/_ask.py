"""Questions in the words of the command line, asked of the native module."""
from __future__ import annotations

import json
import logging
import os
import pathlib
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

PACKAGE = pathlib.Path(__file__).parent
DATA = PACKAGE / "share" / "trainwright"
PROGRAM = PACKAGE / "bin" / "trainwright"
BAD_INPUT = 2
LOG = logging.getLogger("trainwright")  # what is asked and how long the answer takes, at level DEBUG


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One fault of a question: its place, what is wrong and what would help (may be empty)."""
    where: str
    what: str
    hint: str


class Error(ValueError):
    """A question that cannot be understood, with every fault at once in `diagnostics`.

    >>> import trainwright
    >>> try:
    ...     trainwright.estimate("llama-2-7b", on="8xH10", layout={"tp": 2, "gbs": 64, "seq": 4096})
    ... except trainwright.Error as error:
    ...     print(error.diagnostics[0].what)
    unknown accelerator or cluster 'H10'
    """

    def __init__(self, diagnostics: Iterable[Diagnostic], text: str):
        super().__init__(text)
        self.diagnostics = tuple(diagnostics)

    def __reduce__(self) -> tuple[Any, ...]:
        # Otherwise made again of its text alone, which fails where a process pool hands it back.
        return type(self), (self.diagnostics, str(self)), self.__dict__


class Nothing(Error, AttributeError):
    """What was asked of an answer that has nothing there, such as the step time of an invalid layout."""

    def __init__(self, why: str):
        super().__init__([Diagnostic("", why, "")], why)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (str(self),), self.__dict__


class Absent:
    """Stands where an answer has nothing: it is false, and whatever is asked of it raises why."""
    __slots__ = ("why",)

    def __init__(self, why: str):
        self.why = why

    def __bool__(self) -> bool:
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Absent) and other.why == self.why

    def __hash__(self) -> int:
        return hash(self.why)

    def __repr__(self) -> str:
        return f"<nothing: {self.why}>"

    def __str__(self) -> str:
        return ""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "why":  # what copies, pickles and shows objects looks for
            raise AttributeError(name)
        raise Nothing(self.why)


Error.__module__ = Nothing.__module__ = "trainwright"  # where people know them from


@dataclass(frozen=True, slots=True)
class Question:
    """A command line before it is written out: `options` are those of the command, with underscores."""
    command: tuple[str, ...]
    positionals: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def json(self, answered: Callable[[list[str], int], tuple[str, dict[str, str]]] | None = None) -> Any:
        """The answer as `--json` prints it."""
        return json.loads(self._ask(("--json",), 80, answered)[0])

    def text(self, width: int = 80) -> str:
        """The answer as the program prints it."""
        return self._ask((), width)[0]

    def page(self, path: str) -> str:
        """The page that `--report` would write there."""
        return self._ask(("--report", path), 80)[1][path]

    def files(self) -> dict[str, str]:
        """What the program would write, by path."""
        return self._ask((), 80)[1]

    def _ask(self, more: tuple[str, ...], width: int, answered: Any = None) -> tuple[str, dict[str, str]]:
        with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
            words = [*self.command, *option_words(self.options, folder), *more]
            return (answered or run)([*words, "--", *self.positionals] if self.positionals else words, width)


def core() -> Any:
    """The native module, which a checkout alone has not."""
    try:
        from . import _core
    except ImportError as fault:
        raise ImportError(f"{PACKAGE} is no installed package: its native module is made by `pip install .` or "
                          "tools/make/make_wheel.sh") from fault
    return _core


def run(words: list[str], width: int = 80) -> tuple[str, dict[str, str]]:
    """What a command line prints and the files it would write. Raises `Error` if it is not understood."""
    native = core()
    begin = time.perf_counter()
    exit_code, output, error, files = interruptible(lambda stop: native.run(words, str(DATA), width, stop))
    LOG.debug("%.3f s: %s", time.perf_counter() - begin, " ".join(words))
    if exit_code == BAD_INPUT:
        told = output if "--json" in words else native.run(["--json", *words], str(DATA), width)[1]
        raise error_of(told, error)
    return (output.decode(errors="replace"),
            {path: content.decode(errors="replace") for path, content in files})


def run_program(words: list[str], width: int = 80) -> tuple[str, dict[str, str]]:
    """The same of a program of its own, for what starts others; what it says meanwhile passes through. Ctrl-C ends it, and it says
    what it has by then."""
    import subprocess
    LOG.debug("started: %s", " ".join(words))
    with subprocess.Popen([PROGRAM, *words], stdout=subprocess.PIPE) as process:
        try:
            output = process.communicate()[0]
        except KeyboardInterrupt:
            process.wait()  # it has had the signal too, and ends its trial first
            raise
    if process.returncode == BAD_INPUT:
        raise error_of(output, b"")
    return output.decode(errors="replace"), {}


def error_of(told: bytes, text: bytes) -> Error:
    found = [Diagnostic(**one) for one in json.loads(told)["error"]]
    said = text.decode(errors="replace").strip()
    return Error(found, said or "\n".join(f"{one.where}: {one.what}" for one in found))


def interruptible(answer: Callable[[Any], Any]) -> Any:
    """The main thread waits where Ctrl-C reaches it; a search that it no longer waits for is stopped."""
    if threading.current_thread() is not threading.main_thread():
        return answer(None)
    stop: Any = core().Stop()
    done: list[Any] = []
    over = threading.Event()  # an interrupted join() takes the thread for ended, and Python would not wait for it when it exits

    def work() -> None:
        try:
            done.append((answer(stop), None))
        except BaseException as fault:  # raised again where it was asked for
            done.append((None, fault))
        over.set()

    threading.Thread(target=work, name="trainwright").start()
    try:
        over.wait()
    except BaseException:
        stop.set()
        stop = None  # or the traceback keeps it until after the module is gone
        raise
    found, fault = done[0]
    if fault is not None:
        raise fault
    return found


def plain(value: Any) -> Any:
    """A number of numpy or pandas as one of Python; 4096.0 is 4096, as a column of pandas with a gap has it."""
    if callable(getattr(value, "item", None)) and not isinstance(value, Mapping):
        value = value.item()
    return int(value) if isinstance(value, float) and value.is_integer() else value


def option_words(options: Mapping[str, Any], folder: str) -> list[str]:
    words = []
    for name, value in options.items():
        option = "--" + name.rstrip("_").replace("_", "-")
        value = plain(value)
        if value is None or value is False:
            continue
        if value is True:
            words.append(option)
            continue
        for one in value if isinstance(value, (list, tuple)) else [value]:
            text = file_word(one, folder, name)
            # A value that looks like an option is one word with its name.
            words += [f"{option}={text}"] if text.startswith("-") else [option, text]
    return words


def named_by(value: Any) -> str | None:
    """What `show` was asked for, of its answer."""
    question = getattr(value, "question", None)
    return question.positionals[0] if isinstance(question, Question) and question.command[0] == "show" else None


def file_word(value: Any, folder: str, name: str) -> str:
    """The text of a plain value; a mapping becomes a file, as the program takes it."""
    if not isinstance(value, Mapping):
        return named_by(value) or (os.fspath(value) if isinstance(value, os.PathLike) else str(plain(value)))
    path = pathlib.Path(folder) / f"{name}.json"
    path.write_text(json.dumps(value, default=as_json))
    return str(path)


def as_json(value: Any) -> Any:
    """What JSON has no word for: mappings of other kinds, numbers of numpy; what else there is as text."""
    value = plain(value)
    return dict(value) if isinstance(value, Mapping) else value if isinstance(value, (bool, int, float)) else str(value)


def document_word(value: Any) -> str:
    """A model or a trainer: a name, a path, a mapping, or an object with `to_dict()` such as a transformers config."""
    if name := named_by(value):
        return name
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return json.dumps(value, default=as_json)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def entries_word(value: Any) -> str | None:
    """A layout or a job: "tp=8,sp", {"tp": 8, "sp": True}, a `Layout`, or what has one, such as a row of a plan."""
    if isinstance(value, Absent):
        raise Nothing(value.why)
    value = getattr(value, "layout", value)
    if value is None or not isinstance(value, Mapping):
        return None if value is None else str(value)
    entries = []
    for key, one in value.items():
        one = plain(one)
        if one is None or one is False or one == ():
            continue
        between = "/" if key in ("layers", "recompute") else "+"
        text = between.join(map(str, one)) if isinstance(one, (list, tuple)) else str(one)
        entries.append(key if one is True else f"{key}={text}")
    return ",".join(entries)
