"""Several tasks for one agent: lists and named sets of ids for `--env`, and a vector over environments of all tasks."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np

from laser.environments.base import EnvironmentFailedError, StepOfOthers, Transition, VectorEnvironment
from laser.environments.named_sets import SETS
from laser.environments.statistics import Statistics, give_statistics, read_statistics
from laser.environments.suite import env_error, split_seed
from laser.spec_words import differences
from laser.specs import EnvironmentSpec


def task_ids(env: str) -> tuple[str, ...]:
    """Return the ids in a value of `--env`: one id, a comma-separated list, or a named set.

    Raises:
        ConfigError: an id is empty or named twice.
    """
    if env in SETS:
        return SETS[env]
    ids = tuple(id.strip() for id in env.split(","))
    if len(ids) > 1 and "" in ids:
        raise env_error(f"{env!r} holds an empty id", "write ids with single commas between them")
    twice = next((id for id in ids if ids.count(id) > 1), None)
    if twice is not None:
        raise env_error(f"{twice} is named twice", "name each task once; environments are spread over them evenly")
    return ids


def join_specs(env: str, specs: Sequence[EnvironmentSpec]) -> EnvironmentSpec:
    """Return the common spec of several tasks.

    Raises:
        ConfigError: two tasks differ in their spaces or in frames per env step; the message names tasks and difference.
    """
    first = specs[0]
    for other in specs[1:]:
        for what, one, two in (
            ("observations", first.observations, other.observations),
            ("actions", first.actions, other.actions),
            ("frames per env step", first.action_repeat, other.action_repeat),
        ):
            if one != two:
                atari = what == "actions" and first.id.startswith("ALE/") and other.id.startswith("ALE/")
                remedy = "use --environment.full-action-space true" if atari else "train them apart, or make them agree"
                found = differences(one, two, f"{{}} for {first.id} and {{}} for {other.id}")
                raise env_error(f"tasks of one agent must have the same {what}: {found}", remedy)
    ids = tuple(spec.id for spec in specs)
    saved, unsaved = (
        tuple(dict.fromkeys(name for spec in specs for name in getattr(spec, names)))
        for names in ("saved_statistics", "unsaved_statistics")
    )
    return EnvironmentSpec(env, first.observations, first.actions, first.action_repeat, ids, saved, unsaved)


def share_out(num_tasks: int, num_envs: int, first_environment: int) -> np.ndarray:
    """Return the task of each of a vector's environments, int32 [num_envs].

    The environments of an agent are numbered over all of its actors, from `first_environment` on in this vector, and
    take the tasks in turn: the numbers of environments of two tasks differ by at most one.
    """
    return ((first_environment + np.arange(num_envs)) % num_tasks).astype(np.int32)


def tasks_of(environment: VectorEnvironment) -> np.ndarray:
    """Return the task of each environment of a vector, int32 [num_envs]; all 0 for a vector of one task."""
    tasks: np.ndarray = getattr(environment, "tasks", np.zeros(environment.num_envs, np.int32))
    return tasks


class MultiTaskEnvironments:
    """`VectorEnvironment` over vectors of different tasks, all stepped at the same time.

    Used from one thread.

    Args:
        spec: common spec of the tasks.
        tasks: int32 [num_envs], the task of each environment.
        parts: by task, the vector of the task's environments, in the same order.
    """

    def __init__(self, spec: EnvironmentSpec, tasks: np.ndarray, parts: dict[int, VectorEnvironment]):
        self.spec = spec
        self.tasks = tasks
        self.num_envs = len(tasks)
        self._task_of_part = list(parts)
        self._parts = [(np.flatnonzero(tasks == task), part) for task, part in parts.items()]

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere."""
        seeds = split_seed(seed, len(self._parts))
        return self._gather([part.reset(own) for (_, part), own in zip(self._parts, seeds, strict=True)])

    def send(self, actions: np.ndarray) -> None:
        """Start one step of every task."""
        for where, part in self._parts:
            part.send(actions[where])

    def recv(self) -> list[Transition]:
        """Wait for the step of every task."""
        received: list[list[Transition]] = []
        failed: list[tuple[np.ndarray, StepOfOthers]] = []
        for where, part in self._parts:
            try:
                received.append(part.recv())
            except EnvironmentFailedError as failure:
                if failure.others is None:
                    raise
                received.append([failure.others.step])
                failed.append((where, failure.others))
        steps = self._join([parts[0] for parts in received], self._parts)
        order = np.argsort(steps.environments)
        whole = Transition(
            steps.environments[order],
            {name: value[order] for name, value in steps.observations.items()},
            steps.rewards[order],
            steps.terminated[order],
            steps.truncated[order],
            steps.ignored[order],
        )
        resets = [(parts[1], where) for parts, where in zip(received, self._parts, strict=True) if len(parts) > 1]
        if failed:
            error = _of_all_tasks(whole, failed).error()
            if resets:
                error.others = None  # the second part has no place in it
            raise error
        if not resets:
            return [whole]
        return [whole, self._join([reset for reset, _ in resets], [where for _, where in resets])]

    def render(self) -> np.ndarray | None:
        """Return a picture of the first environment of the first task."""
        return self._parts[0][1].render()

    def statistics(self) -> Statistics:
        """Return the statistics of every task's wrappers."""
        read = [read_statistics(part) for _, part in self._parts]
        return {task: own[0] for task, own in zip(self._task_of_part, read, strict=True) if own}

    def give_statistics(self, statistics: Statistics, frozen: bool) -> bool:
        """Put statistics into the wrappers of every task that has any; return whether they fit."""
        known = [(task, part) for task, (_, part) in zip(self._task_of_part, self._parts, strict=True)]
        fits = [give_statistics(part, {0: statistics[task]}, frozen) for task, part in known if task in statistics]
        return all(fits)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state of every task, or None if one of them cannot be restored."""
        states = [part.state_dict() for _, part in self._parts]
        return None if any(state is None for state in states) else {"parts": states}

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Restore a state from `state_dict`."""
        pairs = zip(self._parts, state["parts"], strict=True)
        return self._gather([part.load_state_dict(own) for (_, part), own in pairs])

    def close(self) -> None:
        """Close every task, even if one fails to."""
        with ExitStack() as stack:
            for _, part in self._parts:
                stack.callback(part.close)

    def _gather(self, observations: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
        order = np.argsort(np.concatenate([where for where, _ in self._parts]))
        return {name: np.concatenate([own[name] for own in observations])[order] for name in observations[0]}

    def _join(self, transitions: list[Transition], parts: list[tuple[np.ndarray, VectorEnvironment]]) -> Transition:
        def joined(name: str) -> np.ndarray:
            return np.concatenate([getattr(transition, name) for transition in transitions])

        return Transition(
            np.concatenate([where[t.environments] for t, (where, _) in zip(transitions, parts, strict=True)]),
            {
                name: np.concatenate([transition.observations[name] for transition in transitions])
                for name in self.spec.observations
            },
            joined("rewards"),
            joined("terminated"),
            joined("truncated"),
            joined("ignored"),
        )


def _of_all_tasks(step: Transition, failed: Sequence[tuple[np.ndarray, StepOfOthers]]) -> StepOfOthers:
    """Return the step of all tasks.

    Args:
        step: of the environments of all tasks.
        failed: for each task with failures, the places of its environments, and their step.
    """

    def rebuild(seed: int | None) -> dict[str, np.ndarray]:
        begun = [part.rebuild(own) for (_, part), own in zip(failed, split_seed(seed, len(failed)), strict=True)]
        return {name: np.concatenate([each[name] for each in begun]) for name in step.observations}

    failures = {int(where[index]): error for where, part in failed for index, error in part.failures.items()}
    return StepOfOthers(step, failures, rebuild)
