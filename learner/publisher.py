"""The versions of one learner's parameters that actors see."""

from __future__ import annotations

from concurrent.futures import Future

from laser.flat_parameters import FlatParameters
from laser.ports import ParameterPort, Parameters, wait

DEADLINE_S = 60.0


class Publisher:
    """Publishes copies of the parameters under ascending versions, one at a time. Used from one thread.

    Args:
        store: where they go.
        parameters: what is copied.
    """

    def __init__(self, store: ParameterPort, parameters: FlatParameters):
        self.version = -1
        self._store = store
        self._parameters = parameters
        self._under_way: Future[None] | None = None

    def publish(self) -> None:
        """Publish the parameters as the next version; waits only for the previous publication to be through."""
        self.settle()
        self.version += 1
        self._under_way = self._store.publish(self.newest())

    def newest(self) -> Parameters:
        """Return the parameters as they are now, under the newest version, without publishing them."""
        return Parameters(self.version, self._parameters.to_numpy())

    def settle(self) -> None:
        """Wait until the newest publication is through."""
        if self._under_way is not None:
            wait(self._under_way, DEADLINE_S, "the parameter store to take the newest version")
            self._under_way = None
