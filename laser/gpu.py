"""Asynchronous copies between a GPU and the host, and the CUDA streams they run on; the same code runs on a CPU.

On a CPU there are no CUDA streams and no pinned memory, and a copy is made at once: everything but the overlap can be
tested without a GPU.
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
"""Lock held while a CUDA graph is recorded, and while compiled code runs for the first time. A recording fails if any
thread waits for the whole GPU, and the first run of compiled code does."""

T = TypeVar("T")
R = TypeVar("R")


def set_up_cudnn(device: torch.device) -> None:
    """Let cuDNN compute float32 exactly on a GPU, and choose its algorithms by timing them; do nothing on a CPU.

    By default torch lets cuDNN round the float32 inputs of convolutions to TensorFloat32, with 10 bits: with the same
    batch five times, that moved a loss of 0.49 by 0.4. Whoever wants speed chooses bfloat16.

    Timed once for each shape, convolutions of few channels become much faster (an update of IMPALA's residual net on an
    H100: 41 ms instead of 63); the choice may differ between two processes, and with it the last bits of a result.
    """
    if device.type == "cuda":
        torch.backends.cudnn.allow_tf32 = False
        torch.backends.cudnn.benchmark = True


def own_stream(device: torch.device) -> None:
    """Give the calling thread a CUDA stream of its own, so that learners that share a GPU do not take turns."""
    if device.type == "cuda":
        torch.cuda.set_stream(torch.cuda.Stream(device))


def side_stream(device: torch.device, priority: int = 0) -> torch.cuda.Stream | None:
    """Return a new CUDA stream beside the calling thread's; None on a CPU.

    Args:
        device: device of the CUDA stream.
        priority: -1: kernels of this CUDA stream start before those of CUDA streams with 0.
    """
    return torch.cuda.Stream(device, priority=priority) if device.type == "cuda" else None


def on_stream(stream: torch.cuda.Stream | None) -> AbstractContextManager[Any]:
    """Return a context in which the calling thread uses this CUDA stream; None changes nothing."""
    return nullcontext() if stream is None else torch.cuda.stream(stream)


def finish(device: torch.device) -> None:
    """Wait until a GPU has done the work that the calling thread queued."""
    if device.type == "cuda":
        torch.cuda.current_stream(device).synchronize()


def is_pinned_for(device: torch.device) -> bool:
    """Return whether host memory that is copied to or from this device is pinned."""
    return device.type == "cuda"


def to_device(tensor: Tensor, device: torch.device) -> Tensor:
    """Return a host tensor on a device, without waiting for the device's queued work."""
    if device.type != "cuda" or tensor.is_cuda:
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


class ToDevice:
    """Copies trees of host tensors to a device while it computes, each tree as one copy from one pinned buffer.

    Args:
        device: destination. On a CPU nothing is copied.
        used_on: CUDA stream that will use the copies; None: the one that copies them.
    """

    def __init__(self, device: torch.device, used_on: torch.cuda.Stream | None = None):
        self._device = device
        self._stream = side_stream(device)
        self._used_on = used_on
        self._packings: dict[Any, Packing] = {}

    def __call__(self, tree: T) -> T:
        """Return the tree with its tensors on the device; later work on the current CUDA stream may use them."""
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
        """Keep the memory of tensors from the current CUDA stream until the CUDA stream that uses them is done."""
        if self._used_on is not None:
            for tensor in tensors:
                tensor.record_stream(self._used_on)

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Let the calling thread use a CUDA stream of its own; wait at the end until the queued work is done.

        Only this thread waits, not the GPU or other threads.
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
    """A copy of device tensors in host memory that may still be in progress.

    Args:
        arrays: destination of the copy.
        copied: event of its completion; None: it is complete.
    """

    def __init__(self, arrays: list[np.ndarray], copied: torch.cuda.Event | None = None):
        self._arrays = arrays
        self._copied = copied

    def result(self) -> list[np.ndarray]:
        """Wait until the copy is complete, and return it."""
        if self._copied is not None:
            self._copied.synchronize()
        return self._arrays


class ToHost:
    """Starts copies of device tensors to the host while the device computes. Used from one thread.

    Args:
        device: source.
    """

    def __init__(self, device: torch.device):
        self._device = device
        self._stream = side_stream(device)

    def start(self, tensors: Sequence[Tensor]) -> HostCopy:
        """Copy tensors as they are now: later changes on the current CUDA stream do not reach the copy."""
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
    """Limits the unfinished work that a thread has queued on its GPU: waiting batches hold memory.

    Args:
        device: device of the work.
        most: greatest number of unfinished pieces of work.
    """

    def __init__(self, device: torch.device, most: int = 2):
        self._is_needed = device.type == "cuda"
        self._most = most
        self._unfinished: deque[torch.cuda.Event] = deque()

    def handed_over(self) -> None:
        """Count one more piece of work; wait until at most `most` pieces are unfinished."""
        if not self._is_needed:
            return
        done = torch.cuda.Event(blocking=True)
        done.record()
        self._unfinished.append(done)
        while len(self._unfinished) > self._most:
            self._unfinished.popleft().synchronize()
