"""The store of the newest published parameters."""

from __future__ import annotations

import threading
from concurrent.futures import Future

from laser.ports import Parameters


class ParameterStore:
    """Keeps the newest version. May be called from any thread; no call blocks."""

    def __init__(self) -> None:
        self._newest: Parameters | None = None
        self._lock = threading.Lock()

    def publish(self, parameters: Parameters) -> Future[None]:
        """Make this the newest version; an older version that arrives late is ignored.

        The same version again replaces it: a restored learner publishes its weights under their own number.
        """
        with self._lock:
            if self._newest is None or parameters.version >= self._newest.version:
                self._newest = parameters
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def begin_again(self) -> Future[None]:
        """Return at once: a store that was started anew waits for the learner to publish again."""
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def newest_version(self) -> Future[int]:
        """Return the newest version's number; -1 before the first."""
        with self._lock:
            newest = self._newest
        done: Future[int] = Future()
        done.set_result(-1 if newest is None else newest.version)
        return done

    def newest(self, newer_than: int) -> Future[Parameters | None]:
        """Return the newest version, or None when nothing newer than `newer_than` exists."""
        with self._lock:
            newest = self._newest
        done: Future[Parameters | None] = Future()
        done.set_result(newest if newest is not None and newest.version > newer_than else None)
        return done
