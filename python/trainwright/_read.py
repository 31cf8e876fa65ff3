"""JSON into frozen dataclasses by their type hints, and values into tables of HTML."""
from __future__ import annotations

import dataclasses
import functools
import html
import keyword
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from ._ask import Absent

T = TypeVar("T")


class Record(Mapping[str, Any]):
    """A mapping that cannot be changed and has a hash, for what has keys of its own in every answer."""
    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any] = types.MappingProxyType({})):
        self._values = {key: frozen(value) for key, value in values.items()}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __hash__(self) -> int:
        return hash(frozenset(self._values.items()))

    def __repr__(self) -> str:
        return repr(self._values)

    def to_dict(self) -> dict[str, Any]:
        """As JSON has it."""
        return {key: thawed(value) for key, value in self._values.items()}


def absent(why: str) -> Any:
    """Typed as whatever should stand there: who asks for more than is there gets an `Error`, not None."""
    return Absent(why)


def frozen(value: Any) -> Any:
    if isinstance(value, Mapping):
        return value if isinstance(value, Record) else Record(value)
    return tuple(map(frozen, value)) if isinstance(value, (list, tuple)) else value


def thawed(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict()
    return [thawed(one) for one in value] if isinstance(value, tuple) else value


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def name_of(key: str) -> str:
    """The field of a key: `from_` of `from`."""
    return key + "_" if keyword.iskeyword(key) else key


def read(cls: type[T], document: Mapping[str, Any]) -> T:
    """Keys that the class does not know are left out: a later program may say more."""
    hints = hints_of(typing.cast("type", cls))
    known = {one.name for one in dataclasses.fields(cls) if one.init}  # type: ignore[arg-type]
    return cls(**{name_of(key): value_of(hints[name_of(key)], value) for key, value in document.items() if name_of(key) in known})


def value_of(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not type(None))
    if isinstance(hint, type) and hasattr(hint, "parse"):
        return hint.parse(value)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint) and isinstance(value, Mapping):
        return read(hint, value)
    if typing.get_origin(hint) is tuple:
        return tuple(value_of(typing.get_args(hint)[0], one) for one in value)
    return frozen(value)


def table(heads: Sequence[str], rows: Iterable[Sequence[Any]], caption: str = "") -> str:
    """Numbers stand at the right."""
    def cell(tag: str, value: Any, right: bool) -> str:
        align = "right" if right else "left"
        return f'<{tag} style="text-align:{align}">{html.escape(str(value))}</{tag}>'
    lines = [f"<caption>{html.escape(caption)}</caption>"] if caption else []
    lines.append("<tr>" + "".join(cell("th", head, i > 0) for i, head in enumerate(heads)) + "</tr>")
    for row in rows:
        lines.append("<tr>" + "".join(cell("td", value, i > 0) for i, value in enumerate(row)) + "</tr>")
    return "<table>" + "".join(lines) + "</table>"


def table_of(rows: Sequence[Mapping[str, Any]], caption: str = "", most: int = 100) -> str:
    """Rows with their keys as heads."""
    heads = list(dict.fromkeys(key for row in rows for key in row))
    more = f"{caption}; " * bool(caption) + f"the first {most} of {len(rows)}" if len(rows) > most else caption
    return table(heads or ["nothing"], [[row.get(head, "") for head in heads] for row in rows[:most]], more)


def gib(count: float) -> str:
    return f"{count / 2**30:.2f}"


def seconds(value: float) -> str:
    """Three digits: 2.59 s, 87.3 ms."""
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"


def chance(share: float) -> str:
    """As the program says it: 0.6 %, never 0 or 100."""
    return "<0.1 %" if share < 0.001 else ">99.9 %" if share > 0.999 else f"{100 * share:.1f} %"
