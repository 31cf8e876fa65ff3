"""A layout as a value: how a model is spread over the ranks."""
from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any

from ._ask import Diagnostic, Error, entries_word, plain

SHORT = {"fsdp": "fsdp", "hsdp": "hsdp"}  # alone, short for sharding=...
FOLLOWS = {  # what a layout had worked out for other degrees, and is worked out again
    "dp": {"tp", "pp", "cp"}, "dp_shard": {"tp", "pp", "cp", "dp", "dp_replicate"}, "dp_replicate": {"tp", "pp", "cp", "dp", "dp_shard"},
    "layers": {"pp", "vpp"}, "first_layers": {"pp", "vpp"}, "last_layers": {"pp", "vpp"}, "schedule": {"pp", "vpp"},
    "placement": {"pp", "vpp"}, "micro_batch_group": {"pp", "vpp"}, "etp": {"tp"},
}


@dataclass(frozen=True, slots=True, repr=False)
class Layout:
    """The keys of `trainwright help layout`; None is "as the trainer, the model or the cluster has it".

    >>> from trainwright import Layout
    >>> layout = Layout.parse("tp=8,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4k")
    >>> layout.tp, layout.cp, layout.seq
    (8, 1, 4096)
    >>> layout.replace(tp=4, on=["compile"])
    Layout(tp=4, pp=4, sp=True, zero=1, gbs=512, seq=4096, on=('compile',))
    >>> str(layout.replace(tp=4))
    'tp=4,pp=4,sp,zero=1,mbs=1,gbs=512,seq=4096'
    >>> Layout.parse(str(layout)) == layout and len({layout, Layout.parse(layout)})
    1
    """
    tp: int = 1
    pp: int = 1
    vpp: int = 1
    dp: int | None = None
    cp: int = 1
    ep: int = 1
    etp: int | None = None
    sp: bool = False
    zero: int | None = None
    sharding: str | None = None
    dp_shard: int | None = None
    dp_replicate: int | None = None
    mbs: int = 1
    gbs: int | None = None
    seq: int | None = None
    recompute: str | None = None
    first_layers: int | None = None
    last_layers: int | None = None
    layers: str | None = None
    count_embedding: int | None = None
    count_loss: int | None = None
    mtp_stage: int | None = None
    vocab_parallel: bool = False
    schedule: str | None = None
    placement: str | None = None
    micro_batch_group: int | None = None
    offload: tuple[str, ...] = ()
    precision: str | None = None
    gradients: str | None = None
    cp_kind: str | None = None
    cp_ulysses: int | None = None
    dispatcher: str | None = None
    on: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    loss: str | None = None
    max_connections: int | None = None
    order: str | None = None

    def __post_init__(self) -> None:
        for name, kind in KINDS.items():
            object.__setattr__(self, name, value_of(name, kind, getattr(self, name)))

    @classmethod
    def parse(cls, text: Any) -> Layout:
        """A layout of its text or of a mapping of its keys."""
        if isinstance(text, cls):
            return text
        values: dict[str, Any] = {}
        for entry in str(entries_word(text)).split(","):
            key, has, value = (part.strip() for part in entry.partition("="))
            if not has and key in SHORT:
                key, has, value = "sharding", "=", SHORT[key]
            if key not in KINDS:
                raise fault(entry, f"unknown key '{key}'", "the keys are " + ", ".join(KINDS))
            if key in values:
                raise fault(entry, f"{key} is given twice", "")
            values[key] = value if has else True
        return cls(**values)

    def replace(self, **changes: Any) -> Layout:
        """With these keys. What hangs on one of them and is not named, `dp` and the split of layers among it, is worked out again."""
        again = {name: None for name, by in FOLLOWS.items() if by & changes.keys()}
        return dataclasses.replace(self, **{**again, **changes})

    def to_dict(self) -> dict[str, Any]:
        """The keys that say something."""
        found = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return {name: value for name, value in found.items() if value != DEFAULTS[name]}

    def degrees(self) -> dict[str, int | None]:
        """What a table of layouts has as columns."""
        return {name: getattr(self, name) for name in ("tp", "pp", "vpp", "cp", "ep", "dp", "zero", "mbs", "gbs", "seq")}

    def device_mesh(self) -> dict[str, tuple[Any, ...]]:
        """Keyword arguments of `torch.distributed.init_device_mesh`: the degrees above 1, neighbours last.

        >>> from trainwright import Layout
        >>> Layout(tp=2, pp=2, dp=4, dp_replicate=2).device_mesh()
        {'mesh_shape': (2, 2, 2, 2), 'mesh_dim_names': ('pp', 'dp_replicate', 'dp_shard', 'tp')}
        """
        if self.dp is None:
            raise fault(self, "dp is not named", "an answer's layout has it")
        replicas = self.dp_replicate or 1
        sizes = {"tp": self.tp, "cp": self.cp, "pp": self.pp, "dp": self.dp, "dp_replicate": replicas, "dp_shard": self.dp // replicas}
        axes = [axis for axis in reversed((self.order or "tp-cp-ep-dp-pp").split("-")) if axis != "ep"]
        names = [name for axis in axes for name in (("dp_replicate", "dp_shard") if axis == "dp" and replicas > 1 else (axis,))
                 if sizes[name] > 1]
        return {"mesh_shape": tuple(sizes[name] for name in names), "mesh_dim_names": tuple(names)}

    def __str__(self) -> str:
        said = {"tp": self.tp, "pp": self.pp, "mbs": self.mbs, **self.to_dict()}
        return str(entries_word({name: said[name] for name in KINDS if name in said}))

    def __repr__(self) -> str:
        return f"Layout({', '.join(f'{name}={value!r}' for name, value in self.to_dict().items())})"


KINDS = {one.name: str(one.type).split(" ")[0] for one in dataclasses.fields(Layout)}
DEFAULTS = {one.name: one.default for one in dataclasses.fields(Layout)}


def fault(where: Any, what: str, hint: str) -> Error:
    return Error([Diagnostic(f"layout '{where}'", what, hint)], f"layout '{where}': {what}" + f"\n  hint: {hint}" * bool(hint))


def value_of(name: str, kind: str, value: Any) -> Any:
    value = plain(value)
    if value is None or value is False:
        return DEFAULTS[name]
    if kind == "bool":
        if value is not True:
            raise fault(f"{name}={value}", "it is on or off", f"write '{name}' alone for on")
        return True
    if kind.startswith("tuple"):
        return tuple(value.split("+")) if isinstance(value, str) else tuple(map(str, value))
    if kind == "str":
        return str(value)
    return whole(name, value)


def whole(name: str, value: Any) -> int:
    """4096, "4096" or "4k"; a key that may stand alone counts as 1."""
    if isinstance(value, int):
        return int(value)
    digits, times = (value[:-1], 1024) if str(value)[-1:] == "k" else (value, 1)
    if not (isinstance(digits, str) and digits.isdecimal()):
        raise fault(f"{name}={value}", f"'{value}' is not a whole number", "")
    return int(digits) * times
