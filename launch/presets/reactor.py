"""Any Atari game with Reactor and its paper's constants, where stated (200M frames); --env chooses the game."""

from laser.algorithms.reactor import ReactorConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig


def reactor() -> TrainConfig:
    """Return the config: sequences of 33 single frames from any step on, and three LSTMs that begin each with zeros.

    The paper states: the network, 33 observations per sequence, the target's period, lambda, beta = 1, the entropy's
    weight. Chosen here: step size, batch size, discount, exploration, and all settings of the replay.
    """
    return TrainConfig(
        env="ALE/Breakout-v5",
        steps=50_000_000,
        num_envs=16,
        unroll_length=32,
        algorithm=ReactorConfig(
            learning_rate=1e-4,
            discount=0.99,
            batch_size=8,
            clip=1.0,
            trace_lambda=0.9,
            entropy_cost=0.1,
            exploration=0.01,
            target_period=10_000,
            target_state="zero",
            reward_transform="clip",
        ),
        network=NetworkConfig(torso="crelu_cnn", core="lstm_features", core_size=128),
        environment=EnvironmentConfig(frame_stack=1, max_noops=30, fire_at_reset=False),
        learner=LearnerConfig(replay_core_state="zero"),
        # As many draws per env step as DQN, which draws 32 every fourth step.
        replay=ReplayConfig(capacity_steps=1_000_000, min_steps=50_000, samples_per_insert=8.0, sequence_starts="step"),
    )
