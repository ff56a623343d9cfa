"""Hopper-v5 (MuJoCo) with LASER: continuous control on one core."""

from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def hopper() -> TrainConfig:
    """Return the config: the critic has a torso of its own, and advantages, not rewards, are normalised."""
    return TrainConfig(
        env="Hopper-v5",
        steps=1_000_000,
        runtime="lockstep",
        num_envs=8,
        unroll_length=16,
        algorithm=LaserConfig(
            learning_rate=3e-4,
            optimizer="adam",
            optimizer_epsilon=1e-5,
            max_gradient_norm=1.0,
            batch_size=16,
            replay_fraction=0.75,
            # Continuous policies diverge faster than those over a few actions: 0.05 rejects nine steps in ten.
            trust_region_threshold=0.2,
            trace_lambda=0.95,
            entropy_cost=1e-3,
            entropy_on="all",
            reward_scale=0.05,
            reduction="mean_per_column",
            normalize_advantages="scale",
        ),
        network=NetworkConfig(separate_critic=True, initial_std=0.6),
        replay=ReplayConfig(capacity_steps=5_000, min_steps=1_000),
    )
