"""The head of a cluster: whether it still answers."""

from __future__ import annotations

import os
import socket
import time

from laser.waiting import waiting_for
from launch.errors import RuntimeFailedError

_CONNECT_S, _LOOK_S = 1.0, 0.5
_LIMIT_NAME, _LIMIT_S = "RAY_gcs_rpc_server_reconnect_timeout_s", 60.0
"""Ray ends every process that has not reached the head for so long, without a word to the user."""
_LEAST_FAILED = 3
"""Looks in a row that must have failed."""
_SHARE = 0.5
"""Of that limit; the rest is for the last checkpoint."""


class Head:
    """Looks whether a head accepts connections. Used from one thread.

    A call to Ray that needs the head blocks while it is away, so this has to be asked before.

    Args:
        address: HOST:PORT.
    """

    def __init__(self, address: str):
        self._address = address
        self._silent_since: float | None = None
        self._num_failed = 0
        self._limit_s = _SHARE * _ray_limit_s()

    def answers(self) -> bool:
        """Return whether the head accepts a connection now.

        It waits for about a second, and longer where a host name has several addresses or its lookup takes time.

        Raises:
            RuntimeFailedError: it has not accepted one for half of the time after which Ray would end this process.
        """
        try:
            try_connection(self._address, _CONNECT_S)
        except OSError as error:
            if self._silent_since is None:
                self._silent_since, self._num_failed = time.monotonic(), 0
            silent_s = time.monotonic() - self._silent_since
            self._num_failed += 1
            # After two looks that are far apart it asks once more: the head may have answered between them.
            if silent_s > self._limit_s and self._num_failed >= _LEAST_FAILED:
                why = error.strerror or str(error)
                wrong = f"Ray's head at {self._address} has not answered for {silent_s:.0f} seconds ({why})"
                raise RuntimeFailedError("runtime", wrong, "start the cluster again") from error
            return False
        self._silent_since = None
        return True

    def wait(self) -> None:
        """Wait until the head accepts a connection.

        Raises:
            RuntimeFailedError: see `answers`.
        """
        with waiting_for(f"Ray's head at {self._address}"):
            while not self.answers():
                time.sleep(_LOOK_S)


def try_connection(address: str, timeout_s: float) -> None:
    """Open a connection to HOST:PORT and close it.

    Raises:
        OSError: nothing accepts one there within the time.
        ValueError: the port is no number.
    """
    host, _, port = address.rpartition(":")
    socket.create_connection((host.strip("[]"), int(port)), timeout=timeout_s).close()


def _ray_limit_s() -> float:
    try:
        return float(os.environ[_LIMIT_NAME])
    except (KeyError, ValueError):
        return _LIMIT_S
