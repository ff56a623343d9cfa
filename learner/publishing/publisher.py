"""Publication of one learner's parameters as ascending versions."""

from __future__ import annotations

import time
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import suppress

from laser.flat_parameters import FlatParameters, PublishedCopy
from laser.ports import ParameterPort, Parameters, PortAwayError, wait

DEADLINE_S = 60.0
_MOMENT_S = 0.2
"""A store on another machine needs less for a large network; one that died is away for seconds."""


class Publisher:
    """Publishes copies of the parameters under ascending versions, one at a time. Used from one thread.

    While the store is away, versions are dropped; `publish_again` hands over the newest one once the store is there
    again. A learner that asks `is_free` before it publishes makes updates meanwhile. A copy from a GPU takes a moment.
    `publish` starts the copy without waiting for it, and hands over the previous one.

    Args:
        store: receives the versions.
        parameters: the parameters to copy.
    """

    def __init__(self, store: ParameterPort, parameters: FlatParameters):
        self.version = -1
        self._store = store
        self._parameters = parameters
        self._copying: PublishedCopy | None = None  # of the newest version
        self._under_way: Future[None] | None = None
        self._began_at = 0.0  # the publication under way
        self._is_late = False  # it has had its moment

    def is_free(self) -> bool:
        """Return whether the store has taken the last version; once for each version this waits a moment for it.

        After the deadline it returns True: then the next publication waits for the store, and says so.
        """
        if self._under_way is None or self._under_way.done():
            return True
        if self._is_late:
            return time.monotonic() - self._began_at > DEADLINE_S
        self._is_late = bool(wait_for([self._under_way], _MOMENT_S).not_done)
        return not self._is_late

    @property
    def is_copying(self) -> bool:
        """Whether the newest version is still to be handed over."""
        return self._copying is not None

    def publish(self) -> None:
        """Publish the parameters as the next version; waits only until the previous publication is complete."""
        self.hand_over()
        self._settle_store()
        self.version += 1
        self._copying = self._parameters.start_copy()
        if not self._parameters.is_copied_later:
            self.hand_over()

    def hand_over(self) -> None:
        """Hand the newest version to the store unless that is done; waits until its copy is complete."""
        if self._copying is None:
            return
        self._settle_store()
        copy, self._copying = self._copying, None
        self._send(Parameters(self.version, copy.result()))

    def publish_again(self) -> None:
        """Publish the current parameters under the newest version."""
        self.settle()
        self._send(self.newest())

    def newest(self) -> Parameters:
        """Return the current parameters under the newest version number, without publishing them."""
        return Parameters(self.version, self._parameters.to_numpy())

    def settle(self) -> None:
        """Wait until the newest publication is complete."""
        self.hand_over()
        self._settle_store()

    def _send(self, parameters: Parameters) -> None:
        self._under_way, self._began_at, self._is_late = self._store.publish(parameters), time.monotonic(), False

    def _settle_store(self) -> None:
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            with suppress(PortAwayError):
                wait(under_way, DEADLINE_S, "the parameter store to take the newest version")
