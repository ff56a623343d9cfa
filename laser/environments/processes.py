"""Vector environments with a process for each environment and a deadline for every step."""

from __future__ import annotations

import multiprocessing
import os
import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv
from gymnasium.vector.async_vector_env import AsyncState
from gymnasium.wrappers.utils import create_zero_array

from laser.environments.base import RAISED, EnvironmentFailedError, StepOfOthers, Transition
from laser.environments.results import read_flag, read_reward
from laser.environments.spaces import ActionWriter, ObservationReader
from laser.environments.statistics import Moments, Statistics, merge_moments, read_wrappers, write_wrappers
from laser.environments.suite import split_seed
from laser.environments.sync import draw
from laser.environments.vector import GymnasiumVector
from laser.error_words import words_of
from laser.specs import EnvironmentSpec, VectorSpec

# Not "fork": a child of a process with running threads (torch, Ray) may inherit a lock that is never released.
_START_METHOD = "forkserver" if "forkserver" in multiprocessing.get_all_start_methods() else "spawn"
_FAILURE = "laser_failure"


class ProcessEnvironments(GymnasiumVector):
    """`VectorEnvironment` over one process per environment; `send` starts the step, `recv` waits at most `deadline_s`.

    Used from one thread. One environment that raises can be rebuilt alone, in its process. After any other
    `EnvironmentFailedError` only `close` may be called, which also ends hung processes. The main module of the running
    script needs the guard `if __name__ == "__main__":`.

    Args:
        spec: spec of the environments.
        makers: functions that build one environment each, called in the new process; the first one is called here too.
        reader: reader of observations.
        writer: writer of actions.
        deadline_s: seconds after which a reset or a step counts as hung.
    """

    def __init__(
        self,
        spec: EnvironmentSpec,
        makers: list[Callable[[], gymnasium.Env]],
        reader: ObservationReader,
        writer: ActionWriter,
        deadline_s: float,
    ):
        if _START_METHOD == "forkserver":
            multiprocessing.set_forkserver_preload(["laser.environments.processes"])
        guarded = [_GuardedMaker(make, reader, os.getpid(), index) for index, make in enumerate(makers)]
        # Gymnasium reads a text from shared memory only once, when it makes the vector.
        is_shared = not any(isinstance(each, VectorSpec) and each.alphabet for each in spec.observations.values())
        try:
            with _hangups_blocked():
                self._processes = AsyncVectorEnv(guarded, context=_START_METHOD, shared_memory=is_shared)
        except (EOFError, ConnectionError) as error:
            raise EnvironmentFailedError("raised", "an environment's process ended while it was being built") from error
        super().__init__(spec, self._processes, reader, writer)
        self._deadline_s = deadline_s
        self._failed = False

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere."""

        def reset() -> tuple[Any, dict[str, Any]]:
            self._processes.reset_async(seed=split_seed(seed, self.num_envs))
            return self._processes.reset_wait(timeout=self._deadline_s)

        observations, info = self._watched(reset, "a reset")
        if failures := _failures(info):
            self._failed = True
            raise failures[min(failures)]
        self._over = np.zeros(self.num_envs, bool)
        self._actions = None
        return self._reader.read_batch(observations, self.num_envs)

    def send(self, actions: np.ndarray) -> None:
        """Start the step in every process."""
        super().send(actions)
        self._watched(lambda: self._processes.step_async(self._actions), "a step")

    def recv(self) -> list[Transition]:
        """Wait for the step."""
        assert self._actions is not None, "recv without send"
        observations, rewards, terminated, truncated, info = self._watched(
            lambda: self._processes.step_wait(timeout=self._deadline_s), "a step"
        )
        self._actions = None
        failures = _failures(info)
        if not failures:
            return self._transitions(observations, rewards, terminated, truncated, info)
        self._failed = True
        healthy = next((index for index in range(self.num_envs) if index not in failures), None)
        if healthy is None:
            raise failures[min(failures)]
        for value in self._reader.named(observations).values():
            if isinstance(value, np.ndarray):  # not of texts, which are "" where there is none
                value[list(failures)] = value[healthy]  # until they have observations of their own
        (step,) = self._transitions(observations, rewards, terminated, truncated, info)
        step.ignored[list(failures)] = True
        raise StepOfOthers(step, failures, partial(self._rebuild, list(failures))).error()

    def render(self) -> np.ndarray | None:
        """Return a picture of environment 0 if it was made with `render_mode="rgb_array"`."""
        if self._processes.render_mode != "rgb_array":
            return None
        return draw(self.spec.id, self._draw)

    def statistics(self) -> Statistics:
        """Return the statistics of the wrappers in all processes; {} after a failure or between `send` and `recv`."""
        if self._failed or self._actions is not None:
            return {}
        moments = merge_moments(self._called("read_statistics"))
        return {0: moments} if moments else {}

    def give_statistics(self, statistics: Statistics, frozen: bool) -> bool:
        """Put statistics into the wrappers in every process; return whether they fit."""
        return all(self._called("write_statistics", statistics.get(0, []), frozen))

    def state_dict(self) -> None:
        """Return None: the state is in other processes."""

    def close(self) -> None:
        """Close every environment in its process; end the processes of a vector that failed."""
        if not self._failed and self._actions is not None:
            with suppress(EnvironmentFailedError):
                self.recv()
        if self._failed:
            for process in self._processes.processes:
                process.kill()  # a hung environment may not answer a request
            self._processes._state = AsyncState.DEFAULT  # nothing is pending any more
        self._processes.close(terminate=self._failed)

    def _draw(self) -> Any:
        return self._called("render")[0]

    def _rebuild(self, failed: list[int], seed: int | None) -> dict[str, np.ndarray]:
        """Make these environments anew in their processes, and return their first observations."""
        begun = self._called("rebuild", dict(zip(failed, split_seed(seed, len(failed)), strict=True)))
        for index in failed:
            if _FAILURE in begun[index][1]:
                raise _as_error(begun[index][1][_FAILURE])
        observations = self._reader.read_items([begun[index][0] for index in failed])
        self._failed = False
        return observations

    def _called(self, method: str, *arguments: Any) -> tuple[Any, ...]:
        """Call a method of the guarded environment in every process; return the results."""

        def call() -> tuple[Any, ...]:
            self._processes.call_async(method, *arguments)
            return self._processes.call_wait(timeout=self._deadline_s)

        results: tuple[Any, ...] = self._watched(call, f"its {method}")
        return results

    def _watched(self, call: Callable[[], Any], what: str) -> Any:
        try:
            return call()
        except multiprocessing.TimeoutError as error:
            hung = [index for index, pipe in enumerate(self._processes.parent_pipes) if not pipe.poll(0)]
            self._failed = True
            raise EnvironmentFailedError(
                "hung", f"environment {', '.join(map(str, hung))} did not finish {what} within {self._deadline_s:g} s"
            ) from error
        except (EOFError, ConnectionError) as error:
            self._failed = True
            dead = {index: process.exitcode for index, process in enumerate(self._processes.processes)}
            codes = ", ".join(f"environment {index} with exit code {code}" for index, code in dead.items() if code)
            raise EnvironmentFailedError("raised", f"a process ended: {codes or 'no exit code yet'}") from error


def _failures(info: dict[str, Any]) -> dict[int, EnvironmentFailedError]:
    """Return the failures that a vector's `info` holds, by environment."""
    found = enumerate(info.get(_FAILURE, ()))
    return {index: _as_error(failure) for index, failure in found if failure is not None}


