"""The dispatch mode behind `trainwright.record`: sees every op below autograd."""
import functools
import weakref
from typing import Any

import torch
from torch.distributed._tools.common_utils import get_untyped_storages
from torch.distributed.tensor import DTensor
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from .module_paths import ModulePaths
from .trace import Kind, Phase, TraceWriter

# Two thirds of all fake ops; it makes nothing and moves nothing.
_IGNORED = {torch.ops.prim.device.default}


class Recorder(TorchDispatchMode):
    """Turns ops, finalizers and hooks into the writer's events while it is entered.

    Follows `torch.distributed._tools.MemTracker` in what is counted and under which kind; kinds can
    differ only where an iteration begins (`next_iteration` stands for its `reset_mod_stats`)."""

    def __init__(self, writer: TraceWriter, fake: bool):
        super().__init__()
        self._writer = writer
        self._fake = fake
        self._number_of: dict[int, int] = {}  # address of a living storage -> its number in the trace
        self._finalizers: dict[int, weakref.ref] = {}
        self._paths = ModulePaths()
        self._in_optimizer = False
        self._recomputing: weakref.ref | None = None  # outermost module that runs forward in backward
        self._seen_modules: weakref.WeakSet = weakref.WeakSet()  # in this iteration
        self._hooked = WeakIdKeyDictionary()  # parameters
        self._hooks: list[Any] = []
        self._resize = torch.UntypedStorage.resize_

    def exist(self, *things: Any) -> None:
        """Counts what is there before the first op: modules, optimizers, tensors (inputs)."""
        for thing in tree_leaves(things):
            if isinstance(thing, torch.nn.Module):
                self._paths.add_root(thing)
                self._label_module(thing)
            elif isinstance(thing, torch.optim.Optimizer):
                self._label_state(thing)
            elif isinstance(thing, torch.Tensor):
                self._label(thing, Kind.INPUT)

    def next_iteration(self, text: str) -> None:
        self._seen_modules.clear()
        self._paths.next_iteration()
        self._writer.mark(text)

    def __enter__(self):
        self._hooks = [
            register_module_forward_pre_hook(self._before_forward),
            register_module_forward_hook(self._after_forward, always_call=True),
            register_optimizer_step_pre_hook(self._before_optimizer),
            register_optimizer_step_post_hook(self._after_optimizer),
        ]
        torch.UntypedStorage.resize_ = self._patched_resize()
        return super().__enter__()

    def __exit__(self, *exception):
        super().__exit__(*exception)
        torch.UntypedStorage.resize_ = self._resize
        for hook in self._hooks:
            hook.remove()
        self._hooks.clear()
        self._hooked.clear()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if function in _IGNORED:
            return function(*args, **kwargs)
        if DTensor in types:
            return NotImplemented  # Its ops on local tensors come here afterwards.
        read, written = self._operands(function, args, kwargs)
        results = function(*args, **kwargs)
        phase, kind = self._phase_and_kind()
        made: dict[int, torch.UntypedStorage] = {}
        for storage in _storages(results):
            number = self._number_of.get(storage._cdata)
            if number is None:
                if self._has_memory(storage):
                    made.setdefault(storage._cdata, storage)
            elif storage.nbytes() != self._writer.size_of(number):
                self._writer.resize(number, storage.nbytes())
        numbers = self._writer.op(str(function), phase, self._module(phase), read, written,
                                  [(storage.nbytes(), kind) for storage in made.values()])
        for number, storage in zip(numbers, made.values()):
            self._follow(storage, number)
        return results

    def _operands(self, function, args, kwargs) -> tuple[list[int], list[int]]:
        """Numbers of the storages read and written; one that is written is not listed as read."""
        positions, names = _written_arguments(function)
        written = self._numbers([args[position] for position in positions if position < len(args)]
                                + [kwargs[name] for name in names if name in kwargs])
        read = self._numbers([args, kwargs])
        return [number for number in read if number not in written], list(written)

    def _numbers(self, things: Any) -> dict[int, None]:
        found = (self._number_of.get(storage._cdata) for storage in _storages(things))
        return {number: None for number in found if number is not None}

    def _phase_and_kind(self) -> tuple[Phase, Kind]:
        if self._in_optimizer:
            return Phase.OPTIMIZER, Kind.OPTIMIZER
        if not _in_backward():
            return (Phase.FORWARD if self._paths.in_forward else Phase.OTHER), Kind.ACTIVATION
        if self._recomputing is None:
            return Phase.BACKWARD, Kind.TEMPORARY
        return Phase.RECOMPUTE, Kind.ACTIVATION

    def _module(self, phase: Phase) -> int:
        if phase in (Phase.OPTIMIZER, Phase.OTHER):
            return -1
        path = self._paths.of_backward_op() if phase is Phase.BACKWARD else self._paths.of_forward_op()
        return self._writer.text(path)

    def _has_memory(self, storage: torch.UntypedStorage) -> bool:
        """Storages of the meta device are none, except that fake tensors are made of them."""
        return self._fake or storage.device.type != "meta"

    def _follow(self, storage: torch.UntypedStorage, number: int) -> None:
        """Until it dies. PyTorch keeps a storage's Python object as long as the storage itself, so a
        weak reference tells the end even when only autograd held it."""
        address = storage._cdata

        def died(_, address=address, number=number):
            del self._number_of[address]
            del self._finalizers[address]
            self._writer.free(number)

        self._number_of[address] = number
        self._finalizers[address] = weakref.ref(storage, died)

    def _label(self, tensor: torch.Tensor, kind: Kind, name: str | None = None, module: str | None = None) -> None:
        """The tensor's storages are of this kind from here on; unknown ones exist from here on."""
        for storage in _storages(tensor):
            number = self._number_of.get(storage._cdata)
            if number is None:
                if self._has_memory(storage):
                    self._follow(storage, self._writer.exist(storage.nbytes(), kind, name, module))
            else:
                self._writer.relabel(number, kind)

    def _label_module(self, module: torch.nn.Module) -> None:
        path = self._paths.name_of(module)
        for name, parameter in module.named_parameters():
            self._label(parameter, Kind.PARAMETER, f"{path}.{name}", _parent(f"{path}.{name}"))
            if parameter.grad is not None:
                self._label(parameter.grad, Kind.GRADIENT)
        for name, buffer in module.named_buffers():
            self._label(buffer, Kind.BUFFER, f"{path}.{name}", _parent(f"{path}.{name}"))

    def _label_state(self, optimizer: torch.optim.Optimizer) -> None:
        for state in optimizer.state.values():
            for value in state.values():
                if isinstance(value, torch.Tensor):
                    self._label(value, Kind.OPTIMIZER)

    def _hook_gradients(self, module: torch.nn.Module) -> None:
        """What arrives at a parameter is a gradient, and so is what it has afterwards."""
        for parameter in module.parameters():
            if parameter in self._hooked:
                continue
            self._hooked[parameter] = True
            if parameter.requires_grad:
                self._hooks += [
                    parameter.register_hook(lambda gradient: self._label(gradient, Kind.GRADIENT)),
                    parameter.register_post_accumulate_grad_hook(
                        lambda owner: self._label(owner.grad, Kind.GRADIENT)),
                ]

    def _before_forward(self, module: torch.nn.Module, _) -> None:
        self._paths.enter(module)
        if module not in self._seen_modules:
            self._seen_modules.add(module)
            self._label_module(module)
            self._hook_gradients(module)
        elif _in_backward() and self._recomputing is None:
            self._recomputing = weakref.ref(module)

    def _after_forward(self, module: torch.nn.Module, _, __) -> None:
        self._paths.leave(module)
        if _in_backward() and self._recomputing is not None and self._recomputing() is module:
            self._recomputing = None

    def _before_optimizer(self, *_) -> None:
        self._in_optimizer = True

    def _after_optimizer(self, optimizer: torch.optim.Optimizer, *_) -> None:
        self._label_state(optimizer)
        self._in_optimizer = False

    def _patched_resize(self):
        """`UntypedStorage.resize_` is no op, so no dispatch mode sees it."""
        original = self._resize

        @functools.wraps(original)
        def resize_(storage: torch.UntypedStorage, size: int) -> None:
            original(storage, size)
            number = self._number_of.get(storage._cdata)
            if number is not None and storage.nbytes() != self._writer.size_of(number):
                self._writer.resize(number, storage.nbytes())

        return resize_


def _in_backward() -> bool:
    return torch._C._current_graph_task_id() != -1


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _storages(things: Any) -> list[torch.UntypedStorage]:
    storages: list[torch.UntypedStorage] = []
    for leaf in tree_leaves(things):
        if isinstance(leaf, torch.Tensor):
            storages += get_untyped_storages(leaf)
    return storages


@functools.cache
def _written_arguments(function) -> tuple[tuple[int, ...], tuple[str, ...]]:
    """Positions and names of the arguments that the op's schema says it writes to."""
    written = [(position, argument) for position, argument in enumerate(function._schema.arguments)
               if argument.alias_info is not None and argument.alias_info.is_write]
    return tuple(position for position, _ in written), tuple(argument.name for _, argument in written)
