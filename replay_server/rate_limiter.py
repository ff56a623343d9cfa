"""The rate limiter: how far sampling may run ahead of inserting, and the reverse."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class RateLimit:
    """The settings of one member's limiter, all in env steps.

    `difference = inserts * samples_per_insert - samples` must stay in [min_difference, max_difference], and nothing
    is drawn before `min_steps` have been inserted. The band is `samples_per_insert * min_steps +- error_buffer`.

    Args:
        samples_per_insert: replayed steps drawn per step inserted; inf switches the inequality off.
        min_steps: steps inserted before the first is drawn.
        max_insert_steps: the most steps one insert brings.
        max_sample_steps: the most steps one sample takes.
        error_buffer: half the width of the band; None takes twice the least that cannot deadlock.

    Raises:
        ValueError: the band is so narrow that inserts and samples could wait for each other for ever.

    Source: Cassirer et al. 2021, "Reverb", section 3.4; the two conditions are ours: an insert of I steps may wait only
    where a sample may go, (max - min) >= I * samples_per_insert + S, and `min_steps` must be reachable.
    """

    samples_per_insert: float = math.inf
    min_steps: int = 0
    max_insert_steps: int = 1
    max_sample_steps: int = 1
    error_buffer: float | None = None

    def __post_init__(self) -> None:
        if not self.samples_per_insert > 0:
            raise ValueError(f"samples_per_insert must be above 0, got {self.samples_per_insert}")
        if min(self.min_steps, self.max_insert_steps - 1, self.max_sample_steps - 1) < 0:
            raise ValueError(
                "min_steps must be at least 0, max_insert_steps and max_sample_steps at least 1, got "
                f"{self.min_steps}, {self.max_insert_steps} and {self.max_sample_steps}"
            )
        if self.limits and not self.buffer >= self.least_buffer:
            raise ValueError(
                f"error_buffer must be at least {self.least_buffer:g} steps or the rate limiter deadlocks, got "
                f"{self.error_buffer:g}: an insert brings up to {self.max_insert_steps} steps, worth "
                f"{self.max_insert_steps * self.samples_per_insert:g} samples, and a sample takes up to "
                f"{self.max_sample_steps}; widen error_buffer, or make inserts and samples smaller"
            )

    @property
    def limits(self) -> bool:
        """Whether the inequality is on."""
        return math.isfinite(self.samples_per_insert)

    @property
    def least_buffer(self) -> float:
        """The narrowest half-width that cannot deadlock."""
        return max(self.max_insert_steps * self.samples_per_insert, float(self.max_sample_steps))

    @property
    def buffer(self) -> float:
        """Half the width of the band."""
        return 2.0 * self.least_buffer if self.error_buffer is None else self.error_buffer

    @property
    def min_difference(self) -> float:
        """Least difference that a sample may leave."""
        return self.samples_per_insert * self.min_steps - self.buffer

    @property
    def max_difference(self) -> float:
        """Largest difference that an insert may leave."""
        return self.samples_per_insert * self.min_steps + self.buffer


class RateLimiter:
    """Counts one member's steps and says who must wait. Not thread-safe."""

    def __init__(self, limit: RateLimit):
        self.limit = limit
        self.inserted_steps = 0
        self.sampled_steps = 0
        self.forgiven_steps = 0  # inserted while nobody drew, which need not be made up for

    @property
    def difference(self) -> float:
        """`inserts * samples_per_insert - samples`; 0 while the inequality is off."""
        if not self.limit.limits:
            return 0.0
        return (self.inserted_steps - self.forgiven_steps) * self.limit.samples_per_insert - self.sampled_steps

    def insert_lacks(self, num_steps: int) -> str | None:
        """Return why `num_steps` may not be inserted now, or None."""
        limit = self.limit
        if not limit.limits or self.difference + num_steps * limit.samples_per_insert <= limit.max_difference:
            return None
        return (
            f"the rate limiter waits for the learner to draw: {self.sampled_steps} steps drawn for "
            f"{self.inserted_steps} inserted, at {limit.samples_per_insert:g} samples per insert"
        )

    def sample_lacks(self, num_steps: int, stored_ever: int) -> str | None:
        """Return why `num_steps` may not be drawn now, or None; `stored_ever` steps were inserted by all members."""
        limit = self.limit
        if stored_ever < limit.min_steps:
            return f"{stored_ever} of {limit.min_steps} steps stored"
        if not limit.limits or self.difference - num_steps >= limit.min_difference:
            return None
        return (
            f"the rate limiter waits for actors to insert: {self.sampled_steps} steps drawn for "
            f"{self.inserted_steps} inserted, at {limit.samples_per_insert:g} samples per insert"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs."""
        names = ("inserted_steps", "sampled_steps", "forgiven_steps")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        for name, value in state.items():
            setattr(self, name, value)
