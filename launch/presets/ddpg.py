"""DDPG without bounds on the policy, with ReF-ER, on Hopper-v5 (MuJoCo), with the paper's constants."""

import dataclasses

from laser.algorithms.ddpg import DdpgConfig
from launch.presets.racer import PAPER_REFER, racer
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def ddpg() -> TrainConfig:
    """Return the config: N = 2^19, B = 128, F = 1, critic 1e-4 with weight decay 1e-4, policy 1e-5."""
    return dataclasses.replace(
        racer(),
        algorithm=DdpgConfig(refer=PAPER_REFER),
        replay=ReplayConfig(capacity_steps=2**19, min_steps=2**18, samples_per_insert=128.0, remover="far_policy"),
    )
