"""HalfCheetah-v5 (MuJoCo) with LASER: continuous control on one core."""

import dataclasses

from laser.algorithms.laser import LaserConfig
from launch.presets.hopper import hopper
from launch.settings.train_config import TrainConfig


def halfcheetah() -> TrainConfig:
    """Return the config: Hopper's with another body, which never falls and needs no entropy cost to explore."""
    config = hopper()
    assert isinstance(config.algorithm, LaserConfig)
    algorithm = dataclasses.replace(config.algorithm, reward_scale=0.1, entropy_cost=0.0)
    return dataclasses.replace(config, env="HalfCheetah-v5", algorithm=algorithm)
