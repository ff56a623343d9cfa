"""The preset that fits an environment, by its suite and its spaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from laser.environments.config import EnvironmentConfig
    from laser.specs import EnvironmentSpec

_SMALL_PICTURE = 20  # pixels


class Recommendation(NamedTuple):
    """A preset's name, and the reason for it as the end of a sentence."""

    preset: str
    why: str


# By the beginning of the id: no environment is built to find out.
_BY_ID = {
    "CartPole-": Recommendation("cartpole", "it is made for CartPole"),
    "MinAtar/": Recommendation("minatar", "a MinAtar game"),
    "MiniGrid-": Recommendation("minigrid", "a grid with rare rewards"),
    "BabyAI-": Recommendation("minigrid", "a grid with rare rewards"),
    "ALE/": Recommendation("atari_small", "an Atari game"),
    "dmlab/": Recommendation("dmlab30", "a DeepMind Lab level"),
    "mini/": Recommendation("mini", "a small task"),
    "dm_control/": Recommendation("mujoco", "continuous actions"),
}


def recommend(env: str, how: EnvironmentConfig | None = None) -> Recommendation:
    """Return the recommended preset of an environment.

    Args:
        env: its id. Environments of unknown suites are built once, to read their spaces.
        how: they are built so; None: as they are without settings.

    Raises:
        ConfigError: the id is unknown, or LASER does not support its spaces.
    """
    if known := _find_by_id(env):
        return known
    from laser.environments import describe_environment
    from laser.environments.config import EnvironmentConfig

    return recommend_for(describe_environment(env, how or EnvironmentConfig()))


def recommend_for(environment: EnvironmentSpec) -> Recommendation:
    """Return the recommended preset of an environment, by its id or else by its spaces."""
    from laser.specs import ContinuousActions, DiscreteActions, picture_of  # NumPy, which help must not wait for

    if known := _find_by_id(environment.id):
        return known

    if isinstance(environment.actions, ContinuousActions):
        return Recommendation("mujoco", "continuous actions")
    pictures = [picture for spec in environment.observations.values() if (picture := picture_of(spec))]
    if not pictures:
        if isinstance(environment.actions, DiscreteActions):
            return Recommendation("box2d", "vectors and discrete actions")
        return Recommendation("vectors", "vectors and several discrete actions at a time")
    if min(min(picture.frame_shape[:2]) for picture in pictures) < _SMALL_PICTURE:
        return Recommendation("minatar", "small pictures and discrete actions")
    return Recommendation("atari_small", "pictures and discrete actions")


def _find_by_id(env: str) -> Recommendation | None:
    return next((found for beginning, found in _BY_ID.items() if env.startswith(beginning)), None)
