"""RACER with ReF-ER on Hopper-v5 (MuJoCo), with the constants of the paper's table 1."""

from actors.config import ActorConfig
from laser.algorithms.racer import RacerConfig
from laser.algorithms.refer import ReferConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.settings.train_config import TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig

PAPER_REFER = ReferConfig(anneal_beta_rate=True)
"""ReF-ER with the rate of beta annealed like the step size, as the paper prints it."""


def racer() -> TrainConfig:
    """Return the config: N = 2^19, N_start = 2^18, B = 256, F = 1, eta = 1e-4, gamma = 0.995, C = 4, D = 0.1."""
    return TrainConfig(
        env="Hopper-v5",
        steps=10_000_000,
        runtime="lockstep",
        # Four, not one: one call of the policy and one insert serve all environments together.
        num_envs=4,
        unroll_length=16,
        environment=EnvironmentConfig(action_bounds="none"),  # as the ReF-ER paper lets MuJoCo take them
        algorithm=RacerConfig(refer=PAPER_REFER, refresh="per_sample"),
        network=NetworkConfig(hidden_sizes=(128, 128), activation="softsign"),
        # 256 steps drawn per step inserted are one batch per env step, F = 1.
        replay=ReplayConfig(capacity_steps=2**19, min_steps=2**18, samples_per_insert=256.0, remover="far_policy"),
        # With networks this small overhead takes more time than arithmetic.
        learner=LearnerConfig(compile="on", batches_per_draw=8),
        actor=ActorConfig(compile="on"),
    )
