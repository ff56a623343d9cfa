"""The port to the parameter store over Ray, and the Ray actor that serves it."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

import launch.runtimes.ray_settings  # noqa: F401 - Ray reads these settings at its import

# isort: split
import numpy as np
import ray

from laser.futures import claim, forward
from laser.ports import Parameters, PortAwayError, PortClosedError, wait
from launch.runtimes.ray_calls import RETRY_S, call_remote, patience_s, remote_actor, restarts_if, was_started_anew

_NAME = "the parameter store"
_START_DEADLINE_S = 120.0
# Parameters above this size are put into the object store once, and all processes on a node map the same memory.
_SMALL_VECTOR_BYTES = 64 * 1024


class RayParameters:
    """A port to the parameter store in a process of its own; picklable. Any thread may call.

    A large vector is put into the object store once per publication; all processes on a node map the same memory.

    Args:
        handle: handle of the Ray actor, from `serve_parameters`.
        outlasts_death: whether another process follows one that dies. Who asks for the newest parameters then hears at
            once that the store is out of reach, and goes on with the old ones.
    """

    def __init__(self, handle: Any, outlasts_death: bool = False):
        self._handle = handle
        self._outlasts_death = outlasts_death

    def publish(self, parameters: Parameters) -> Future[None]:
        """See `ParameterPort.publish`."""
        vector = parameters.vector
        content = vector if vector.nbytes <= _SMALL_VECTOR_BYTES else [ray.put(vector)]
        return self._call(lambda: self._handle.publish.remote(parameters.version, content))

    def newest(self, newer_than: int) -> Future[Parameters | None]:
        """See `ParameterPort.newest`."""
        answer: Future[Parameters | None] = Future()

        def settle(asked: Future[Any]) -> None:
            if not claim(answer):
                return
            error = asked.exception()
            if error is not None:
                answer.set_exception(error)
                return
            newest = asked.result()
            if newest is None or isinstance(newest[1], np.ndarray):
                answer.set_result(None if newest is None else Parameters(*newest))
                return
            version, (reference,) = newest
            fetched = call_remote(lambda: reference, "the learner, which published the parameters,", 0.0)
            fetched.add_done_callback(
                lambda done: forward(answer, done, partial(Parameters, version), explain=_lost_with_learner)
            )

        asked = call_remote(
            lambda: self._handle.newest.remote(newer_than), _NAME, retry_s=patience_s(self._outlasts_death)
        )
        asked.add_done_callback(settle)
        return answer

    @property
    def pid(self) -> int:
        """Id of the store's process; reading it waits for the process to start."""
        return int(wait(self._call(lambda: self._handle.pid.remote()), _START_DEADLINE_S, f"{_NAME} to start"))

    def newest_version(self) -> Future[int]:
        """Return the newest version's number; -1 before the first."""
        return self._call(lambda: self._handle.newest_version.remote())

    def begin_again(self) -> Future[None]:
        """Let a store that was started anew serve calls."""
        return self._call(lambda: self._handle.begin_again.remote())

    def kill(self) -> None:
        """End the process at once."""
        ray.kill(self._handle)

    def _call(self, make: Callable[[], Any]) -> Future[Any]:
        return call_remote(make, _NAME, RETRY_S)


def serve_parameters(
    factory: Callable[[], Any], options: dict[str, Any], outlasts_death: bool = False
) -> RayParameters:
    """Start a process for the parameter store and return a port to it.

    Args:
        factory: makes the store.
        options: Ray's options, which place it.
        outlasts_death: Ray starts another process if this one dies.
    """
    made = remote_actor(_ParameterHost, **options, **restarts_if(outlasts_death)).remote(factory)
    return RayParameters(made, outlasts_death)


def _lost_with_learner(error: BaseException) -> BaseException:
    # A large vector belongs to the learner's process and ends with it; the next learner publishes a newer one.
    return PortAwayError(str(error)) if isinstance(error, PortClosedError) else error


class _ParameterHost:
    """A Ray actor with the parameter store, which holds Ray's reference in place of a large vector."""

    def __init__(self, factory: Callable[[], Any]):
        self._store = factory()
        self._is_away = was_started_anew()

    def pid(self) -> int:
        return os.getpid()

    def begin_again(self) -> None:
        self._is_away = False

    def publish(self, version: int, content: Any) -> None:
        self._check()
        self._store.publish(Parameters(version, content)).result()

    def newest(self, newer_than: int) -> tuple[int, Any] | None:
        self._check()
        newest: Parameters | None = self._store.newest(newer_than).result()
        return None if newest is None else (newest.version, newest.vector)

    def newest_version(self) -> int:
        self._check()
        version: int = self._store.newest_version().result()
        return version

    def _check(self) -> None:
        if self._is_away:
            raise PortAwayError("the parameter store was started anew and has no parameters yet")
