"""How torch computes on behalf of a Python thread, said by each thread for itself."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import torch

_LOCK = threading.Lock()


def set_torch_threads(number: int) -> None:
    """Let torch compute with so many threads on behalf of the calling thread, whatever others say.

    Every Python thread that computes with more than one has a pool of helpers of its own, and OpenMP (libgomp) lets
    helpers sleep at once, not spin, as soon as all pools together have more threads than there are cores: every small
    operation then waits for the kernel to wake them (two nets of 256x256 on two cores: 1.7 ms instead of 0.85 ms). So
    all threads but the learner's must say 1 before they first compute; torch's default is all cores.
    """
    with _LOCK:
        torch.set_num_threads(number)
        # A thread takes up the number that was set last, by anyone, when it first asks or computes.
        torch.get_num_threads()


def flush_denormals() -> None:
    """Let the calling thread, and the helpers it gets later, take numbers below 1e-38 for 0.

    Processors are slow over them, and training is full of them: where a unit gets no gradient any more, Adam's mean of
    its gradients shrinks until it can shrink no further, and stays there (SAC on Hopper-v5 after 19,000 updates: 23 %
    of all weights; on an Intel Xeon an update in a loop of its own takes 1.65 ms without denormals, 1.9 with them).
    Helpers are born with what their thread has said, so it must say so before it first computes.
    """
    # NumPy 1 looks at the smallest number when it is first asked about a type, and warns where that is 0.
    np.finfo(np.float32), np.finfo(np.float64)
    torch.set_flush_denormal(True)


@contextmanager
def torch_threads(number: int) -> Iterator[None]:
    """The same while this is entered, and as before afterwards: for a thread of the user's, who may go on with it."""
    before = torch.get_num_threads()
    set_torch_threads(number)
    try:
        yield
    finally:
        set_torch_threads(before)
