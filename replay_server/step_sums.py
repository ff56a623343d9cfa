"""Sums over all stored steps, kept as steps come and go: what normalisation is computed from."""

from __future__ import annotations

import numpy as np

from laser.specs import VectorSpec
from replay_server.episodes import NO_EPISODE, EpisodeIndex

_ROWS_AT_ONCE = 2**14


class StepSums:
    """Numbers of live steps and of rewards other than 0; sums of squared rewards and of vectors.

    Sums of shards may be added. The one of squared rewards is exactly 0 where no reward is another number. An insert or
    a removal costs O(its rows), summing anew now and then included: numbers that were added and subtracted leave their
    rounding behind, and a reward of 1e9 hides all others for as long as it is in the sum. Not thread-safe.
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
        if self.sums["num_rewarded"] == 0.0:
            self.sums["reward_squares"] = np.array(0.0)
        self.num_forgotten += len(rows)

    def recount(self) -> None:
        """Sum everything anew."""
        self.num_forgotten = 0
        rows = np.flatnonzero(self._index.episode_of_row.reshape(-1) != NO_EPISODE)
        self.sums = self._of(rows[:0])
        # Bit by bit: all at once would take several times the memory of the observations.
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            for name, value in self._of(rows[start : start + _ROWS_AT_ONCE]).items():
                self.sums[name] += value

    def _of(self, rows: np.ndarray) -> dict[str, np.ndarray]:
        length = self._index.unroll_length
        of_rows = self._index.pages.rows
        rewards = of_rows["rewards"][rows].astype(np.float64)
        sums = {
            "num_steps": np.array(float(len(rows))),
            "num_rewarded": np.array(float(np.count_nonzero(rewards))),
            "reward_squares": np.array(rewards @ rewards),
        }
        boundaries = rows // length * (length + 1) + rows % length
        for name in self._names:
            seen = of_rows[f"observations/{name}"][boundaries].astype(np.float64)
            sums[f"observation/{name}"] = seen.sum(axis=0)
            sums[f"observation_squares/{name}"] = np.square(seen).sum(axis=0)
        return sums
