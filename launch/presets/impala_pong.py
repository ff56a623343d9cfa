"""Pong from pixels with IMPALA: the baseline without replay, with a small network for two cores."""

from laser.algorithms.impala import ImpalaConfig
from launch.settings.train_config import EvaluationConfig, TrainConfig
from replay_server.config import ReplayConfig


def impala_pong() -> TrainConfig:
    """Return the config."""
    return TrainConfig(
        env="ALE/Pong-v5",
        steps=2_500_000,
        num_envs=32,
        unroll_length=20,
        algorithm=ImpalaConfig(learning_rate=6e-4, batch_size=32, entropy_cost=0.01, reward_transform="clip"),
        replay=ReplayConfig(capacity_steps=20_000),
        evaluation=EvaluationConfig(episodes=20),
    )
