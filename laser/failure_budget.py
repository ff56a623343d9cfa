"""Budgets of failures that renew with progress."""

from __future__ import annotations

import math
import time
from collections import defaultdict, deque
from collections.abc import Callable


class FailureBudget:
    """Counts the failures of each part, and decides whether a part may fail once more. Used from one thread.

    A failure counts while it is younger than both windows. So a part that fails once a day never uses its budget up,
    and one that fails at once does.

    Args:
        most: failures of one part within the windows that a run outlasts.
        window_steps: env steps.
        window_s: seconds.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        most: int,
        window_steps: float = math.inf,
        window_s: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ):
        self.most = most
        self._window_steps, self._window_s, self._clock = window_steps, window_s, clock
        self._failures: defaultdict[str, deque[tuple[float, float]]] = defaultdict(deque)

    def spend(self, part: str, env_steps: float) -> bool:
        """Count a failure of a part; return False, and count nothing, if its budget is used up.

        Args:
            part: the part's name.
            env_steps: env steps so far.
        """
        if self.num_counted(part, env_steps) >= self.most:
            return False
        self._failures[part].append((env_steps, self._clock()))
        return True

    def num_counted(self, part: str, env_steps: float) -> int:
        """Return the number of a part's failures that count after `env_steps` env steps."""
        failures, now = self._failures[part], self._clock()
        while failures and not self._counts(*failures[0], env_steps, now):
            failures.popleft()
        return len(failures)

    def _counts(self, failed_at: float, failed_when: float, env_steps: float, now: float) -> bool:
        return env_steps - failed_at < self._window_steps and now - failed_when < self._window_s
