"""Any Atari game with the LASER paper's constants (200M frames, residual net); --env chooses the game."""

from laser.algorithms.laser import LaserConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def atari() -> TrainConfig:
    """Return the config: 32 fresh and 128 replayed unrolls of 19 steps, 4 times wider nets, no gradient clipping.

    The paper does not state the replay's capacity on Atari; 10M steps is its capacity on DMLab-30.
    """
    return TrainConfig(
        env="ALE/Breakout-v5",
        steps=50_000_000,
        num_actors=8,
        num_envs=32,
        unroll_length=19,
        algorithm=LaserConfig(
            learning_rate=6e-4,
            # TensorFlow adds IMPALA's 0.01 inside the square root; outside it, this is the square root of 0.01.
            optimizer_epsilon=0.1,
            max_gradient_norm=float("inf"),
            discount=0.995,
            batch_size=160,
            replay_fraction=0.8,
            entropy_cost=1e-2,
            reward_transform="clip",
        ),
        network=NetworkConfig(torso="impala_resnet", width=4),
        environment=EnvironmentConfig(max_noops=37, fire_at_reset=False),
        replay=ReplayConfig(capacity_steps=10_000_000, min_steps=50_000),
    )
