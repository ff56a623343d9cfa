"""PPO on Pendulum-v1: a quick check that it learns."""

import dataclasses

from laser.algorithms.ppo import PpoConfig
from laser.environments.config import EnvironmentConfig
from launch.presets.ppo import ppo
from launch.settings.train_config import TrainConfig


def ppo_pendulum() -> TrainConfig:
    """Return the config: a larger step size and a shorter horizon than on MuJoCo."""
    algorithm = PpoConfig(
        learning_rate=1e-3, baseline_rate=1.0, discount=0.95, gae_lambda=0.95, reward_scale=0.1, max_gradient_norm=1.0
    )
    return dataclasses.replace(
        ppo(), env="Pendulum-v1", environment=EnvironmentConfig(), steps=150_000, algorithm=algorithm
    )
