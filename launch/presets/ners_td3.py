"""TD3 on Hopper-v5 (MuJoCo) with NERS and the constants of its paper's table B.1."""

import dataclasses

from laser.algorithms.td3 import Td3Config
from launch.presets.ners_sac import with_constants
from launch.presets.td3 import td3
from launch.settings.train_config import TrainConfig


def ners_td3() -> TrainConfig:
    """Return the config: that of `ners_sac`, with the step size 5e-3 and target networks that move at every update."""
    config = with_constants(td3())
    assert isinstance(config.algorithm, Td3Config)
    algorithm = dataclasses.replace(config.algorithm, learning_rate=5e-3, target_interval=1)
    return dataclasses.replace(config, algorithm=algorithm)
