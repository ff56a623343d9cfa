"""The evaluator, which plays whole episodes with given parameters, apart from the training data."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from actors.film import Film
from actors.heartbeat import CLOSING, CONSTRUCTION, ENVIRONMENT, Heartbeat
from actors.played_episodes import PlayedEpisodes
from actors.policy import Policy, PolicyState
from laser.environments import tasks_of
from laser.environments.base import RAISED, EnvironmentFailedError, Transition, VectorEnvironment
from laser.environments.statistics import Statistics, give_statistics
from laser.error_words import words_of
from laser.ports import EpisodeResult, Parameters, Report


@dataclass(frozen=True)
class Filmed:
    """An evaluation, and the video (MP4) of its first episode; None if it could not be drawn."""

    report: Report
    video: bytes | None


class InterruptedEvaluationError(RuntimeError):
    """An evaluation was interrupted before its episodes ended."""


def episodes_of_each(num_episodes: int, tasks: np.ndarray) -> np.ndarray:
    """Return how many episodes each environment plays, [N].

    Args:
        num_episodes: number of episodes; with several tasks, rounded up to the same number of each.
        tasks: the task of each environment, [N].
    """
    result = np.zeros(len(tasks), np.int64)
    names = np.unique(tasks)
    of_task = -(-num_episodes // len(names))
    for task in names:
        (who,) = np.nonzero(tasks == task)
        result[who] = of_task // len(who)
        result[who[: of_task % len(who)]] += 1
    return result


class Evaluator(Heartbeat):
    """Plays episodes on environments of its own. Used from one thread, except for `interrupt`.

    How many episodes an environment of the vector plays is fixed before the first one begins, so that short episodes do
    not crowd out long ones.

    Args:
        make_environment: makes the environments, at the first evaluation and after a failure.
        make_policy: makes the policy, greedy or not.
        seed: the environments' seed; every evaluation starts from it, so that all checkpoints play the same episodes.
        member: the member whose parameters are evaluated.
    """

    def __init__(
        self,
        make_environment: Callable[[], VectorEnvironment],
        make_policy: Callable[[], Policy],
        seed: int,
        member: int = 0,
    ):
        super().__init__()
        self._make_environment = make_environment
        self._make_policy = make_policy
        self._seed = seed
        self._member = member
        self._environment: VectorEnvironment | None = None
        self._policy: Policy | None = None
        self._is_interrupted = False

    def evaluate(
        self,
        parameters: Parameters,
        num_episodes: int,
        on_step: Callable[[VectorEnvironment, Transition], None] | None = None,
        statistics: Statistics | None = None,
        log: PlayedEpisodes | None = None,
    ) -> list[EpisodeResult]:
        """Play episodes, and return their results in the order in which they ended.

        Args:
            parameters: the version to play with.
            num_episodes: number of episodes; with several tasks, rounded up to the same number of each.
            on_step: called after every step, e.g. to record a video.
            statistics: statistics of the environments' wrappers, which stay as they are during the episodes; None: the
                wrappers go on with their own.
            log: takes the episodes that are played.

        Raises:
            EnvironmentFailedError: the environment failed, and has been closed.
            InterruptedEvaluationError: see `interrupt`.
        """
        if self._environment is None:
            with self._wait_for(CONSTRUCTION):
                self._environment = self._make_environment()
        environment = self._environment
        try:
            give_statistics(environment, statistics or {}, frozen=True)
            return self._play(environment, parameters, num_episodes, on_step, log)
        except EnvironmentFailedError as failure:
            self._environment = None  # after a failure it can only be closed
            try:
                environment.close()
            except RAISED as error:  # an environment that failed may raise anything
                failure.add_note(f"it could not be closed either: {words_of(error)}")
            raise

    def evaluate_report(
        self, parameters: Parameters, num_episodes: int, at_env_steps: int, statistics: Statistics | None = None
    ) -> Report:
        """Evaluate, and return the result as a report for `at_env_steps`."""
        episodes = tuple(self.evaluate(parameters, num_episodes, statistics=statistics))
        return Report("evaluator", episodes=episodes, at_env_steps=at_env_steps)

    def film_report(
        self, parameters: Parameters, num_episodes: int, at_env_steps: int, statistics: Statistics | None = None
    ) -> Filmed:
        """Evaluate as `evaluate_report` does, and film the first episode."""
        with Film() as film:
            episodes = tuple(self.evaluate(parameters, num_episodes, film.look, statistics))
            return Filmed(Report("evaluator", episodes=episodes, at_env_steps=at_env_steps), film.take())

    def interrupt(self) -> None:
        """Make a running evaluation, and every later one, fail before its next step. May be called from any thread."""
        self._is_interrupted = True

    def close(self) -> None:
        """Close the environments."""
        if self._environment is not None:
            with self._wait_for(CLOSING):
                self._environment.close()

    def _play(
        self,
        environment: VectorEnvironment,
        parameters: Parameters,
        num_episodes: int,
        on_step: Callable[[VectorEnvironment, Transition], None] | None,
        log: PlayedEpisodes | None,
    ) -> list[EpisodeResult]:
        policy = self._policy = self._policy or self._make_policy()
        policy.load(parameters)
        policy.restart()
        num_envs, tasks = environment.num_envs, tasks_of(environment)
        left = episodes_of_each(num_episodes, tasks)
        state = PolicyState(num_envs, environment.spec, policy.algorithm)
        with self._wait_for(ENVIRONMENT):
            observations = environment.reset(self._seed)
        if log is not None:
            log.begin(observations, left)
        returns, lengths = np.zeros(num_envs), np.zeros(num_envs, np.int64)
        results = []
        while left.any():
            if self._is_interrupted:
                raise InterruptedEvaluationError(f"interrupted with {left.sum()} of {num_episodes} episodes to play")
            actions, mu = policy.act(observations, state)
            with self._wait_for(ENVIRONMENT):
                environment.send(actions)
                parts = environment.recv()
            for part in parts:
                if on_step is not None:
                    on_step(environment, part)
                if log is not None:
                    log.step(actions, mu, part)
                who = part.environments
                for name, value in part.observations.items():
                    observations[name][who] = value
                keep = (~part.ignored).reshape(-1, *[1] * (actions.ndim - 1))
                state.last_action[who] = np.where(keep, actions[who], 0)
                state.last_reward[who] = part.rewards * ~part.ignored
                state.first[who] = part.ignored
                returns[who] += part.rewards * ~part.ignored
                lengths[who] += ~part.ignored
                for index in who[part.terminated | part.truncated]:
                    if left[index]:
                        left[index] -= 1
                        results.append(
                            EpisodeResult(
                                float(returns[index]), int(lengths[index]), int(tasks[index]), member=self._member
                            )
                        )
                    returns[index], lengths[index] = 0.0, 0
        return results
