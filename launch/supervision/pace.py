"""The pace limit: no member of a sweep runs far ahead of the slowest member that holds a lease."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping


class PaceLimit:
    """Decides which members may continue. Used from one thread.

    A member holds its lease as long as its steps grow, or as long as the limit itself holds it back. A member that dies
    or pauses loses its lease after `lease_s` and then delays no other member. It may continue whenever it can, and gets
    a lease again once it is within `slack_steps` of the slowest.

    Args:
        num_members: number of members; all hold a lease at first.
        slack_steps: env steps that a member may be ahead of the slowest before it waits.
        lease_s: seconds without any progress after which a lease ends.
        clock: seconds, for tests.
    """

    def __init__(self, num_members: int, slack_steps: int, lease_s: float, clock: Callable[[], float] = time.monotonic):
        self.slack_steps = slack_steps
        self._lease_s = lease_s
        self._clock = clock
        self._steps = [0] * num_members
        self._renewed: list[float | None] = [clock()] * num_members  # None: no lease
        self._gone = [False] * num_members

    def start(self, steps: Mapping[int, int]) -> None:
        """Set the env steps at which members begin; in a resumed population some may be far behind.

        No member waits for those: they get a lease once they have caught up.

        Args:
            steps: env steps of each member that takes part.
        """
        furthest = max(steps.values(), default=0)
        for member, begun_at in steps.items():
            self._steps[member] = begun_at
            self._renewed[member] = self._clock() if begun_at >= furthest - self.slack_steps else None

    def report(self, member: int, steps: int) -> None:
        """Record a member's env steps; growth since the last report renews its lease."""
        grew = steps > self._steps[member]
        self._steps[member] = steps
        if self._gone[member]:
            return
        if self._renewed[member] is None:
            slowest = self._slowest()
            if grew and (slowest is None or steps >= slowest - self.slack_steps):
                self._renewed[member] = self._clock()
        elif grew or not self.may_go_on(member):
            self._renewed[member] = self._clock()

    def leave(self, member: int) -> None:
        """End a member's lease for good, since it has finished or failed."""
        self._gone[member] = True
        self._renewed[member] = None

    def expire(self) -> list[int]:
        """End the leases whose time is up, and return the members that held them."""
        now = self._clock()
        lapsed = [
            member
            for member, renewed in enumerate(self._renewed)
            if renewed is not None and now - renewed > self._lease_s
        ]
        for member in lapsed:
            self._renewed[member] = None
        return lapsed

    def may_go_on(self, member: int) -> bool:
        """Return whether a member may continue, since it is not too far ahead."""
        slowest = self._slowest()
        return slowest is None or self._steps[member] - slowest <= self.slack_steps

    def _slowest(self) -> int | None:
        leased = [steps for steps, renewed in zip(self._steps, self._renewed, strict=True) if renewed is not None]
        return min(leased, default=None)
