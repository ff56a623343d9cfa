"""Batch loading: samples of a mixer become batches on the learner's device, ahead of time or on request."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from laser.batch import Batch
from laser.gpu import ToDevice
from learner.experience.mixing import Mix, Mixer
from learner.experience.prefetcher import Prefetcher


@dataclass(frozen=True)
class LoadedBatch:
    """A batch that waits for its update.

    Args:
        batch: on the learner's device.
        mix: the samples that the batch was made of.
        streams: int64 [num_replayed], the episode stream of each replayed sequence; None without episode streams.
        prepared: column values that do not depend on the loss, [T or 1, B] by name.
    """

    batch: Batch
    mix: Mix
    streams: Tensor | None
    prepared: dict[str, Tensor]


class BatchLoader:
    """Makes batches from a mixer's samples. Call `next` and `poll` from one thread.

    Args:
        mixer: draws samples.
        collate: returns a batch on the CPU for each of several mixes of the same size.
        prepare: returns the column values that do not depend on the loss; see `PrioritizerLink.prepare`.
        to_device: moves batches to the learner's device.
        one_by_one: collate each mix separately, as images need.
        num_prefetch: batches that a separate thread keeps ready; 0: each batch is requested when it is needed, which
            makes the order of all calls repeatable.
    """

    def __init__(
        self,
        mixer: Mixer,
        collate: Callable[[Sequence[Mix]], list[Batch]],
        prepare: Callable[[Sequence[Mix], Sequence[Batch]], list[dict[str, Tensor]]],
        to_device: ToDevice,
        *,
        one_by_one: bool,
        num_prefetch: int,
    ):
        self.decode_s = 0.0  # total time spent on making batches
        self._mixer = mixer
        self._collate = collate
        self._prepare = prepare
        self._to_device = to_device
        self._one_by_one = one_by_one
        self._loaded: deque[LoadedBatch] = deque()
        self._prefetcher = Prefetcher(self._make, num_prefetch) if num_prefetch else None

    @property
    def is_ahead(self) -> bool:
        """Whether batches are made before they are requested."""
        return self._prefetcher is not None

    def next(self, most: int) -> list[LoadedBatch]:
        """Wait for the next batch and those drawn together with it; see `Mixer.next`. Only without a prefetch thread.

        Raises:
            PortTimeoutError: nothing arrived within the deadline; the message says what was missing.
        """
        if not self._loaded:
            self._loaded.extend(self.load(self._mixer.next(most)))
        return [self._loaded.popleft() for _ in range(min(most, len(self._loaded)))]

    def poll(self, timeout_s: float) -> LoadedBatch | None:
        """Return the next batch, or None if its samples have not come after `timeout_s`.

        Raises:
            PortTimeoutError: nothing arrived within the deadline; the message says what was missing.
        """
        return self._make(timeout_s) if self._prefetcher is None else self._prefetcher.next(timeout_s)

    def load(self, mixes: Sequence[Mix]) -> list[LoadedBatch]:
        """Decode mixes that were drawn together, and move them to the device."""
        started = time.perf_counter()
        together = [[mix] for mix in mixes] if self._one_by_one or not mixes else [mixes]
        collated = [batch for some in together for batch in self._collate(some)]
        with self._to_device.beside():
            moved = [self._to_device((batch, _streams(mix))) for mix, batch in zip(mixes, collated, strict=True)]
            results = self._prepare(mixes, [batch for batch, _ in moved])
            self._to_device.hand_over(value for prepared in results for value in prepared.values())
        loaded = [
            LoadedBatch(batch, mix, streams, prepared)
            for mix, (batch, streams), prepared in zip(mixes, moved, results, strict=True)
        ]
        self.decode_s += time.perf_counter() - started
        return loaded

    def close(self) -> None:
        """Stop making batches, and cancel requests in flight."""
        if self._prefetcher is not None:
            self._prefetcher.close()
        self._mixer.close()

    def _make(self, timeout_s: float) -> LoadedBatch | None:
        if not self._loaded:
            # One kind of work at a time for all that were drawn together: that keeps a small core's caches warm.
            self._loaded.extend(self.load(self._mixer.poll(timeout_s)))
        return self._loaded.popleft() if self._loaded else None


def _streams(mix: Mix) -> Tensor | None:
    if mix.replayed is None or mix.replayed.streams is None:
        return None
    return torch.from_numpy(mix.replayed.streams)
