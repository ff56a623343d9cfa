"""Any Atari game with ACER's constants: 16 environments, replay ratio 4; --env chooses the game."""

from laser.algorithms.acer import AcerConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def acer() -> TrainConfig:
    """Return the config: unrolls of 20 steps from each of 16 environments, 50,000 frames of replay for each of them.

    Settings that the paper leaves open, such as when replaying begins, follow its published code.
    """
    return TrainConfig(
        env="ALE/Breakout-v5",
        steps=20_000_000,
        num_actors=1,
        num_envs=16,
        unroll_length=20,
        # TensorFlow adds the published 1e-5 inside the square root; outside it, this is the square root of 1e-5.
        algorithm=AcerConfig(reward_transform="clip", optimizer_epsilon=3.2e-3),
        network=NetworkConfig(torso="nature_cnn"),
        environment=EnvironmentConfig(max_noops=30, fire_at_reset=False),
        replay=ReplayConfig(capacity_steps=800_000, min_steps=10_000),
    )
