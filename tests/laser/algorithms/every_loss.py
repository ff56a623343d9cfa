"""Losses of all kinds with small networks and random batches, for tests that each must pass."""

from __future__ import annotations

from random_batches import ACTIONS, make_batch, make_environment
from replayed_steps import steps_batch

from laser.algorithms.acer import AcerConfig
from laser.algorithms.acer_continuous import AcerContinuousConfig
from laser.algorithms.base import Algorithm, AlgorithmConfig
from laser.algorithms.ddpg import DdpgConfig
from laser.algorithms.dqn import DqnConfig
from laser.algorithms.impala import ImpalaConfig
from laser.algorithms.laser import LaserConfig
from laser.algorithms.naf import NafConfig
from laser.algorithms.ppo import PpoConfig
from laser.algorithms.racer import RacerConfig
from laser.algorithms.rainbow import RainbowConfig
from laser.algorithms.reactor import ReactorConfig
from laser.algorithms.refer import ReferConfig
from laser.algorithms.sac import SacConfig
from laser.algorithms.td3 import Td3Config
from laser.algorithms.v_racer import VRacerConfig
from laser.batch import Batch
from laser.networks.config import NetworkConfig

SMALL = NetworkConfig(hidden_sizes=(8, 8))
LOSSES: dict[str, tuple[AlgorithmConfig, str]] = {
    "laser, Gaussian": (LaserConfig(), "continuous"),
    "laser, clipped": (LaserConfig(policy_clip=0.1, rejection="second_moment", lambda_advantages=True), "discrete"),
    "laser, normalised": (LaserConfig(normalize_observations=True), "discrete"),
    "acer": (AcerConfig(), "discrete"),
    "acer, Gaussian": (AcerContinuousConfig(), "continuous"),
    "reactor": (ReactorConfig(), "discrete"),
    "impala, ReF-ER": (ImpalaConfig(replay_fraction=0.5, refer=ReferConfig(c=4.0)), "discrete"),
    "racer": (RacerConfig(), "continuous"),
    "racer, quadratic": (RacerConfig(advantage="quadratic"), "continuous"),
    "v_racer": (VRacerConfig(), "continuous"),
    "naf": (NafConfig(), "continuous"),
    "td3": (Td3Config(), "continuous"),
    "sac": (SacConfig(), "continuous"),
    "ddpg": (DdpgConfig(), "continuous"),
    "dqn": (DqnConfig(target_period=2), "discrete"),
    "rainbow": (RainbowConfig(target_period=2), "discrete"),
    "ppo": (PpoConfig(num_epochs=2, num_minibatches=2), "continuous"),
    "ppo, normalised": (PpoConfig(num_epochs=2, num_minibatches=2, normalize_observations=True), "continuous"),
}


def make_algorithm(config: AlgorithmConfig, actions: str) -> Algorithm:
    return config.build(make_environment(ACTIONS[actions]), SMALL)


def batch_for(algorithm: Algorithm, seed: int = 0) -> Batch:
    actions = algorithm.environment.actions
    if algorithm.config.view == "steps":
        return steps_batch(actions, algorithm.columns, seed=seed)
    return make_batch(actions, num_rows=5, seed=seed)
