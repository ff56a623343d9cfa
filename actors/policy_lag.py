"""Policy lag: limit of the versions a policy may be behind when it acts; on-policy algorithms wait for new weights."""

from __future__ import annotations

import time
from dataclasses import dataclass

# Unrolls may have been lost or rejected; the learner then waits for more, so that waiting for it would never end.
PATIENCE_S = 30.0


@dataclass(frozen=True)
class PolicyLagLimit:
    """Numbers from which an actor computes the policy version that it may expect.

    Args:
        max_policy_lag: versions behind the one that all unrolls shipped so far should have led to.
        unrolls_per_round: unrolls that all actors together ship in one round, when each actor ships its own once.
        unrolls_per_version: unrolls that the learner takes for one published version.
    """

    max_policy_lag: int
    unrolls_per_round: int
    unrolls_per_version: int


class PolicyLag:
    """Decides whether a version is new enough for the next unroll. Used from one thread.

    Args:
        limit: limit of the lag; None: every version is new enough.
    """

    def __init__(self, limit: PolicyLagLimit | None):
        self._limit = limit
        self._first_version: int | None = None
        self._num_rounds = 0
        self._since: float | None = None
        self.num_given_up = 0

    def allows(self, version: int) -> bool:
        """Return whether to act with this version; after a wait in vain return True and increment `num_given_up`."""
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
        """Count one round: an unroll of every environment."""
        self._num_rounds += 1
