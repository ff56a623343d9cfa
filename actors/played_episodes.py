"""The episodes of an evaluation as a log has them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

from laser.environments.base import Transition
from laser.logs.episodes import LoggedEpisode
from laser.specs import EnvironmentSpec, FramesSpec


class PlayedEpisodes:
    """Keeps the episodes of an evaluation that count. Pass it to `Evaluator.evaluate`. Used from one thread at a time.

    Of a stack of frames only the newest one is kept at each step; `episodes` makes the stacks again.

    Args:
        environment: spec of the environment.
        keeps_mu: whether actions were drawn from the policy's statistics, which are then kept.
    """

    def __init__(self, environment: EnvironmentSpec, *, keeps_mu: bool):
        frames = {name: spec for name, spec in environment.observations.items() if isinstance(spec, FramesSpec)}
        self._stacks = {name: spec.stack for name, spec in frames.items() if spec.stack > 1}
        self._keeps_mu = keeps_mu
        self._left = np.zeros(0, np.int64)
        self._playing: list[_Episode] = []
        self._ended: list[_Episode] = []

    @property
    def num_steps(self) -> int:
        """Env steps of the episodes that have ended."""
        return sum(len(episode.rewards) for episode in self._ended)

    def begin(self, observations: Mapping[str, np.ndarray], num_episodes: np.ndarray) -> None:
        """Take the first observations.

        Args:
            observations: by name, [N, ...].
            num_episodes: how many episodes of each environment count, int64 [N].
        """
        self._left = num_episodes.copy()
        self._playing = [self._begun(observations, index) for index in range(len(num_episodes))]

    def step(self, actions: np.ndarray, mu: Mapping[str, np.ndarray], part: Transition) -> None:
        """Take one step of some environments.

        Args:
            actions: of all environments, [N, ...].
            mu: statistics of the policy that chose them by name, [N, ...].
            part: what the environments returned.
        """
        for row, index in enumerate(part.environments):
            if part.ignored[row]:
                self._playing[index] = self._begun(part.observations, row)
                continue
            episode = self._playing[index]
            for name, value in part.observations.items():
                newest = value[row][-1:] if name in self._stacks else value[row][None]
                episode.observations[name].append(newest.copy())
            episode.actions.append(np.array(actions[index]))
            episode.rewards.append(float(part.rewards[row]))
            episode.mu.append({name: np.array(value[index]) for name, value in mu.items()} if self._keeps_mu else {})
            if part.terminated[row] or part.truncated[row]:
                episode.is_terminated = bool(part.terminated[row])
                if self._left[index]:
                    self._left[index] -= 1
                    self._ended.append(episode)

    def episodes(self) -> Iterator[LoggedEpisode]:
        """Yield the episodes in the order in which they ended."""
        for episode in self._ended:
            observations = {name: np.concatenate(values) for name, values in episode.observations.items()}
            for name, stack in self._stacks.items():  # [stack + L, ...] to [L + 1, stack, ...]
                observations[name] = np.moveaxis(sliding_window_view(observations[name], stack, axis=0), -1, 1)
            mu = {name: np.stack([each[name] for each in episode.mu]) for name in episode.mu[0]}
            rewards = np.array(episode.rewards, np.float32)
            yield LoggedEpisode(observations, np.stack(episode.actions), rewards, episode.is_terminated, mu)

    def _begun(self, observations: Mapping[str, np.ndarray], row: int) -> _Episode:
        first = {
            name: [(value[row] if name in self._stacks else value[row][None]).copy()]
            for name, value in observations.items()
        }
        return _Episode(first)


@dataclass
class _Episode:
    """An episode that is played: lists with an entry for each step; observations by name have one more, the first."""

    observations: dict[str, list[np.ndarray]]
    actions: list[np.ndarray] = field(default_factory=list)
    rewards: list[float] = field(default_factory=list)
    mu: list[dict[str, np.ndarray]] = field(default_factory=list)
    is_terminated: bool = False
