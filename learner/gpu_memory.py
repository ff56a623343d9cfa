"""GPU memory that one learner will take, estimated from its networks before any of it is allocated."""

from __future__ import annotations

import dataclasses
import logging
import math
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_iter

from laser.algorithms.base import Algorithm
from laser.batch import Batch, take_columns
from laser.specs import has_pictures
from laser.tensor_trees import map_tensors
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.experience.collate import example_batch
from learner.updating.batch_loss import stacked

CONTEXT_BYTES = 512 * 2**20
"""GPU memory that CUDA, cuBLAS and cuDNN take in every process, before the first tensor."""
# Added to an update's peak: gaps between the allocator's blocks.
_UPDATE_FACTOR = 1.1
# The work space of cuDNN's convolutions, while their algorithms are timed, and channels of zeros (`PixelConv2d`). On an
# H100 the small Atari net took 240 MB more than the rest of the estimate.
_CONVOLUTION_BYTES = 384 * 2**20


def learner_bytes(
    algorithm: Algorithm, spec: UnrollSpec, config: LearnerConfig, *, compiled: bool, bfloat16: bool
) -> int | None:
    """Return an estimate of one learner's GPU memory, without the process's `CONTEXT_BYTES`.

    The estimate counts weights, their gradient, moments and target networks; batches that are ready or in use; and all
    other tensors alive at the peak of one update. For the latter the loss and its gradient run once on fake tensors.

    Args:
        algorithm: of the learner.
        spec: layout of the unrolls.
        config: of the learner.
        compiled: whether the update is compiled, which stores the indices of a maximum in bytes and not in int64.
        bfloat16: whether convolutions and matrix products compute in bfloat16.

    Returns:
        bytes, or None for networks or losses that fake tensors cannot run, as they read numbers.
    """
    spec = dataclasses.replace(spec, unroll_length=algorithm.config.rows_per_item(spec.unroll_length))
    columns = [column.name for column in algorithm.columns]
    batch = example_batch(spec, algorithm.config.batch_size, columns, algorithm.config.view)
    with _silent(), FakeTensorMode(allow_non_fake_inputs=True) as fakes:
        try:
            update, weights = _update_bytes(algorithm, spec, map_tensors(batch, fakes.from_tensor), compiled, bfloat16)
        except Exception:  # noqa: BLE001 - a user's own network or loss may read numbers, which fake tensors lack
            return None
    batch_bytes: int = sum(item.nbytes for item in tree_iter(vars(batch)))
    # Ready batches, one being made, two that the GPU has queued, and the copy that a CUDA graph reads.
    num_batches = config.num_prefetch + 3 + compiled
    num_moments = 2 if algorithm.config.optimizer == "adam" else 1
    num_trained = 1 + num_moments + len(algorithm.targets)
    # The flat gradient, a copy to publish, and the copies from which a graph recording restores the training state.
    num_copies = num_trained + 2 + compiled * num_trained
    convolution_bytes = _CONVOLUTION_BYTES if has_pictures(spec.environment.observations) else 0
    return num_copies * weights + num_batches * batch_bytes + math.ceil(_UPDATE_FACTOR * update) + convolution_bytes


def _update_bytes(
    algorithm: Algorithm, spec: UnrollSpec, batch: Batch, compiled: bool, bfloat16: bool
) -> tuple[int, int]:
    """Return the peak bytes of an update without weights and batch, and the bytes of the weights."""
    networks = algorithm.make_networks()
    targets = {name: algorithm.make_networks().requires_grad_(False) for name in algorithm.targets}
    parameters = [item for item in networks.parameters() if item.requires_grad]
    live = _LiveBytes(1 if compiled else 8)
    with live, torch.autocast("cpu", dtype=torch.bfloat16, enabled=bfloat16):
        batch = stacked(batch, spec, algorithm.config.view)
        num_epochs, num_parts = algorithm.config.passes
        if (num_epochs, num_parts) != (1, 1):
            with torch.no_grad():
                batch = algorithm.prepare(networks, batch)
            batch = take_columns(batch, torch.arange(math.ceil(batch.shape[1] / num_parts)))
        loss = algorithm.loss(networks, targets, batch, {}, None).loss
    with live:
        torch.autograd.grad(loss, parameters, allow_unused=True)
    return live.peak, sum(item.nbytes for item in (*networks.parameters(), *networks.buffers()))


class _LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operators make and that are still alive.

    Args:
        index_bytes: bytes counted for an int64, which is mostly the index of a maximum.
    """

    def __init__(self, index_bytes: int):
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._live = 0
        self._index_bytes = index_bytes
        self._known: dict[int, int] = {}

    def __torch_dispatch__(
        self, function: Callable[..., Any], types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run an operator, and count the memory of its new tensors."""
        result = function(*args, **(kwargs or {}))
        for item in tree_iter(result):
            if isinstance(item, Tensor):
                self._count(item)
        return result

    def _count(self, tensor: Tensor) -> None:
        storage = tensor.untyped_storage()
        if storage._cdata in self._known:
            return
        num_bytes = storage.nbytes()
        if tensor.dtype == torch.int64:
            num_bytes = num_bytes * self._index_bytes // 8
        self._known[storage._cdata] = num_bytes
        self._live += num_bytes
        self.peak = max(self.peak, self._live)
        weakref.finalize(storage, self._forget, storage._cdata)

    def _forget(self, key: int) -> None:
        self._live -= self._known.pop(key)


@contextmanager
def _silent() -> Iterator[None]:
    """Disable torch's log of why fake tensors cannot run: here that is an expected result."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before
