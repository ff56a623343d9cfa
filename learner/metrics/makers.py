"""Counts of what a learner learns from, by the member of the population that made the experience."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
import torch
from torch import Tensor

from learner.experience.mixing import Mix

_NUMBERS = ("accepted", "abs_log_rho", "kl")
"""What the loss says of each item, where it does (see `Algorithm.per_step`)."""
# Batches whose numbers wait to be added up: many together cost a small agent less than one after the other.
_MOST_WAITING = 32


class Makers:
    """Adds up, for each maker, the steps drawn and accepted, their |log rho|, KL and lag. Used from one thread.

    The counts are `learned_from/MAKER/steps`, `.../accepted`, `.../abs_log_rho`, `.../kl` and `.../lag`, the last three
    summed over the steps; a loss without a trust region by KL counts none of `.../kl`. The lag of a step is the number
    of newer parameter versions of its maker, as far as this learner has seen any. Nothing is counted before the first
    steps of another member are drawn.

    Args:
        member: of the learner.
    """

    def __init__(self, member: int):
        self._member = member
        self._has_foreign = False
        self._newest_versions: defaultdict[int, int] = defaultdict(int)
        self._waiting: list[tuple[np.ndarray, np.ndarray]] = []  # origins and valid steps, not the frames with them
        self._num_waiting = 0
        self._waiting_numbers: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._totals: defaultdict[str, float] = defaultdict(float)

    def add(self, mix: Mix, per_step: Mapping[str, Tensor]) -> None:
        """Count a batch that was learned from.

        Args:
            mix: the batch; its items stand in the order of the loss's columns.
            per_step: of the loss.
        """
        for part in (mix.online, mix.replayed):
            if part is not None:
                origins = part.unrolls.headers if part.origins is None else part.origins
                self._waiting.append((origins, part.unrolls.fields["valid"]))
        for name in _NUMBERS:
            if name in per_step:
                value = per_step[name].detach()
                # On a GPU a recorded update writes its next results into the same memory.
                self._waiting_numbers[name].append(value.clone() if value.is_cuda else value)
        self._num_waiting += 1
        if self._num_waiting >= _MOST_WAITING:
            self._count()

    def take(self) -> dict[str, float]:
        """Return the counts since the last call; {} for a learner that has seen no other member's experience."""
        self._count()
        taken, self._totals = dict(self._totals), defaultdict(float)
        return taken

    def _count(self) -> None:
        if not self._waiting:
            return
        # The rows of an item have one maker: that of its first.
        first = [each.reshape(len(each), -1)[:, 0] for each, _ in self._waiting]
        members = np.concatenate([each["member"] for each in first])
        versions = np.concatenate([each["parameter_version"] for each in first]).astype(np.int64)
        steps = np.concatenate([valid.reshape(len(valid), -1) for _, valid in self._waiting]).sum(1)
        numbers, self._waiting_numbers = self._waiting_numbers, defaultdict(list)
        self._waiting.clear()
        self._num_waiting = 0
        self._has_foreign = self._has_foreign or bool((members != self._member).any())
        if not self._has_foreign:
            return
        arrays = {name: torch.cat(values, 1)[0].float().cpu().numpy() for name, values in numbers.items()}
        makers, place = np.unique(members, return_inverse=True)
        newest = np.full(len(makers), -1)
        np.maximum.at(newest, place, versions)
        for row, maker in enumerate(makers.tolist()):
            newest[row] = self._newest_versions[maker] = max(self._newest_versions[maker], int(newest[row]))
        counts = {"steps": steps, "lag": (newest[place] - versions) * steps, **arrays}
        sums = {name: np.bincount(place, values, len(makers)).tolist() for name, values in counts.items()}
        for row, maker in enumerate(makers.tolist()):
            for name, values in sums.items():
                self._totals[f"learned_from/{maker}/{name}"] += values[row]
