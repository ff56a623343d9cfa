"""The config of a small run."""

import pytest

from laser.algorithms.impala import ImpalaConfig
from launch.settings.train_config import TrainConfig


@pytest.fixture
def config():
    return TrainConfig(preset="cartpole", env="CartPole-v1", steps=100, seed=3, algorithm=ImpalaConfig())
