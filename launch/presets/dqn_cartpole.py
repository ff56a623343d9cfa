"""CartPole-v1 with 3-step double DQN: a minute on one core."""

from laser.algorithms.dqn import DqnConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def dqn_cartpole() -> TrainConfig:
    """Return the config."""
    return TrainConfig(
        env="CartPole-v1",
        steps=50_000,
        runtime="lockstep",
        num_envs=1,
        unroll_length=8,
        stop_at_return=475.0,
        algorithm=DqnConfig(
            learning_rate=1e-3,
            optimizer_epsilon=1e-8,
            batch_size=64,
            num_steps=3,
            double=True,
            epsilon_updates=2_000,
            epsilon=0.04,
            target_period=100,
        ),
        network=NetworkConfig(hidden_sizes=(128, 128), activation="relu"),
        # 64 steps drawn per two inserted: an update every other env step.
        replay=ReplayConfig(capacity_steps=20_000, min_steps=500, samples_per_insert=32.0),
    )
