"""CartPole-v1 with LASER, a few seconds on one core: solved in six tenths of PPO's env steps."""

from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def cartpole() -> TrainConfig:
    """Return the config; most of each batch is replayed, since an env step costs more than an update here."""
    return TrainConfig(
        env="CartPole-v1",
        steps=100_000,
        # With networks this small one thread is faster than several, has less policy lag, and repeats bit by bit.
        runtime="lockstep",
        num_envs=8,
        unroll_length=16,
        stop_at_return=475.0,
        algorithm=LaserConfig(
            learning_rate=1.5e-3,
            optimizer="adam",
            optimizer_epsilon=1e-5,
            max_gradient_norm=1.0,
            discount=0.99,
            batch_size=16,
            replay_fraction=0.9375,
            trust_region_threshold=0.03,
            trace_lambda=0.9,
            lambda_advantages=True,
            # Each step is replayed some fifteen times. Without a clip the policy turns deterministic, and half of all
            # runs fall back before they reach 475 for good.
            policy_clip=0.5,
            entropy_cost=0.05,
            # One sequence in sixteen is fresh: with entropy on fresh ones alone the policy turns deterministic early.
            entropy_on="all",
            # Discounted returns reach 99; scaled to about 5, the critic keeps up with the actor.
            reward_scale=0.05,
            normalize_advantages="scale",
            reduction="mean_per_column",
        ),
        network=NetworkConfig(separate_critic=True),
        # What the policy of 10,000 steps ago did delays the last part, in which it must not fall once in 500 steps.
        replay=ReplayConfig(capacity_steps=4_000, min_steps=512),
    )
