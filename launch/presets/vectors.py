"""Any task of vectors and discrete actions, one or several at a time, with LASER; --env chooses the task."""

import dataclasses

from laser.algorithms.laser import LaserConfig
from launch.presets.cartpole import cartpole
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def vectors() -> TrainConfig:
    """Return the config: CartPole's, with a larger replay and steps that shrink."""
    config = cartpole()
    assert isinstance(config.algorithm, LaserConfig)
    algorithm = dataclasses.replace(
        config.algorithm,
        learning_rate=1e-3,
        learning_rate_schedule="linear",
        trust_region_threshold=0.1,
        entropy_cost=0.02,
        reward_scale=0.1,
    )
    return dataclasses.replace(
        config,
        env="Acrobot-v1",
        steps=500_000,
        stop_at_return=float("inf"),
        algorithm=algorithm,
        replay=ReplayConfig(capacity_steps=50_000, min_steps=512),
    )
