"""HalfCheetah-v5 (MuJoCo) with LASER: continuous control on one core."""

import dataclasses

from launch.config import TrainConfig
from launch.presets.hopper import hopper


def halfcheetah() -> TrainConfig:
    """Return the config: Hopper's, on another body."""
    return dataclasses.replace(hopper(), env="HalfCheetah-v5")
