"""Rules between a run and the log that it learns from: alone (`offline`), or at its beginning (`init-replay`)."""

from __future__ import annotations

from collections.abc import Iterator

from laser.config import Problem
from laser.logs.episodes import LogError, LoggedEpisode
from laser.logs.minari_log import MinariLog, env_of
from laser.ops.distributions import distribution_for
from laser.specs import EnvironmentSpec
from launch.settings.train_config import TrainConfig


def find_log_problems(config: TrainConfig, environment: EnvironmentSpec) -> Iterator[Problem]:
    """Yield why a run cannot learn from its log; every episode of it is read.

    Args:
        config: with `offline` or `init_replay`.
        environment: that it learns for.
    """
    key, name = ("offline", config.offline) if config.offline else ("init-replay", config.init_replay)
    if config.offline and config.init_replay:
        yield Problem(
            "init-replay", "has no effect with offline, which reads its log for ever", "leave one of them out"
        )
        return
    if config.algorithm.max_policy_lag is not None:
        wrong = f"{config.algorithm.name} learns from the newest policy's own experience only, which a log has not"
        yield Problem(key, wrong, "use sac, td3, dqn, laser or racer")
        return
    if config.init_replay and not config.algorithm.num_drawn:
        wrong = f"{config.algorithm.name} draws nothing from a replay, so that a log in it has no effect"
        yield Problem(key, wrong, "use --offline, or sac, td3, dqn, laser or racer")
        return
    if len(environment.tasks) > 1:
        yield Problem(key, "a log is of one environment, and env names several", "name one")
        return
    try:
        log = MinariLog(name, environment, config.environment.picture_rule)
        for number in range(len(log)):
            _check_statistics(log.episode(number), f"{log.name}, episode {number}", environment)
    except LogError as error:
        yield Problem(key, *_with_env(str(error), config, name))
        return
    if config.offline and len(log) < config.num_actors:
        wrong = f"{len(log)} episodes cannot be shared out over {config.num_actors} actors"
        yield Problem("num-actors", wrong, "use --num-actors 1")
    if config.init_replay and len(log) < config.replay.num_shards:
        wrong = f"{len(log)} episodes cannot be shared out over {config.replay.num_shards} shards"
        yield Problem("replay.num-shards", wrong, "use --replay.num-shards 1")


def _check_statistics(episode: LoggedEpisode, where: str, environment: EnvironmentSpec) -> None:
    """Raise `LogError` if the statistics of an episode's behaviour do not fit the environment's actions."""
    sizes = distribution_for(environment.actions).sizes
    for name, value in episode.mu.items():
        if name in sizes and value.shape != (len(episode), sizes[name]):
            found, wanted = (" x ".join(map(str, shape)) for shape in (value.shape, (len(episode), sizes[name])))
            raise LogError(f"{where}: its behaviour's {name} are {found} numbers, not {wanted}")


def _with_env(text: str, config: TrainConfig, name: str) -> tuple[str, str]:
    """Return what is wrong and what to do, with the log's own environment if it is another one."""
    wrong, _, remedy = text.partition("; ")
    if remedy:
        return wrong, remedy
    try:
        recorded_in = env_of(name)
    except LogError:
        recorded_in = ""
    if recorded_in and recorded_in != config.env:
        return wrong, f"it was recorded in {recorded_in}: --env {recorded_in}"
    return wrong, "choose another data set"
