"""MiniGrid with LASER, on one core: DoorKey-5x5 in a third of PPO's env steps."""

import dataclasses

from laser.algorithms.laser import LaserConfig
from launch.presets.minatar import minatar
from launch.settings.train_config import TrainConfig


def minigrid() -> TrainConfig:
    """Return the config: MinAtar's, with smaller steps."""
    config = minatar()
    assert isinstance(config.algorithm, LaserConfig)
    algorithm = dataclasses.replace(config.algorithm, learning_rate=1e-3)
    return dataclasses.replace(config, env="MiniGrid-DoorKey-5x5-v0", steps=100_000, algorithm=algorithm)
