"""Publication of one learner's parameters as ascending versions."""

from __future__ import annotations

from concurrent.futures import Future
from contextlib import suppress

from laser.flat_parameters import FlatParameters, PublishedCopy
from laser.ports import ParameterPort, Parameters, PortAwayError, wait

DEADLINE_S = 60.0


class Publisher:
    """Publishes copies of the parameters under ascending versions, one at a time. Used from one thread.

    While the store is away, versions are dropped; `publish_again` hands over the newest one once the store is there
    again. A copy from a GPU takes a moment. `publish` starts the copy without waiting for it, and hands over the
    previous one.

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
        self._under_way = self._store.publish(Parameters(self.version, copy.result()))

    def publish_again(self) -> None:
        """Publish the current parameters under the newest version."""
        self.settle()
        self._under_way = self._store.publish(self.newest())

    def newest(self) -> Parameters:
        """Return the current parameters under the newest version number, without publishing them."""
        return Parameters(self.version, self._parameters.to_numpy())

    def settle(self) -> None:
        """Wait until the newest publication is complete."""
        self.hand_over()
        self._settle_store()

    def _settle_store(self) -> None:
        if self._under_way is not None:
            under_way, self._under_way = self._under_way, None
            with suppress(PortAwayError):
                wait(under_way, DEADLINE_S, "the parameter store to take the newest version")
