"""Questions in the words of the command line, asked of the native module."""
from __future__ import annotations

import json
import os
import pathlib
import tempfile
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

DATA = pathlib.Path(__file__).parent / "share" / "trainwright"
BAD_INPUT = 2


@dataclass(frozen=True)
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


@dataclass(frozen=True)
class Question:
    """A command line before it is written out: `options` are those of the command, with underscores."""
    command: tuple[str, ...]
    positionals: tuple[str, ...] = ()
    options: Mapping[str, Any] = field(default_factory=dict)

    def json(self) -> Any:
        """The answer as `--json` prints it."""
        return json.loads(self._ask(("--json",), 80)[0])

    def text(self, width: int = 80) -> str:
        """The answer as the program prints it."""
        return self._ask((), width)[0]

    def page(self, path: str) -> str:
        """The page that `--report` would write there."""
        return self._ask(("--report", path), 80)[1][path]

    def files(self) -> dict[str, str]:
        """What the program would write, by path."""
        return self._ask((), 80)[1]

    def _ask(self, more: tuple[str, ...], width: int) -> tuple[str, dict[str, str]]:
        with tempfile.TemporaryDirectory(prefix="trainwright-") as folder:
            words = [*self.command, *option_words(self.options, folder), *more]
            return run([*words, "--", *self.positionals] if self.positionals else words, width)


def run(words: list[str], width: int = 80) -> tuple[str, dict[str, str]]:
    """What a command line prints and the files it would write. Raises `Error` if it is not understood."""
    from . import _core
    exit_code, output, error, files = interruptible(lambda stop: _core.run(words, str(DATA), width, stop))
    if exit_code == BAD_INPUT:
        raise Error(diagnostics_of(words, width), error.decode(errors="replace").strip())
    return (output.decode(errors="replace"),
            {path: content.decode(errors="replace") for path, content in files})


def diagnostics_of(words: list[str], width: int) -> list[Diagnostic]:
    from . import _core
    answer = _core.run(["--json", *words], str(DATA), width)[1]
    return [Diagnostic(**one) for one in json.loads(answer)["error"]]


def interruptible(answer: Callable[[Any], Any]) -> Any:
    """The main thread waits where Ctrl-C reaches it; a search that it no longer waits for is stopped."""
    from . import _core
    if threading.current_thread() is not threading.main_thread():
        return answer(None)
    stop = _core.Stop()
    done: list[Any] = []

    def work() -> None:
        try:
            done.append((answer(stop), None))
        except BaseException as fault:  # raised again where it was asked for
            done.append((None, fault))

    thread = threading.Thread(target=work, name="trainwright")
    thread.start()
    try:
        thread.join()
    except BaseException:
        stop.set()
        raise
    found, fault = done[0]
    if fault is not None:
        raise fault
    return found


def option_words(options: Mapping[str, Any], folder: str) -> list[str]:
    words = []
    for name, value in options.items():
        option = "--" + name.replace("_", "-")
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


def file_word(value: Any, folder: str, name: str) -> str:
    """The text of a plain value; a mapping becomes a file, as the program takes it."""
    if not isinstance(value, Mapping):
        return os.fspath(value) if isinstance(value, os.PathLike) else str(value)
    path = pathlib.Path(folder) / f"{name}.json"
    path.write_text(json.dumps(value))
    return str(path)


def document_word(value: Any) -> str:
    """A model or a trainer: a name, a path, a mapping, or an object with `to_dict()` such as a transformers config."""
    if hasattr(value, "to_dict"):
        value = value.to_dict()
    if isinstance(value, Mapping):
        return json.dumps(value, default=str)
    return os.fspath(value) if isinstance(value, os.PathLike) else str(value)


def entries_word(value: Any) -> str | None:
    """A layout or a job: "tp=8,sp" or {"tp": 8, "sp": True}."""
    if not isinstance(value, Mapping):
        return value
    entries = []
    for key, one in value.items():
        if one is None or one is False:
            continue
        text = "+".join(map(str, one)) if isinstance(one, (list, tuple)) else str(one)
        entries.append(key if one is True else f"{key}={text}")
    return ",".join(entries)
