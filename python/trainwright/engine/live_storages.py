"""Live bytes by counting storages: every tensor storage that an operator makes while the counter is
on is added with its size and taken off when PyTorch frees it.

It sees what a caching allocator would be asked for (activations, gradients, receive buffers,
tensors that a pending send holds) and nothing else: no rounding, no workspace inside an operator, no
interpreter. PyTorch keeps a storage's Python object alive as long as the storage itself, so a weak
reference tells the end of the storage even when only C++ (autograd, a send in flight) held it.
"""
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class LiveStorages(TorchDispatchMode):
    """`with LiveStorages() as live: ...`; then `live.bytes` now and `live.peak` so far."""

    def __init__(self):
        super().__init__()
        self.bytes = 0
        self.peak = 0
        self._known: dict[int, weakref.ref] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        results = function(*args, **(kwargs or {}))
        for result in tree_leaves(results):
            if isinstance(result, torch.Tensor):
                self.add(result)
        return results

    def add(self, tensor: torch.Tensor) -> None:
        """Counts the tensor's storage from now on, once."""
        self._follow(tensor.untyped_storage(), tensor.untyped_storage().nbytes())

    def ignore(self, tensor: torch.Tensor) -> None:
        """Never counts this storage (weights, the batch): operators return views of it too."""
        self._follow(tensor.untyped_storage(), 0)

    def _follow(self, storage: torch.UntypedStorage, size: int) -> None:
        key = storage._cdata
        if key in self._known:
            return

        def forget(_, key=key, size=size):
            del self._known[key]
            self.bytes -= size

        self._known[key] = weakref.ref(storage, forget)
        self.bytes += size
        self.peak = max(self.peak, self.bytes)
