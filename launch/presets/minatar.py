"""MinAtar and other small pictures with LASER: a small convolutional net, on one core."""

import dataclasses

from launch.presets.mini import mini
from launch.settings.train_config import TrainConfig


def minatar() -> TrainConfig:
    """Return the config: that of the small tasks, for longer; `auto` takes the convolutional net for such pictures."""
    return dataclasses.replace(mini(), env="MinAtar/Breakout-v1", steps=1_000_000)
