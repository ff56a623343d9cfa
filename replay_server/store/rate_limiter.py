"""The rate limiter: bounds how far sampling may run ahead of inserting, and the reverse."""

from __future__ import annotations

from typing import Any

from replay_server.member_settings import RateLimit


class RateLimiter:
    """Counts one member's steps and decides whether an insert or a sample must wait. Not thread-safe.

    Args:
        limit: the member's settings.
    """

    def __init__(self, limit: RateLimit):
        self.limit = limit
        self.inserted_steps = 0
        self.sampled_steps = 0
        self.forgiven_steps = 0  # inserted during the learner's absence, or from a log; the limit ignores them
        self._is_idle = False

    @property
    def difference(self) -> float:
        """`inserts * samples_per_insert - samples`; 0 while the inequality is off."""
        if not self.limit.limits:
            return 0.0
        return (self.inserted_steps - self.forgiven_steps) * self.limit.samples_per_insert - self.sampled_steps

    def continue_from(self, inserted_steps: int, sampled_steps: int) -> None:
        """Continue the counts of a shard that died, without a limit until steps are inserted again.

        Its actors may have moved to other shards for good, and no draw should wait for them.
        """
        self.inserted_steps, self.sampled_steps = inserted_steps, sampled_steps
        self._is_idle = True

    def inserted(self, num_steps: int, from_log: bool = False) -> None:
        """Count inserted steps; those of a log beyond `min_steps` allow no draws of their own."""
        if from_log:
            self.forgiven_steps += num_steps - max(0, min(num_steps, self.limit.min_steps - self.inserted_steps))
        self.inserted_steps += num_steps
        self._is_idle = False

    def sampled(self, num_steps: int) -> None:
        """Count drawn steps, unless there is no limit now."""
        if not self._is_idle:
            self.sampled_steps += num_steps

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
        if not limit.limits or self._is_idle or self.difference - num_steps >= limit.min_difference:
            return None
        return (
            f"the rate limiter waits for actors to insert: {self.sampled_steps} steps drawn for "
            f"{self.inserted_steps} inserted, at {limit.samples_per_insert:g} samples per insert"
        )

    def state_dict(self) -> dict[str, Any]:
        """Return the counts as JSON values."""
        names = ("inserted_steps", "sampled_steps", "forgiven_steps")
        return {name: getattr(self, name) for name in names}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        for name, value in state.items():
            setattr(self, name, value)
