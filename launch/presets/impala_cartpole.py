"""CartPole-v1 with IMPALA: the baseline without replay."""

from laser.algorithms.impala import ImpalaConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def impala_cartpole() -> TrainConfig:
    """Return the config."""
    return TrainConfig(
        env="CartPole-v1",
        steps=300_000,
        num_envs=8,
        unroll_length=16,
        algorithm=ImpalaConfig(
            learning_rate=1e-3,
            optimizer="adam",
            optimizer_epsilon=1e-5,
            max_gradient_norm=1.0,
            batch_size=8,
            reduction="mean_per_column",
        ),
        replay=ReplayConfig(capacity_steps=5_000),
    )
