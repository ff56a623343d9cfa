"""TD3 on SparsePendulum-v0, the NERS paper's pendulum with rewards only while it stays up."""

import dataclasses

from laser.algorithms.td3 import Td3Config
from launch.presets.sac_sparse_pendulum import sac_sparse_pendulum
from launch.settings.train_config import TrainConfig


def td3_sparse_pendulum() -> TrainConfig:
    """Return the config of `sac_sparse_pendulum` with TD3 in place of SAC."""
    return dataclasses.replace(sac_sparse_pendulum(), algorithm=Td3Config(batch_size=128, learning_rate=1e-3))
