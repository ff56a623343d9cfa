"""HalfCheetah-v5 (MuJoCo) with LASER: 1,399 after 300,000 env steps; `mujoco` is the better choice."""

import dataclasses

from laser.algorithms.laser import LaserConfig
from launch.presets.hopper import hopper
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def halfcheetah() -> TrainConfig:
    """Return the config: Hopper's with normalised observations, more replay, and no entropy cost to explore."""
    config = hopper()
    assert isinstance(config.algorithm, LaserConfig)
    algorithm = dataclasses.replace(
        config.algorithm,
        reward_scale=0.1,
        entropy_cost=0.0,
        # Angles vary by 0.3, their velocities by 5 to 11.
        normalize_observations=True,
        # Each step is replayed fifteen times.
        replay_fraction=0.9375,
    )
    replay = ReplayConfig(capacity_steps=20_000, min_steps=1_000)
    return dataclasses.replace(config, env="HalfCheetah-v5", algorithm=algorithm, replay=replay)
