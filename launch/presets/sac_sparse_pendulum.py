"""SAC on SparsePendulum-v0, the NERS paper's pendulum with rewards only while it stays up."""

import dataclasses

from laser.algorithms.sac import SacConfig
from launch.presets.sac_pendulum import sac_pendulum
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def sac_sparse_pendulum() -> TrainConfig:
    """Return the config, with the paper's batches of 128 and 1,000 steps at random."""
    return dataclasses.replace(
        sac_pendulum(),
        env="SparsePendulum-v0",
        steps=30_000,
        algorithm=SacConfig(batch_size=128, learning_rate=1e-3),
        replay=ReplayConfig(capacity_steps=50_000, min_steps=1_000, samples_per_insert=128.0),
    )
