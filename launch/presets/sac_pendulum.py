"""SAC on Pendulum-v1: solved within 10,000 steps."""

import dataclasses

from actors.config import ActorConfig
from laser.algorithms.sac import SacConfig
from laser.networks.config import NetworkConfig
from launch.presets.sac import BATCH_SIZE, sac
from launch.settings.train_config import TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig


def sac_pendulum() -> TrainConfig:
    """Return the config: a larger step size and smaller networks than on MuJoCo."""
    return dataclasses.replace(
        sac(),
        env="Pendulum-v1",
        steps=10_000,
        algorithm=SacConfig(batch_size=BATCH_SIZE, learning_rate=1e-3),
        network=NetworkConfig(hidden_sizes=(64, 64), activation="relu"),
        replay=ReplayConfig(capacity_steps=50_000, min_steps=1_000, samples_per_insert=float(BATCH_SIZE)),
        learner=LearnerConfig(),
        actor=ActorConfig(),
    )
