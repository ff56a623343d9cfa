"""Any Atari game on few cores, with LASER and sticky actions: Pong stands at 8 after 2M env steps (one seed)."""

from laser.algorithms.laser import LaserConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import EvaluationConfig, TrainConfig
from replay_server.config import ReplayConfig


def atari_small() -> TrainConfig:
    """Return the config: actions stick with probability 0.25 (Machado et al. 2018).

    Pong took 76 minutes on two cores, and no other system has been run beside it yet (docs/results.md).
    benchmarks/notes/2026-11-learning.md has the runs on Pong that each choice comes from.
    """
    return TrainConfig(
        env="ALE/Pong-v5",
        steps=2_000_000,
        num_envs=16,
        # With unrolls of 20 and a replay of 50,000, tried together, a run learned more slowly from as many updates.
        unroll_length=40,
        algorithm=LaserConfig(
            learning_rate=5e-4,
            learning_rate_schedule="linear",
            optimizer="adam",
            optimizer_epsilon=1e-5,
            batch_size=16,
            replay_fraction=0.875,
            policy_clip=0.5,
            trace_lambda=0.95,
            lambda_advantages=True,
            reduction="mean_per_column",
            normalize_advantages="scale",
            reward_transform="clip",
            # Less of it at the start, and learning begins later; as much at the end, and actions stay too random.
            entropy_on="all",
            entropy_cost=0.01,
            entropy_cost_final=0.05,
        ),
        network=NetworkConfig(layer_norm=True, centered_filters=True),
        environment=EnvironmentConfig(sticky_actions=0.25),
        replay=ReplayConfig(capacity_steps=10_000, min_steps=2_000),
        evaluation=EvaluationConfig(episodes=20),
    )
