"""V-RACER with ReF-ER on Pendulum-v1: the paper's constants rescaled to a run of 40,000 steps."""

import dataclasses

from laser.algorithms.v_racer import VRacerConfig
from launch.presets.racer_pendulum import SHORT_REFER, racer_pendulum
from launch.settings.train_config import TrainConfig


def v_racer_pendulum() -> TrainConfig:
    """Return the config of `racer_pendulum` with V-RACER in place of RACER."""
    algorithm = VRacerConfig(
        learning_rate=1e-3, discount=0.98, refer=SHORT_REFER, refresh_interval=100, reward_interval=100
    )
    return dataclasses.replace(racer_pendulum(), algorithm=algorithm)