def _as_error(failure: tuple[str, str, str]) -> EnvironmentFailedError:
    reason, message, trace = failure
    error = EnvironmentFailedError(reason, message)
    error.add_note(trace)
    return error


@contextmanager
def _hangups_blocked() -> Iterator[None]:
    """Let processes that this thread starts inherit that SIGHUP is blocked.

    A terminal that closes sends it to the whole process group; only the run itself may react to it, by saving. This
    concerns the server of forks and the tracker of resources, too, which multiprocessing starts by itself.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _GuardedMaker:
    """Builds one guarded environment; picklable if its maker is."""

    def __init__(self, make: Callable[[], gymnasium.Env], reader: ObservationReader, creator: int, index: int):
        self._make = make
        self._reader = reader
        self._creator = creator
        self._index = index

    def __call__(self) -> gymnasium.Env:
        if os.getpid() != self._creator:
            # Ctrl-C reaches the whole process group; only the actor may react to it.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        return _Guarded(self._make, self._reader, self._index)


class _Guarded(gymnasium.Wrapper):
    """Checks the results of an environment and returns failures in `info` as strings, readable in other processes."""

    def __init__(self, make: Callable[[], gymnasium.Env], reader: ObservationReader, index: int):
        super().__init__(make())
        self._make = make
        self._reader = reader
        self._index = index

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        try:
            observation, _ = self.env.reset(seed=seed, options=options)
            self._reader.check(observation)
        except RAISED as error:
            return create_zero_array(self.observation_space), {_FAILURE: _failure(error)}
        return observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        try:
            observation, reward, terminated, truncated, _ = self.env.step(action)
            self._reader.check(observation)
            ends = read_flag("terminated", terminated), read_flag("truncated", truncated)
            return observation, read_reward(reward), *ends, {}
        except RAISED as error:
            return create_zero_array(self.observation_space), 0.0, False, False, {_FAILURE: _failure(error)}

    def rebuild(self, seeds: dict[int, int | None]) -> tuple[Any, dict[str, Any]]:
        """Make the environment anew, with its wrappers' statistics, if it is one of these; return its first reset."""
        if self._index not in seeds:
            return None, {}
        try:
            moments = read_wrappers(self.env)
            with suppress(*RAISED):  # its failure is counted already
                self.env.close()
            self.env = self._make()
            write_wrappers(self.env, moments, frozen=False)
        except RAISED as error:
            return None, {_FAILURE: _failure(error)}
        return self.reset(seed=seeds[self._index])

    def read_statistics(self) -> list[Moments]:
        return read_wrappers(self.env)

    def write_statistics(self, moments: list[Moments], frozen: bool) -> bool:
        return write_wrappers(self.env, moments, frozen)

    def render(self) -> Any:
        return self.env.render() if self.env.render_mode == "rgb_array" else None


def _failure(error: BaseException) -> tuple[str, str, str]:
    trace = "".join(traceback.format_exception(error))
    if isinstance(error, EnvironmentFailedError):
        return error.reason, str(error), trace
    return "raised", words_of(error), trace
