"""DMLab-30, all levels in one agent, with the LASER paper's constants (10B frames, PreCo LSTM, PopArt)."""

from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from replay_server.config import ReplayConfig


def dmlab30() -> TrainConfig:
    """Return the config: unrolls of 79 steps, seven of eight replayed through episode streams.

    The paper samples learning rate and entropy cost; the values here are from IMPALA's published code. The paper states
    neither the batch size nor the weight of pixel control.
    """
    return TrainConfig(
        env="dmlab30",
        steps=2_500_000_000,
        num_actors=30,
        num_envs=8,
        unroll_length=79,
        algorithm=LaserConfig(
            learning_rate=4.8e-4,
            optimizer_epsilon=0.32,  # the square root of the paper's 0.1, which TensorFlow adds inside the square root
            max_gradient_norm=float("inf"),
            discount=0.99,
            batch_size=32,
            replay_fraction=0.875,
            entropy_cost=2.5e-4,
            reward_transform="asymmetric",
            popart=True,
            pixel_control_cost=0.01,
        ),
        network=NetworkConfig(torso="impala_resnet", core="preco", words="lstm"),
        replay=ReplayConfig(capacity_steps=10_000_000, min_steps=100_000),
    )
