"""JSON into dataclasses by their type hints, and dataclasses into tables of HTML."""
from __future__ import annotations

import dataclasses
import functools
import html
import types
import typing
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

T = TypeVar("T")


@functools.cache
def hints_of(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def read(cls: type[T], document: dict[str, Any]) -> T:
    """Keys that the class does not know are left out: a later program may say more."""
    hints = hints_of(typing.cast("type", cls))
    known = {one.name for one in dataclasses.fields(cls) if one.init}  # type: ignore[arg-type]
    return cls(**{key: value_of(hints[key], value) for key, value in document.items() if key in known})


def value_of(hint: Any, value: Any) -> Any:
    if value is None:
        return None
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        hint = next(one for one in typing.get_args(hint) if one is not type(None))
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return read(hint, value)
    if typing.get_origin(hint) is list:
        return [value_of(typing.get_args(hint)[0], one) for one in value]
    return value


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


def gib(count: float) -> str:
    return f"{count / 2**30:.2f}"


def seconds(value: float) -> str:
    """Three digits: 2.59 s, 87.3 ms."""
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"
