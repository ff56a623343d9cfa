"""Actors that read a log instead of acting: a log as a vector of environments, and a policy that takes its actions."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from actors.actor import Actor
from actors.policy import Policy, PolicyState
from laser.environments.base import Transition
from laser.logs.cloning import ClonedBehaviour
from laser.logs.episodes import Log, LoggedEpisode
from laser.ports import Report


class LogEnvironments:
    """`VectorEnvironment` that plays a log's episodes whatever the actions are.

    Each environment plays one episode after the other, in an order that is shuffled anew for every pass over the log.
    After the last pass it stays at the end of its last episode.

    Args:
        log: the log.
        num_envs: episodes that are played side by side.
        seed: of the orders.
        numbers: episodes to play; actors share out those of a log.
        behaviour: gives the statistics of the behaviour of episodes that lack one of them; None: they are not needed,
            or every episode has them.
        num_passes: passes over the log; inf: without end.
    """

    def __init__(
        self,
        log: Log,
        num_envs: int,
        seed: int,
        numbers: np.ndarray,
        behaviour: ClonedBehaviour | None = None,
        num_passes: float = math.inf,
    ):
        self.spec = log.environment
        self.num_envs = num_envs
        self._log = log
        self._numbers = numbers
        self._seed = seed
        self._behaviour = behaviour
        self._most = num_passes * len(numbers)
        self._taken = 0  # episodes begun
        self._playing: list[int] = [0] * num_envs
        self._episodes: list[LoggedEpisode] = []
        self._mu: list[dict[str, np.ndarray]] = []
        self._steps = np.zeros(num_envs, np.int64)
        self._over = np.zeros(num_envs, bool)

    def reset(self, seed: int | None) -> dict[str, np.ndarray]:
        """Begin an episode everywhere; the order is that of the constructor's seed."""
        self._episodes, self._mu = [], []
        for index in range(self.num_envs):
            self._open(index, self._next())
        self._steps[:] = 0
        self._over[:] = False
        return self._observations()

    @property
    def is_over(self) -> bool:
        """Whether every episode of every pass has ended."""
        return self._taken >= self._most and bool(self._over.all())

    def next_actions(self) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the logged actions [num_envs, ...] and mu by name; zeros between two episodes.

        Statistics that only some of the episodes have are left out.
        """
        array = self.spec.actions.array
        actions = np.zeros((self.num_envs, *array.shape), array.dtype)
        shapes = {name: value.shape[1:] for name, value in self._mu[0].items() if all(name in mu for mu in self._mu)}
        mu = {name: np.zeros((self.num_envs, *shape), np.float32) for name, shape in shapes.items()}
        for index in np.flatnonzero(~self._over):
            actions[index] = self._episodes[index].actions[self._steps[index]]
            for name, value in mu.items():
                value[index] = self._mu[index][name][self._steps[index]]
        return actions, mu

    def send(self, actions: np.ndarray) -> None:
        """Do nothing: the log decides."""

    def recv(self) -> list[Transition]:
        """Return the next logged step of every episode, or the first observation of the next one."""
        ignored = self._over.copy()
        rewards = np.zeros(self.num_envs, np.float32)
        terminated, truncated = np.zeros(self.num_envs, bool), np.zeros(self.num_envs, bool)
        for index, episode in enumerate(self._episodes):
            if ignored[index]:
                if self._taken < self._most:
                    self._open(index, self._next())
                    self._steps[index] = 0
                    self._over[index] = False
                continue
            rewards[index] = episode.rewards[self._steps[index]]
            self._steps[index] += 1
            if self._steps[index] == len(episode):
                (terminated if episode.terminated else truncated)[index] = True
        self._over |= terminated | truncated
        who = np.arange(self.num_envs)
        return [Transition(who, self._observations(), rewards, terminated, truncated, ignored)]

    def render(self) -> None:
        """Return None: a log has no picture."""

    def state_dict(self) -> dict[str, Any]:
        """Return the place in the log."""
        return {
            "taken": self._taken,
            "playing": list(self._playing),
            "steps": self._steps.copy(),
            "over": self._over.copy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Continue at a place in the log."""
        self._taken = int(state["taken"])
        self._episodes, self._mu = [], []
        for index, number in enumerate(state["playing"]):
            self._open(index, int(number))
        self._steps, self._over = state["steps"].copy(), state["over"].copy()
        return self._observations()

    def close(self) -> None:
        """Forget the episodes."""
        self._episodes, self._mu = [], []

    def _next(self) -> int:
        """Return the number of the episode that is played next."""
        turn, place = divmod(self._taken, len(self._numbers))
        self._taken += 1
        order = np.random.default_rng([self._seed, turn]).permutation(len(self._numbers))
        return int(self._numbers[order[place]])

    def _open(self, index: int, number: int) -> None:
        episode = self._log.episode(number)
        fitted = self._behaviour
        mu = dict(episode.mu) if fitted is None or fitted.names <= episode.mu.keys() else fitted.statistics(episode)
        self._playing[index] = number
        if index == len(self._episodes):
            self._episodes.append(episode)
            self._mu.append(mu)
        else:
            self._episodes[index], self._mu[index] = episode, mu

    def _observations(self) -> dict[str, np.ndarray]:
        return {
            name: np.stack(
                [each.observations[name][step] for each, step in zip(self._episodes, self._steps, strict=True)]
            )
            for name in self.spec.observations
        }


class LogPolicy(Policy):
    """A policy that takes the logged actions, and gives the statistics of the log's behaviour as its mu.

    Its networks are used only for what the log cannot know: recurrent states, and statistics of other names than a
    policy's, such as an algorithm's own value estimates.

    Args:
        playback: the environments that are stepped.
        others: as for `Policy`.
    """

    def __init__(self, playback: LogEnvironments, *others: Any, **named: Any):
        super().__init__(*others, **named)
        self._playback = playback

    def act(self, observations: dict[str, np.ndarray], state: PolicyState) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Return the logged actions [N, ...] and mu by name, [N, ...]."""
        actions, logged = self._playback.next_actions()
        wanted = self.algorithm.behaviour
        known = {name: logged[name] for name in wanted if name in logged}
        if known.keys() == wanted.keys() and not self.algorithm.core_state:
            return actions, known
        _, own = super().act(observations, state)
        return actions, {**own, **known}


class LogActor(Actor):
    """An actor that reads a log. The log's episodes are not the agent's own, and are not reported as such."""

    def run_unroll(self) -> Report:
        """See `Actor.run_unroll`."""
        report = super().run_unroll()
        counters = {name: value for name, value in report.counters.items() if name != "episodes"}
        return dataclasses.replace(report, counters=counters, episodes=())
