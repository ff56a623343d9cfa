"""MinAtar and other small pictures with LASER: a small convolutional net, on one core."""

from laser.algorithms.laser import LaserConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def minatar() -> TrainConfig:
    """Return the config: the paper's fraction of replayed experience, at a size where one thread is the fastest."""
    return TrainConfig(
        env="MinAtar/Breakout-v1",
        steps=1_000_000,
        runtime="lockstep",
        num_envs=8,
        unroll_length=10,
        algorithm=LaserConfig(
            learning_rate=1e-3,
            optimizer="adam",
            optimizer_epsilon=1e-5,
            batch_size=16,
            replay_fraction=0.875,
            trust_region_threshold=0.1,
            entropy_cost=0.01,
            reduction="mean_per_column",
        ),
        replay=ReplayConfig(capacity_steps=100_000, min_steps=400),
    )
