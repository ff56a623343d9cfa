"""ACER for continuous actions (Box), with the paper's constants; --env chooses the task."""

from laser.algorithms.acer_continuous import AcerContinuousConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def acer_continuous() -> TrainConfig:
    """Return the config: 16 environments, unrolls of 50 steps, 5,000 steps of replay for each, four replays of a step.

    The paper draws step sizes from 1e-4 to 5e-4 and deltas from 0.1 to 2; these are the geometric mean and 1. Its tasks
    were not published, and it does not print the widths of its networks.
    """
    return TrainConfig(
        env="HalfCheetah-v5",
        steps=10_000_000,
        runtime="lockstep",
        num_envs=16,
        unroll_length=50,
        environment=EnvironmentConfig(action_bounds="clip"),
        algorithm=AcerContinuousConfig(learning_rate=2.2e-4, discount=0.99),
        network=NetworkConfig(hidden_sizes=(128, 128), initial_std=0.3),
        replay=ReplayConfig(capacity_steps=80_000, min_steps=10_000, samples_per_insert=4.0),
    )
