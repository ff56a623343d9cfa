"""SAC on Hopper-v5 (MuJoCo) with NERS and the constants of its paper's table B.1."""

import dataclasses

from launch.presets.sac import sac
from launch.settings.train_config import TrainConfig

BATCH_SIZE = 128


def ners_sac() -> TrainConfig:
    """Return the config: B = 128, 5,000 steps at random, 500,000 steps, and an evaluation every 1,000.

    An evaluation is one episode, from whose return NERS learns. The exponents of priorities hold for `per`, too.
    """
    return with_constants(sac())


def with_constants(config: TrainConfig) -> TrainConfig:
    """Return a config of SAC or TD3 with what the paper's table has for both, and NERS as the sampler."""
    return dataclasses.replace(
        config,
        steps=500_000,
        algorithm=dataclasses.replace(config.algorithm, batch_size=BATCH_SIZE),
        replay=dataclasses.replace(
            config.replay,
            sampler="ners",
            min_steps=5_000,
            samples_per_insert=float(BATCH_SIZE),
            priority_exponent=0.5,
            importance_exponent=0.4,
        ),
        evaluation=dataclasses.replace(config.evaluation, interval=1_000, episodes=1, num_envs=1, greedy=True),
    )
