"""Copies between a GPU and the host that nobody waits for, and the streams they run on; the same code runs on a CPU.

On a CPU there are no streams and no pinned memory: a copy is made at once, so that all but the overlap can be tested
where there is no GPU.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any, TypeVar, cast

import numpy as np
import torch
from torch import Tensor

from laser.packing import Packing
from laser.tensor_trees import flatten, unflatten

CPU = torch.device("cpu")

RECORDING = threading.Lock()
"""Held while a CUDA graph is recorded, which whatever waits for the whole GPU would spoil, in any thread; and while
compiled code runs for the first time, which does."""

T = TypeVar("T")
R = TypeVar("R")


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
