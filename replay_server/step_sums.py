"""Sums over all stored steps, kept as steps come and go: what normalisation is computed from."""

from __future__ import annotations

import numpy as np

from laser.specs import VectorSpec
from replay_server.episodes import NO_EPISODE, EpisodeIndex


class StepSums:
    """Number of live steps, sum of squared rewards, sums and squared sums of vector observations; float64.

    Sums of shards may be added. An insert or a removal costs O(its rows), summing anew now and then included: numbers
    that were added and subtracted leave their rounding behind, and a reward of 1e9 hides all others for as long as it
    is in the sum. Not thread-safe.
    """

    def __init__(self, index: EpisodeIndex):
        self._index = index
        observations = index.pages.spec.environment.observations
        self._names = [name for name, spec in observations.items() if isinstance(spec, VectorSpec)]
        none = np.zeros(0, np.int64)
        self.sums = {name: np.zeros_like(value) for name, value in self._of(none).items()}
        self.num_forgotten = 0
        """Steps subtracted since all was summed anew."""

    def add(self, rows: np.ndarray) -> None:
        """Count live steps (flat rows, distinct) that have come, and are among the live ones already."""
        if self.num_forgotten > self.sums["num_steps"] + len(rows):
            self.recount()
            return
        for name, value in self._of(rows).items():
            self.sums[name] += value

    def forget(self, rows: np.ndarray) -> None:
        """Leave out live steps that are about to be forgotten."""
        for name, value in self._of(rows).items():
            self.sums[name] -= value
        self.num_forgotten += len(rows)

    def recount(self) -> None:
        """Sum everything anew."""
        self.num_forgotten = 0
        self.sums = self._of(np.flatnonzero(self._index.episode_of_row.reshape(-1) != NO_EPISODE))

    def _of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        length = self._index.unroll_length
        of_rows = self._index.pages.rows
        rewards = of_rows["rewards"][rows].astype(np.float64)
        sums = {"num_steps": np.array(float(len(rows))), "reward_squares": np.array(rewards @ rewards)}
        boundaries = rows // length * (length + 1) + rows % length
        for name in self._names:
            seen = of_rows[f"observations/{name}"][boundaries].astype(np.float64)
            sums[f"observation/{name}"] = seen.sum(axis=0)
            sums[f"observation_squares/{name}"] = np.square(seen).sum(axis=0)
        return sums
