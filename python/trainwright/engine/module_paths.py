"""Which module an op belongs to, in forward, recompute and backward."""
import weakref

import torch
from torch._C import _current_autograd_node
from torch._C._autograd import _get_sequence_nr


class ModulePaths:
    """In forward the innermost module that is running. In backward the module whose forward made the
    autograd node that is running: nodes are numbered as they are made, and the first op that runs
    after a number was given belongs to that node."""

    def __init__(self):
        self._names: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()
        self._running: list[torch.nn.Module] = []
        self._path_of_node: dict[int, str | None] = {}
        self._last_in_backward: str | None = None
        self._backward_ran = False

    def add_root(self, module: torch.nn.Module) -> None:
        """Names the module after its type and those inside by their way to it."""
        root = type(module).__name__
        for path, inner in module.named_modules():
            self._names.setdefault(inner, f"{root}.{path}" if path else root)

    def name_of(self, module: torch.nn.Module) -> str:
        if module not in self._names:
            self.add_root(module)
        return self._names[module]

    def next_iteration(self) -> None:
        self._path_of_node.clear()
        self._last_in_backward = None
        self._backward_ran = False

    def enter(self, module: torch.nn.Module) -> None:
        self._running.append(module)

    def leave(self, module: torch.nn.Module) -> None:
        # A forward that was cut short (checkpointing stops when it has what it needs) may leave some.
        while self._running and self._running.pop() is not module:
            pass

    @property
    def in_forward(self) -> bool:
        """False after a backward, outside all modules: clipping, logging, zeroing."""
        return bool(self._running) or not self._backward_ran

    def of_forward_op(self) -> str | None:
        path = self.name_of(self._running[-1]) if self._running else None
        self._path_of_node.setdefault(_get_sequence_nr() - 1, path)
        return path

    def of_backward_op(self) -> str | None:
        self._backward_ran = True
        node = _current_autograd_node()
        if node is not None:
            # A node that accumulates a gradient has no number of its own: it follows its weight's op.
            number = node._sequence_nr()
            self._last_in_backward = self._path_of_node.get(number, self._last_in_backward)
        return self._last_in_backward
