"""PPO on Hopper-v5 (MuJoCo), with the constants of the ReF-ER paper's baseline."""

from laser.algorithms.ppo import PpoConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def ppo() -> TrainConfig:
    """Return the config: batches of 2,048 steps, 10 epochs in minibatches of 64."""
    return TrainConfig(
        env="Hopper-v5",
        steps=10_000_000,
        runtime="lockstep",
        num_envs=8,
        unroll_length=256,
        environment=EnvironmentConfig(action_bounds="none"),  # as the ReF-ER paper lets MuJoCo take them
        algorithm=PpoConfig(),
        network=NetworkConfig(separate_critic=True, initial_std=0.6),
        # The learner takes fresh experience only; stored experience is never drawn.
        replay=ReplayConfig(capacity_steps=8_192),
    )
