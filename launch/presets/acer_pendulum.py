"""Pendulum-v1 with continuous ACER: minutes on one core."""

from laser.algorithms.acer_continuous import AcerContinuousConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def acer_pendulum() -> TrainConfig:
    """Return the config: all learning is from the replay, which replays each step many times."""
    return TrainConfig(
        env="Pendulum-v1",
        steps=40_000,
        runtime="lockstep",
        num_envs=4,
        unroll_length=16,
        stop_at_return=-175.0,
        algorithm=AcerContinuousConfig(
            learning_rate=1e-3,
            optimizer="adam",
            max_gradient_norm=1.0,
            discount=0.95,
            batch_size=16,
            critic_cost=0.5,
            # Discounted returns reach -100; this scales them to about -5.
            reward_scale=0.05,
        ),
        network=NetworkConfig(separate_critic=True, initial_std=0.3),
        replay=ReplayConfig(capacity_steps=30_000, min_steps=1_000, samples_per_insert=32.0),
    )
