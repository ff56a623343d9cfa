"""How far a policy may lag behind the learner when it acts: on-policy algorithms wait for new weights."""

from __future__ import annotations

import time
from dataclasses import dataclass

# Unrolls may have been lost or rejected on the way; then the learner waits for more, and waiting for it would not end.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class PolicyLagLimit:
    """What an actor needs to know of the learner's pace.

    Args:
        max_policy_lag: versions behind the one that everything shipped so far should have led to.
        unrolls_per_round: that all actors together ship while this one ships its own once.
        unrolls_per_version: that the learner takes for one published version.
    """

    max_policy_lag: int
    unrolls_per_round: int
    unrolls_per_version: int


class PolicyLag:
    """Says whether a version is new enough for the next unroll. Used from one thread.

    Args:
        limit: None never waits.
    """

    def __init__(self, limit: PolicyLagLimit | None):
        self._limit = limit
        self._first_version: int | None = None
        self._num_rounds = 0
        self._since: float | None = None
        self.num_given_up = 0

    def allows(self, version: int) -> bool:
        """Return whether to act with this version; also when it has been waited for in vain, which is counted."""
        if self._limit is None:
            return True
        if self._first_version is None:
            self._first_version = version
        limit = self._limit
        due = self._num_rounds * limit.unrolls_per_round // limit.unrolls_per_version
        if version >= self._first_version + due - limit.max_policy_lag:
            self._since = None
            return True
        now = time.monotonic()
        if self._since is None:
            self._since = now
        if now - self._since < PATIENCE_S:
            return False
        self.num_given_up += 1
        self._first_version, self._num_rounds, self._since = version, 0, None
        return True

    def shipped(self) -> None:
        """Count an unroll of every environment."""
        self._num_rounds += 1
