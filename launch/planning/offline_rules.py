"""Rules between a run that learns from a log alone and that log."""

from __future__ import annotations

from collections.abc import Iterator

from laser.config import Problem
from laser.logs.episodes import LogError
from laser.logs.minari_log import MinariLog, env_of
from laser.specs import EnvironmentSpec
from launch.settings.train_config import TrainConfig


def find_offline_problems(config: TrainConfig, environment: EnvironmentSpec) -> Iterator[Problem]:
    """Yield why a run cannot learn from its log; every episode of it is read.

    Args:
        config: with `offline`.
        environment: that it learns for.
    """
    if config.algorithm.max_policy_lag is not None:
        wrong = f"{config.algorithm.name} learns from the newest policy's own experience only, which a log has not"
        yield Problem("offline", wrong, "use sac, td3, dqn, laser or racer")
        return
    if len(environment.tasks) > 1:
        yield Problem("offline", "a log is of one environment, and env names several", "name one")
        return
    try:
        log = MinariLog(config.offline, environment, config.environment.picture_size)
        for number in range(len(log)):
            log.episode(number)
    except LogError as error:
        yield Problem("offline", *_with_env(str(error), config))
        return
    if len(log) < config.num_actors:
        wrong = f"{len(log)} episodes cannot be shared out over {config.num_actors} actors"
        yield Problem("num-actors", wrong, "use --num-actors 1")


def _with_env(text: str, config: TrainConfig) -> tuple[str, str]:
    """Return what is wrong and what to do, with the log's own environment if it is another one."""
    wrong, _, remedy = text.partition("; ")
    if remedy:
        return wrong, remedy
    try:
        recorded_in = env_of(config.offline)
    except LogError:
        recorded_in = ""
    if recorded_in and recorded_in != config.env:
        return wrong, f"it was recorded in {recorded_in}: --env {recorded_in}"
    return wrong, "choose another data set"
