"""The presets that fit an environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from launch.presets._recommended import recommend_for
from launch.presets._tasks import TASKS

if TYPE_CHECKING:
    from laser.specs import EnvironmentSpec
    from launch.settings.train_config import TrainConfig


def find_fitting(environment: EnvironmentSpec) -> list[str]:
    """Return the presets for tasks of this kind whose algorithms can choose its actions, the recommended one first."""
    from launch.presets import load_preset

    best = recommend_for(environment).preset
    names = next(names for names in TASKS.values() if best in names)
    return [name for name in dict.fromkeys((best, *names)) if _fits(load_preset(name), environment)]


def _fits(config: TrainConfig, environment: EnvironmentSpec) -> bool:
    try:
        config.algorithm.build(environment, config.network)
    except ValueError:
        return False
    return True
