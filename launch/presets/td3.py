"""TD3 on Hopper-v5 (MuJoCo), with the usual constants and one learner step per env step."""

import dataclasses

from laser.algorithms.td3 import Td3Config
from launch.config import TrainConfig
from launch.presets.sac import BATCH_SIZE, sac


def td3() -> TrainConfig:
    """Return the config: SAC's, with noise of 0.1 on actions and a policy that moves every second time."""
    return dataclasses.replace(sac(), algorithm=Td3Config(batch_size=BATCH_SIZE))
