"""Sums over all stored steps, updated as steps come and go, from which normalisation is computed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from laser.specs import VectorSpec
from replay_server.storage.episode_index import NO_EPISODE, EpisodeIndex

_ROWS_AT_ONCE = 2**14


class StepSums:
    """Numbers of live steps and of non-zero rewards; sums of squared rewards, of vector observations and their squares.

    Sums of shards may be added. The sum of squared rewards is exactly 0 if all rewards are 0. An insert or a removal
    costs O(its rows), recounts now and then included: numbers that were added and subtracted leave rounding errors.
    Each sum keeps its rounding error separately. Otherwise a reward of 1e9 would absorb all others that come or go
    while it is in the sum. Not thread-safe.

    Args:
        index: the live rows.

    Source:
        Knuth, The Art of Computer Programming 2, 4.2.2, theorem B: the rounding error of an addition.
    """

    def __init__(self, index: EpisodeIndex):
        self._index = index
        observations = index.pages.spec.environment.observations
        self._names = [name for name, spec in observations.items() if isinstance(spec, VectorSpec)]
        self._sums = self._of(np.zeros(0, np.int64))[0]
        self._lost = {name: np.zeros_like(value) for name, value in self._sums.items()}
        self.num_forgotten = 0
        """Steps subtracted since the last recount."""

    def add(self, rows: np.ndarray) -> None:
        """Add new steps (flat rows, distinct), which the index has as live already."""
        if self.num_forgotten > self._sums["num_steps"] + len(rows):
            self.recount()
            return
        self._add(rows, 1.0)

    def forget(self, rows: np.ndarray) -> None:
        """Subtract live steps that are about to be forgotten."""
        self._add(rows, -1.0)
        if self._sums["num_rewarded"] == 0.0:
            self._sums["reward_squares"], self._lost["reward_squares"] = np.array(0.0), np.array(0.0)
        self.num_forgotten += len(rows)

    def recount(self) -> None:
        """Recompute all sums."""
        self.num_forgotten = 0
        rows = np.flatnonzero(self._index.episode_of_row.reshape(-1) != NO_EPISODE)
        for kept in (self._sums, self._lost):
            kept.update({name: np.zeros_like(value) for name, value in kept.items()})
        # In parts: all rows at once would take several times the memory of the observations.
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            self._add(rows[start : start + _ROWS_AT_ONCE], 1.0)

    @property
    def sums(self) -> dict[str, np.ndarray]:
        """Copies of the sums by name."""
        return {name: value + self._lost[name] for name, value in self._sums.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with rounding errors: a recount might differ in the last digit."""
        return {
            "sums": {name: value.copy() for name, value in self._sums.items()},
            "lost": {name: value.copy() for name, value in self._lost.items()},
            "num_forgotten": self.num_forgotten,
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self._sums = {name: np.array(value) for name, value in state["sums"].items()}
        lost = state.get("lost", {})
        self._lost = {name: np.array(lost.get(name, 0.0 * value)) for name, value in self._sums.items()}
        self.num_forgotten = int(state.get("num_forgotten", 0))

    def _add(self, rows: np.ndarray, sign: float) -> None:
        sums, lost = self._of(rows)
        for name, value in sums.items():
            added, before = sign * value, self._sums[name]
            after = before + added
            rounded = after - before
            self._lost[name] += (before - (after - rounded)) + (added - rounded) + sign * lost.get(name, 0.0)
            self._sums[name] = after

    def _of(self, rows: np.ndarray) -> tuple[dict[str, np.ndarray], dict[str, float]]:
        """Return sums over rows, and the rounding errors of sums whose rows may differ by many orders of magnitude."""
        length = self._index.unroll_length
        of_rows = self._index.pages.rows
        rewards = of_rows["rewards"][rows].astype(np.float64)
        squares = np.square(rewards).tolist()
        square = math.fsum(squares)
        sums = {
            "num_steps": np.array(float(len(rows))),
            "num_rewarded": np.array(float(np.count_nonzero(rewards))),
            "reward_squares": np.array(square),
        }
        boundaries = rows // length * (length + 1) + rows % length
        for name in self._names:
            seen = of_rows[f"observations/{name}"][boundaries].astype(np.float64)
            sums[f"observation/{name}"] = seen.sum(axis=0)
            sums[f"observation_squares/{name}"] = np.square(seen).sum(axis=0)
        return sums, {"reward_squares": math.fsum([*squares, -square])}
