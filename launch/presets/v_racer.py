"""V-RACER with ReF-ER on Hopper-v5 (MuJoCo): RACER without an advantage, with its constants."""

import dataclasses

from laser.algorithms.v_racer import VRacerConfig
from launch.presets.racer import PAPER_REFER, racer
from launch.settings.train_config import TrainConfig


def v_racer() -> TrainConfig:
    """Return the config of `racer` with V-RACER in place of RACER, as in the paper's figure 6."""
    return dataclasses.replace(racer(), algorithm=VRacerConfig(refer=PAPER_REFER, refresh="per_sample"))
