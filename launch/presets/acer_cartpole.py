"""CartPole-v1 with ACER: a few seconds on one core."""

from laser.algorithms.acer import AcerConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def acer_cartpole() -> TrainConfig:
    """Return the config."""
    return TrainConfig(
        env="CartPole-v1",
        steps=40_000,
        runtime="lockstep",
        num_envs=8,
        unroll_length=16,
        stop_at_return=475.0,
        algorithm=AcerConfig(
            learning_rate=2e-3,
            optimizer="adam",
            max_gradient_norm=1.0,
            discount=0.98,
            batch_size=8,
            replay_ratio=4.0,
            trace_lambda=0.95,
            entropy_cost=0.01,
            # Discounted returns reach 50; scaled to about 2.5, the critic keeps up with the actor.
            reward_scale=0.05,
        ),
        network=NetworkConfig(separate_critic=True),
        replay=ReplayConfig(capacity_steps=10_000, min_steps=512),
    )
