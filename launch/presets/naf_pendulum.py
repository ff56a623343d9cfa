"""NAF with ReF-ER on Pendulum-v1: the paper's constants rescaled to a run of 20,000 steps."""

import dataclasses

from laser.algorithms.naf import NafConfig
from launch.presets.racer_pendulum import SHORT_REFER, racer_pendulum
from launch.settings.train_config import TrainConfig


def naf_pendulum() -> TrainConfig:
    """Return the config: a larger step size, more noise and a shorter horizon than on MuJoCo.

    A Q-function that is quadratic in the action learns slowly.
    """
    algorithm = NafConfig(
        learning_rate=1e-3,
        discount=0.95,
        exploration_std=0.5,
        target_rate=0.05,
        refer=SHORT_REFER,
        reward_interval=100,
    )
    return dataclasses.replace(racer_pendulum(), steps=20_000, algorithm=algorithm)
