"""Small tasks on images of a few cells (Catch) with 3-step double DQN: half a minute on one core."""

from laser.algorithms.dqn import DqnConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig


def dqn_mini() -> TrainConfig:
    """Return the config: one update per env step."""
    return TrainConfig(
        env="mini/PixelCatch-v0",
        steps=10_000,
        runtime="lockstep",
        num_envs=1,
        unroll_length=8,
        algorithm=DqnConfig(
            learning_rate=1e-3,
            optimizer_epsilon=1e-8,
            num_steps=3,
            double=True,
            head_size=64,
            epsilon=0.02,
            epsilon_updates=800,
            target_period=50,
        ),
        network=NetworkConfig(torso="cells_cnn"),
        replay=ReplayConfig(capacity_steps=100_000, min_steps=200, samples_per_insert=32.0),
        learner=LearnerConfig(precision="float32"),  # images this small gain nothing from bfloat16
    )
