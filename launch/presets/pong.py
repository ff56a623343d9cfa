"""Pong from pixels with LASER, half of each batch replayed; the small net, for two cores."""

from laser.algorithms.laser import LaserConfig
from launch.config import EvaluationConfig, TrainConfig
from replay_server.config import ReplayConfig


def pong() -> TrainConfig:
    """Return the config."""
    return TrainConfig(
        env="ALE/Pong-v5",
        steps=2_500_000,
        num_envs=32,
        unroll_length=20,
        algorithm=LaserConfig(
            learning_rate=6e-4,
            batch_size=32,
            replay_fraction=0.5,
            entropy_cost=0.01,
            reward_transform="clip",
        ),
        replay=ReplayConfig(capacity_steps=200_000, min_steps=1_000),
        evaluation=EvaluationConfig(episodes=20),
    )
