"""Copies between a GPU and the host that nobody waits for, and the streams they run on; the same code runs on a CPU.

On a CPU there are no streams and no pinned memory: a copy is made at once, so that all but the overlap can be tested
where there is no GPU.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, Generic, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from laser.tensor_trees import flatten, unflatten

CPU = torch.device("cpu")

RECORDING = threading.Lock()
"""Held while a CUDA graph is recorded, which whatever waits for the whole GPU would spoil, in any thread; and while
compiled code runs for the first time, which does."""

T = TypeVar("T")
R = TypeVar("R")

# Where a tensor in a shared buffer may begin: what the widest loads of kernels and copies want.
_ALIGNMENT_BYTES = 256


def own_stream(device: torch.device) -> None:
    """Give the calling thread a CUDA stream of its own, so that learners that share a GPU do not take turns."""
    if device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream(device))


def side_stream(device: torch.device, priority: int = 0) -> torch.cuda.Stream | None:
    """Return a new stream beside the calling thread's; None on a CPU.

    Args:
        device: where.
        priority: -1: kernels of this stream start before those of streams with 0.
    """
    return torch.cuda.Stream(device, priority=priority) if device.type == "cuda" else None


def on_stream(stream: torch.cuda.Stream | None) -> AbstractContextManager[Any]:
    """Return a context in which the calling thread uses this stream; None changes nothing."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def finish(device: torch.device) -> None:
    """Wait until a GPU has done what the calling thread asked of it."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def is_pinned_for(device: torch.device) -> bool:
    """Return whether host memory that is copied to or from this device is pinned."""
    return device.type == "cuda"


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a host tensor on a device, without waiting for what the device has still to do."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class Packing:
    """The places of tensors in one buffer, so that they move as one.

    Args:
        tensors: dense ones; their shapes, types and strides count.
    """

    def __init__(self, tensors: Sequence[Tensor]):
        self._places = []
        self.num_bytes = 0
        for tensor in tensors:
            size = tensor.numel() * tensor.element_size()
            self._places.append((self.num_bytes, size, tensor.dtype, tensor.shape, tensor.stride()))
            self.num_bytes += -(-size // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES

    def allocate(self, device: torch.device | str, *, pinned: bool = False) -> Tensor:
        """Return a buffer of bytes for them, with what was there before in it."""
        return torch.empty(self.num_bytes, dtype=torch.uint8, device=device, pin_memory=pinned)

    def views(self, buffer: Tensor) -> list[Tensor]:
        """Return the tensors' places in a buffer."""
        return [
            buffer[start : start + size].view(dtype).as_strided(shape, strides, _begin(buffer, start, dtype))
            for start, size, dtype, shape, strides in self._places
        ]


class ToDevice:
    """Copies trees of host tensors to a device, each as one copy out of one pinned buffer, beside what it computes.

    Args:
        device: where to. On a CPU nothing is copied.
        used_on: the stream that will use the copies; None: the one that copies them.
    """

    def __init__(self, device: torch.device, used_on: torch.cuda.Stream | None = None):
        self._device = device
        self._stream = side_stream(device)
        self._used_on = used_on
        self._packings: dict[Any, Packing] = {}

    def __call__(self, tree: T) -> T:
        """Return the tree with its tensors on the device, as the current stream sees them from here on."""
        if self._device.type == "cpu":
            return tree
        tensors: list[Tensor] = []
        structure = flatten(tree, tensors)
        packing = self._packings.get(structure)
        if packing is None:
            packing = self._packings[structure] = Packing(tensors)
        host = packing.allocate("cpu", pinned=is_pinned_for(self._device))
        for place, tensor in zip(packing.views(host), tensors, strict=True):
            place.copy_(tensor)
        moved = host.to(self._device, non_blocking=True)
        self.hand_over([moved])
        return cast(T, unflatten(structure, iter(packing.views(moved))))

    def hand_over(self, tensors: Iterable[Tensor]) -> None:
        """Keep the memory of tensors that the current stream made until the stream that uses them is through."""
        if self._used_on is not None:
            for tensor in tensors:
                tensor.record_stream(self._used_on)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Let the calling thread use a stream beside the others; wait at the end until all that it asked for is done.

        The thread waits, and neither the GPU nor other threads do.
        """
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield
            done = torch.cuda.Event(blocking=True)
            done.record()
        done.synchronize()


class HostCopy:
    """A copy of device tensors in host memory that may still be under way.

    Args:
        arrays: where it will be.
        copied: when it is there; None: it is.
    """

    def __init__(self, arrays: list[np.ndarray], copied: torch.cuda.Event | None = None):
        self._arrays = arrays
        self._copied = copied

    def result(self) -> list[np.ndarray]:
        """Wait until the copy is there, and return it."""
        if self._copied is not None:
            self._copied.synchronize()
        return self._arrays


class ToHost:
    """Starts copies of device tensors to the host, beside what the device computes meanwhile. Used from one thread.

    Args:
        device: where from.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._stream = side_stream(device)

    def start(self, tensors: Sequence[Tensor]) -> HostCopy:
        """Copy tensors as they are now: what the current stream does to them later is not seen."""
        if self._stream is None:
            return HostCopy([tensor.detach().numpy().copy() for tensor in tensors])
        packing = Packing(tensors)
        staged = packing.allocate(self._device)
        for place, tensor in zip(packing.views(staged), tensors, strict=True):
            place.copy_(tensor.detach())
        computed = torch.cuda.Event()
        computed.record()
        with torch.cuda.stream(self._stream):
            self._stream.wait_event(computed)
            host = packing.allocate("cpu", pinned=True)
            host.copy_(staged, non_blocking=True)
            staged.record_stream(self._stream)
            copied = torch.cuda.Event(blocking=True)
            copied.record()
        return HostCopy([place.numpy() for place in packing.views(host)], copied)


class HostCalls(Generic[R]):
    """Calls a function of device tensors with host tensors: one copy there, one copy back, one wait.

    It has a stream of its own, whose kernels start before those of others. Used from one thread.

    Args:
        function: of trees of tensors on the device; returns such a tree.
        device: where it computes.
    """

    def __init__(self, function: Callable[..., R], device: torch.device):
        self.stream = side_stream(device, priority=-1)
        self._function = function
        self._device = device
        self._inputs: dict[Any, _Exchange] = {}
        self._outputs: dict[Any, _Exchange] = {}

    def __call__(self, *arguments: Any) -> R:
        """Return what the function returns, in host memory that is the caller's."""
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


class RunAhead:
    """Bounds how much work a thread may have handed to its GPU: batches that wait for it hold memory.

    Args:
        device: whose.
        most: pieces of work that may be unfinished.
    """

    def __init__(self, device: torch.device, most: int = 2):
        self._is_needed = device.type == "cuda"
        self._most = most
        self._unfinished: deque[torch.cuda.Event] = deque()

    def handed_over(self) -> None:
        """Count one more piece of work; wait until at most so many are unfinished."""
        if not self._is_needed:
            return
        done = torch.cuda.Event(blocking=True)
        done.record()
        self._unfinished.append(done)
        while len(self._unfinished) > self._most:
            self._unfinished.popleft().synchronize()


def _begin(buffer: Tensor, start: int, dtype: torch.dtype) -> int:
    """Return where a place begins in its storage, in elements."""
    return (buffer.storage_offset() + start) // dtype.itemsize
