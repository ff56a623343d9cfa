"""Synchronous calls of a GPU function from the host, such as those of a policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar, cast

import torch
from torch import Tensor

from laser.gpu import is_pinned_for, on_stream, set_up_cudnn, side_stream
from laser.packing import Packing
from laser.tensor_trees import flatten, unflatten

R = TypeVar("R")


class HostCalls(Generic[R]):
    """Calls a function of device tensors with host tensors: one copy to the device, one copy back, one wait.

    The calls use a CUDA stream of their own, whose kernels start before those of others. Used from one thread.

    Args:
        function: takes trees of tensors on the device, and returns such a tree.
        device: device of the function.
    """

    def __init__(self, function: Callable[..., R], device: torch.device):
        set_up_cudnn(device)
        self.stream = side_stream(device, priority=-1)
        self._function = function
        self._device = device
        self._inputs: dict[Any, _Exchange] = {}
        self._outputs: dict[Any, _Exchange] = {}

    def __call__(self, *arguments: Any) -> R:
        """Return the function's result in host memory that belongs to the caller."""
        with on_stream(self.stream):
            tensors: list[Tensor] = []
            structure = flatten(arguments, tensors)
            there = self._exchange(self._inputs, structure, tensors)
            for place, tensor in zip(there.on_host, tensors, strict=True):
                place.copy_(tensor)
            there.device_buffer.copy_(there.host_buffer, non_blocking=True)
            output = self._function(*unflatten(structure, iter(there.on_device)))
            results: list[Tensor] = []
            structure = flatten(output, results)
            back = self._exchange(self._outputs, structure, results)
            for place, tensor in zip(back.on_device, results, strict=True):
                place.copy_(tensor)
            back.host_buffer.copy_(back.device_buffer, non_blocking=True)
            if self.stream is not None:
                copied = torch.cuda.Event(blocking=True)
                copied.record()
                copied.synchronize()
            return cast(R, unflatten(structure, iter([place.clone() for place in back.on_host])))

    def _exchange(self, known: dict[Any, _Exchange], structure: Any, tensors: Sequence[Tensor]) -> _Exchange:
        if structure not in known:
            known[structure] = _Exchange(Packing(tensors), self._device)
        return known[structure]


class _Exchange:
    """A buffer on the host and its counterpart on a device."""

    def __init__(self, packing: Packing, device: torch.device):
        self.host_buffer = packing.allocate("cpu", pinned=is_pinned_for(device))
        self.device_buffer = packing.allocate(device)
        self.on_host = packing.views(self.host_buffer)
        self.on_device = packing.views(self.device_buffer)
