"""NAF with ReF-ER on Pendulum-v1: the paper's constants rescaled to a run of 20,000 steps."""

import dataclasses

from laser.algorithms.naf import NafConfig
from launch.config import TrainConfig
from launch.presets.racer_pendulum import SHORT_REFER, racer_pendulum


def naf_pendulum() -> TrainConfig:
    """Return the config; a larger step size than on MuJoCo, and a shorter horizon."""
    algorithm = NafConfig(learning_rate=1e-3, discount=0.98, refer=SHORT_REFER, reward_interval=100)
    return dataclasses.replace(racer_pendulum(), steps=20_000, algorithm=algorithm)
