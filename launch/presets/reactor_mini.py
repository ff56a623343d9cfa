"""Small tasks (Catch, DeepSea, T-maze, key and door) with a recurrent Reactor: a minute on one core."""

from laser.algorithms.reactor import ReactorConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def reactor_mini() -> TrainConfig:
    """Return the config: all learning is from episode streams, which replay episodes from their first steps on."""
    return TrainConfig(
        env="mini/Catch-v0",
        steps=30_000,
        runtime="lockstep",
        num_envs=8,
        unroll_length=10,
        algorithm=ReactorConfig(
            learning_rate=2e-3,
            optimizer_epsilon=1e-5,
            max_gradient_norm=1.0,
            batch_size=16,
            target_period=20,
        ),
        network=NetworkConfig(hidden_sizes=(32,), activation="crelu", core="lstm", core_size=32),
        replay=ReplayConfig(capacity_steps=100_000, min_steps=400, samples_per_insert=8.0),
    )
