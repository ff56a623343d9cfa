"""Torch settings of the calling Python thread: number of compute threads, and denormal numbers."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_LOCK = threading.Lock()


def set_torch_threads(number: int) -> None:
    """Let torch compute with `number` threads on behalf of the calling thread, whatever other threads have set.

    Every Python thread that computes with more than one has a pool of helpers of its own. As soon as all pools together
    have more threads than there are cores, OpenMP (libgomp) lets helpers sleep at once instead of spinning. Every small
    operation then waits for the kernel to wake them (two nets of 256x256 on two cores: 1.7 ms instead of 0.85 ms). So
    all threads but the learner's must set 1 before they first compute; torch's default is all cores.
    """
    with _LOCK:
        torch.set_num_threads(number)
        # At its first query or computation, a thread adopts the number that any thread set last.
        torch.get_num_threads()


def flush_denormals() -> None:
    """Let the calling thread, and helpers that it starts later, treat numbers below 1e-38 as 0.

    Processors are slow on such numbers, and training produces many: where a unit gets no gradient any more, Adam's mean
    of its gradients shrinks to the smallest denormal and stays there (SAC on Hopper-v5 after 19,000 updates: 23 % of
    all weights; on an Intel Xeon an update in a loop of its own takes 1.65 ms without denormals, 1.9 with them).
    Helpers inherit the setting when they start, so the thread must call this before it first computes.
    """
    # NumPy 1 computes the smallest number at the first `finfo` of a type, and warns if it is 0.
    np.finfo(np.float32), np.finfo(np.float64)
    torch.set_flush_denormal(True)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """Apply `set_torch_threads` within the context, and restore the number after it: for the user's own threads."""
    before = torch.get_num_threads()
    set_torch_threads(number)
    try:
        yield
    finally:
        set_torch_threads(before)
