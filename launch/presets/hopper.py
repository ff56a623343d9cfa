"""Hopper-v5 (MuJoCo) with LASER: continuous control on one core."""

from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from launch.config import TrainConfig
from replay_server.config import ReplayConfig


def hopper() -> TrainConfig:
    """Return the config; the critic has a torso of its own, and advantages are scaled, as rewards are not."""
    return TrainConfig(
        env="Hopper-v5",
        steps=1_000_000,
        num_envs=8,
        unroll_length=32,
        algorithm=LaserConfig(
            learning_rate=3e-4,
            optimizer="adam",
            optimizer_epsilon=1e-5,
            max_gradient_norm=1.0,
            batch_size=32,
            replay_fraction=0.75,
            entropy_cost=1e-3,
            reduction="mean_per_column",
            normalize_advantages="scale",
        ),
        network=NetworkConfig(separate_critic=True),
        replay=ReplayConfig(capacity_steps=100_000, min_steps=2_000),
    )
