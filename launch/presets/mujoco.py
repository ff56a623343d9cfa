"""MuJoCo and other continuous actions with SAC, two to three times as fast as Stable-Baselines3's on a CPU."""

import dataclasses

from launch.presets.sac import sac
from launch.settings.train_config import TrainConfig


def mujoco() -> TrainConfig:
    """Return the config: SAC's.

    After 50,000 env steps of Hopper-v5 25 runs had a mean return of 454, 15 runs of Stable-Baselines3's SAC with its
    settings 498 +- 84 (benchmarks/notes/2026-11-speed.md). LASER's own agent, V-trace in a trust region, needs more
    experience there (presets `hopper` and `halfcheetah`).
    """
    return dataclasses.replace(sac(), env="HalfCheetah-v5")
