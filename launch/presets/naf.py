"""NAF with ReF-ER on Hopper-v5 (MuJoCo), with the paper's constants."""

import dataclasses

from laser.algorithms.naf import NafConfig
from launch.presets.racer import PAPER_REFER, racer
from launch.settings.train_config import TrainConfig


def naf() -> TrainConfig:
    """Return the config: N = 2^19, B = 256, F = 1, eta = 1e-4, target networks move by 0.01 per update."""
    return dataclasses.replace(racer(), algorithm=NafConfig(refer=PAPER_REFER))
