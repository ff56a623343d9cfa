"""Pong from pixels with LASER, three quarters of each batch replayed, with a small network for two cores."""

from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import EvaluationConfig, TrainConfig
from replay_server.config import ReplayConfig


def pong() -> TrainConfig:
    """Return the config; benchmarks/notes/2026-11-learning.md has its learning curves."""
    return TrainConfig(
        env="ALE/Pong-v5",
        steps=2_500_000,
        num_envs=32,
        unroll_length=20,
        algorithm=LaserConfig(
            learning_rate=6e-4,
            # Eight fresh sequences per batch are a fifth of the paper's: with a constant step size the return swings.
            learning_rate_schedule="linear",
            batch_size=32,
            replay_fraction=0.75,
            trace_lambda=0.95,
            entropy_cost=0.01,
            reward_transform="clip",
        ),
        # Without layer_norm half of the units are dead after 30,000 env steps and learning begins twice as late.
        # Without centered_filters only one of Pong's two kinds of start is learned (benchmarks/notes).
        network=NetworkConfig(layer_norm=True, centered_filters=True),
        replay=ReplayConfig(capacity_steps=50_000, min_steps=2_000),
        evaluation=EvaluationConfig(episodes=20),
    )
