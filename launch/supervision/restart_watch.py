"""The watch over a part that is started anew when its process dies: the parameter store, or a shard of the replay."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from laser.ports import PortAwayError
from launch.runtimes.runtime import WorkerDiedError

_LOOK_INTERVAL_S = 1.0


class RestartWatch:
    """Notices that a part's process was started anew, and lets it begin again. Used from one thread; waits for nothing.

    A part that was started anew has lost its contents, and refuses every call with `PortAwayError` until it begins.

    Args:
        name: the part's name.
        ask: asks the part for an answer.
        begin: lets the part begin again.
        may_die: counts a death of the part; returns whether the run outlasts it.
        begun: called when the part has begun again.
        clock: seconds, for tests.
    """

    def __init__(
        self,
        name: str,
        ask: Callable[[], Future[Any]],
        begin: Callable[[], Future[None]],
        may_die: Callable[[], bool],
        begun: Callable[[], None],
        clock: Callable[[], float] = time.monotonic,
    ):
        self._name, self._ask, self._begin, self._may_die, self._begun = name, ask, begin, may_die, begun
        self._clock = clock
        self._asked: Future[Any] | None = None
        self._asked_at = -_LOOK_INTERVAL_S
        self._beginning: Future[None] | None = None

    def look(self) -> None:
        """Look for news of the part.

        Raises:
            WorkerDiedError: it died too often.
            PortError: it has ended for good.
        """
        if self._beginning is not None:
            self._look_at_beginning(self._beginning)
        elif self._asked is None:
            if self._clock() - self._asked_at >= _LOOK_INTERVAL_S:
                self._asked, self._asked_at = self._ask(), self._clock()
        elif self._asked.done():
            asked, self._asked = self._asked, None
            error = asked.exception()
            if isinstance(error, PortAwayError):
                self._beginning = self._begin()
            elif error is not None:
                raise error

    def _look_at_beginning(self, beginning: Future[None]) -> None:
        if not beginning.done():
            return
        self._beginning = None
        error = beginning.exception()
        if isinstance(error, PortAwayError):
            return  # it is still out of reach; the next look asks again
        if error is not None:
            raise error
        if not self._may_die():
            raise WorkerDiedError(f"{self._name} has ended: killed, crashed or out of memory")
        self._begun()
