"""Calls of Ray actors: one after the other, repeated while a process is out of reach, with the ports' errors.

References to results are dropped as soon as the result has arrived.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import launch.runtimes.ray_settings  # noqa: F401 - Ray reads these settings at its import

# isort: split
import ray
import ray.exceptions

from laser.futures import claim, fail, forward
from laser.ports import NodeLostError, PortAwayError, PortClosedError, PortError, PortTimeoutError

_ray: Any = ray  # the declared types of its decorators do not match their arguments

RETRY_S = 10.0
"""Seconds for which a call is repeated if its result was lost while the other process is alive. All port calls may be
repeated."""

LONGEST_PAUSE_S = 1.0
"""Seconds between two attempts, at most."""

_FIRST_PAUSE_S = 0.1
_NODE_DIED = "its node has died"  # in the text of Ray's error, which says so nowhere else


def call_remote(make: Callable[[], Any], who: str, retry_s: float) -> Future[Any]:
    """Make a Ray call and return the future of its result, with Ray's failures turned into the port's errors.

    A failed call may have been applied all the same, so retry only calls that may be applied twice.

    Args:
        make: makes the call and returns Ray's reference.
        who: name of the called process, for messages.
        retry_s: seconds for which the call is repeated while the called process is only out of reach.
    """
    answer: Future[Any] = Future()

    def attempt(pause_s: float, given_up_at: float | None) -> None:
        def settle(done: Future[Any]) -> None:
            error = done.exception()
            # The time runs from the first moment out of reach: before that a call may wait for long.
            until = given_up_at or time.monotonic() + retry_s
            out_of_reach = isinstance(error, ray.exceptions.ActorUnavailableError)
            if out_of_reach and time.monotonic() + pause_s <= until and not answer.cancelled():
                # A thread of its own makes the next attempt, since Ray's thread must stay free.
                timer = threading.Timer(pause_s, attempt, (min(2 * pause_s, LONGEST_PAUSE_S), until))
                timer.daemon = True
                timer.start()
            else:
                forward(answer, done, explain=lambda failure: port_error(failure, who))

        try:
            reference = make()
        except ray.exceptions.RayError as error:  # Ray knows already that the process is dead
            fail(answer, port_error(error, who))
            return
        reference.future().add_done_callback(settle)

    attempt(_FIRST_PAUSE_S, None)
    return answer


def port_error(error: BaseException, who: str) -> BaseException:
    """Return the port's error for a failure of Ray, or the error that the called process raised."""
    if isinstance(error, ray.exceptions.RayTaskError):
        return error.cause if isinstance(error.cause, BaseException) else PortError(_line(error))
    if isinstance(error, ray.exceptions.ActorUnavailableError):
        return PortAwayError(f"{who} cannot be reached: {_line(error)}")
    died_with_node = isinstance(error, ray.exceptions.RayActorError) and _NODE_DIED in str(error)
    if died_with_node or isinstance(error, ray.exceptions.ActorUnschedulableError):
        return NodeLostError(f"{who} has ended with its node")
    if isinstance(error, ray.exceptions.RayActorError | ray.exceptions.OwnerDiedError):
        return PortClosedError(f"{who} {_ending(error)}")
    if isinstance(error, ray.exceptions.GetTimeoutError):
        return PortTimeoutError(f"{who} did not answer: {_line(error)}")
    return PortError(f"{who}: {_line(error)}") if isinstance(error, ray.exceptions.RayError) else error


class InOrder:
    """Makes calls one after the other, each once the previous one is settled. Any thread may send."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[tuple[Callable[[], Future[Any]], Future[Any]]] = deque()
        self._busy = False

    def send(self, make: Callable[[], Future[Any]]) -> Future[Any]:
        """Queue a call, and return the future of its result."""
        answer: Future[Any] = Future()
        with self._lock:
            self._waiting.append((make, answer))
            if self._busy:
                return answer
            self._busy = True
        self._next()
        return answer

    def _next(self) -> None:
        while True:
            with self._lock:
                if not self._waiting:
                    self._busy = False
                    return
                make, answer = self._waiting.popleft()
            if claim(answer):
                break
        make().add_done_callback(lambda done: self._settled(answer, done))

    def _settled(self, answer: Future[Any], done: Future[Any]) -> None:
        self._next()
        forward(answer, done)


def remote_actor(host: type, **options: Any) -> Any:
    """Return the Ray actor class of a host, with Ray's options.

    It reserves no CPU unless the options say so. Ray never retries its calls: it would apply them twice unnoticed. Ray
    keeps no history of them: its head would hold the newest 100,000, which took 0.3 GB within half an hour.
    """
    settings = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "enable_task_events": False, **options}
    return _ray.remote(**settings)(host)


def restarts_if(outlasts_death: bool) -> dict[str, Any]:
    """Return Ray's options for a process that is started anew whenever it dies, until it is killed for good."""
    return {"max_restarts": -1} if outlasts_death else {}


def patience_s(outlasts_death: bool) -> float:
    """Return the seconds for which a question is repeated: none if another process follows one that dies.

    Who asks then hears at once that it is out of reach, and goes on without the answer.
    """
    return 0.0 if outlasts_death else RETRY_S


def was_started_anew() -> bool:
    """Return whether an earlier process of this Ray actor has died."""
    return bool(ray.get_runtime_context().was_current_actor_reconstructed)


def _ending(error: BaseException) -> str:
    text = str(error).strip()
    if "creation task" in text:  # the constructor's error explains more than the end of the process
        return f"did not start: {text.splitlines()[-1].strip()}"
    return "has ended: killed, crashed or out of memory"


def _line(error: BaseException) -> str:
    return " ".join(str(error).split())[:300]
