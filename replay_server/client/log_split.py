"""The split of a draw over shards where the draw has a given number of items from a log."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from laser.ports import Sample, SampleRequest


class LogSplit:
    """Splits the items of a log and the others over shards, each multinomially by how many a shard has of them.

    An item's probability is the share of the draw that its part has (log or not), times P(shard) in that part, times
    its probability in the shard's part. So the items of a part are equally likely over all shards, however unevenly the
    log lies on them.

    Args:
        num_items: of the whole draw.
        num_from_log: those from a log; all come from the other part where one is known to be empty.
        sizes: int64 [K], items of each shard as last known; one of them is above 0.
        log_sizes: int64 [K], those of a log.
    """

    def __init__(self, num_items: int, num_from_log: int, sizes: np.ndarray, log_sizes: np.ndarray):
        log_sizes = np.minimum(log_sizes, sizes)
        self._sizes = (log_sizes, sizes - log_sizes)
        if not self._sizes[0].any() or not self._sizes[1].any():
            num_from_log = num_items if self._sizes[0].any() else 0
        self._wanted = (num_from_log, num_items - num_from_log)

    def requests(
        self, request: SampleRequest, timeout_s: float, rng: np.random.Generator
    ) -> list[SampleRequest | None]:
        """Return the request to each shard; None to a shard that gives nothing."""
        from_log, own = (
            rng.multinomial(wanted, sizes / sizes.sum()).tolist() if wanted else [0] * len(sizes)
            for wanted, sizes in zip(self._wanted, self._sizes, strict=True)
        )
        return [
            replace(request, num_items=log + other, num_from_log=log, timeout_s=timeout_s) if log + other else None
            for log, other in zip(from_log, own, strict=True)
        ]

    def num_of_log(self, answers: Sequence[tuple[int, Sample]]) -> int:
        """Return how many items of a log all shards have: those that answered say it, the others as last known."""
        sizes = self._sizes[0]
        return int(sizes.sum()) + sum(sample.num_stored_log - int(sizes[shard]) for shard, sample in answers)

    def probabilities(self, answers: Sequence[tuple[int, Sample]]) -> np.ndarray:
        """Return the global probabilities of all items, in the order of the answers.

        Args:
            answers: number of the shard, and its sample, whose probabilities are those in the shard.
        """
        of_log = [sample.unrolls.headers["actor"] < 0 for _, sample in answers]
        in_draw = np.concatenate(of_log).mean()
        found = []
        for (shard, sample), is_log in zip(answers, of_log, strict=True):
            in_shard = is_log.mean()
            factors = [
                share * self._weight(part, shard) / share_here if share_here else 0.0
                for part, share, share_here in ((0, in_draw, in_shard), (1, 1.0 - in_draw, 1.0 - in_shard))
            ]
            found.append(sample.probabilities * np.where(is_log, *factors))
        return np.concatenate(found)

    def _weight(self, part: int, shard: int) -> float:
        """Return P(shard) in a part; a shard that gave items of a part that it was not known to have counts one."""
        sizes = self._sizes[part]
        return float(max(sizes[shard], 1) / max(sizes.sum(), 1))
