"""Data-efficient Rainbow on Atari, 100,000 steps with the paper's constants; --env chooses the game."""

from laser.algorithms.rainbow import RainbowConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import EvaluationConfig, TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig


def rainbow() -> TrainConfig:
    """Return the config: one update of 32 items per env step after 1,600 random steps; the replay keeps all steps."""
    return TrainConfig(
        env="ALE/Pong-v5",
        steps=100_000,
        num_envs=1,
        unroll_length=4,
        algorithm=RainbowConfig(),
        network=NetworkConfig(torso="der_cnn"),
        environment=EnvironmentConfig(life_loss_ends_episode=True, fire_at_reset=False),
        replay=ReplayConfig(
            capacity_steps=100_000,
            min_steps=1_600,
            samples_per_insert=32.0,
            sampler="per",
            priority_exponent=0.5,
            priority_uniform=0.0,
            importance_exponent=0.4,
        ),
        # Actors change parameters only between unrolls, which are 4 steps long.
        learner=LearnerConfig(publish_interval=4),
        evaluation=EvaluationConfig(episodes=10, greedy=True),
    )
