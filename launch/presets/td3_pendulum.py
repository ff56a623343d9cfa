"""TD3 on Pendulum-v1: solved within 10,000 steps."""

import dataclasses

from laser.algorithms.td3 import Td3Config
from launch.presets.sac import BATCH_SIZE
from launch.presets.sac_pendulum import sac_pendulum
from launch.settings.train_config import TrainConfig


def td3_pendulum() -> TrainConfig:
    """Return the config of `sac_pendulum` with TD3 in place of SAC."""
    return dataclasses.replace(sac_pendulum(), algorithm=Td3Config(batch_size=BATCH_SIZE, learning_rate=1e-3))
