"""Any Atari game on few cores, with LASER: sticky actions, a small network; --env chooses the game."""

import dataclasses

from laser.environments.config import EnvironmentConfig
from launch.presets.pong import pong
from launch.settings.train_config import TrainConfig


def atari_small() -> TrainConfig:
    """Return the config: Pong's, with actions that stick with probability 0.25 (Machado et al. 2018)."""
    return dataclasses.replace(pong(), environment=EnvironmentConfig(sticky_actions=0.25))
