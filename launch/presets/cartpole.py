"""CartPole-v1 with LASER: a few seconds on one core."""

from laser.algorithms.laser import LaserConfig
from launch.config import TrainConfig
from replay_server.config import ReplayConfig


def cartpole() -> TrainConfig:
    """Return the config; most of each batch is replayed, since here env steps are dearer than updates."""
    return TrainConfig(
        env="CartPole-v1",
        steps=100_000,
        num_envs=8,
        unroll_length=16,
        algorithm=LaserConfig(
            learning_rate=1e-3,
            optimizer="adam",
            optimizer_epsilon=1e-5,
            max_gradient_norm=1.0,
            batch_size=32,
            replay_fraction=0.75,
            reduction="mean_per_column",
        ),
        replay=ReplayConfig(capacity_steps=20_000, min_steps=512),
    )
