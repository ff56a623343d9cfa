"""RACER with ReF-ER on Pendulum-v1: the paper's constants rescaled to a run of 40,000 steps."""

import dataclasses

from actors.config import ActorConfig
from laser.algorithms.racer import RacerConfig
from laser.algorithms.refer import ReferConfig
from laser.environments.config import EnvironmentConfig
from laser.networks.config import NetworkConfig
from launch.presets.racer import racer
from launch.settings.train_config import TrainConfig
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig

# The paper has 10 million steps, this run 40,000: annealing is 250 times as fast, recounts are 10 times as frequent.
SHORT_REFER = ReferConfig(annealing=1.25e-4, beta_rate=1e-3, recount_interval=100)
SHORT_REPLAY = ReplayConfig(capacity_steps=2**14, min_steps=1_000, samples_per_insert=256.0, remover="far_policy")


def racer_pendulum() -> TrainConfig:
    """Return the config: a larger step size, a smaller network and a shorter horizon than on MuJoCo."""
    return dataclasses.replace(
        racer(),
        env="Pendulum-v1",
        environment=EnvironmentConfig(),
        steps=40_000,
        num_envs=1,
        unroll_length=8,
        algorithm=RacerConfig(
            learning_rate=1e-3, discount=0.98, refer=SHORT_REFER, refresh_interval=100, reward_interval=100
        ),
        network=NetworkConfig(hidden_sizes=(64, 64), activation="softsign"),
        replay=SHORT_REPLAY,
        learner=LearnerConfig(),
        actor=ActorConfig(),
    )
