"""DDPG with ReF-ER on Pendulum-v1: the paper's constants rescaled to a run of 20,000 steps."""

import dataclasses

from laser.algorithms.ddpg import DdpgConfig
from launch.presets.racer_pendulum import SHORT_REFER, SHORT_REPLAY, racer_pendulum
from launch.settings.train_config import TrainConfig


def ddpg_pendulum() -> TrainConfig:
    """Return the config; larger step sizes than on MuJoCo, and a shorter horizon."""
    algorithm = DdpgConfig(learning_rate=1e-3, actor_rate=0.3, discount=0.98, refer=SHORT_REFER, reward_interval=100)
    replay = dataclasses.replace(SHORT_REPLAY, samples_per_insert=float(algorithm.batch_size))
    return dataclasses.replace(racer_pendulum(), steps=20_000, algorithm=algorithm, replay=replay)
