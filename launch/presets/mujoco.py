"""MuJoCo and other continuous actions with SAC, two to three times as fast as Stable-Baselines3's on a CPU."""

import dataclasses

from launch.presets.sac import sac
from launch.settings.train_config import TrainConfig


def mujoco() -> TrainConfig:
    """Return the config: SAC's.

    After 50,000 env steps of Hopper-v5 its returns were those of Stable-Baselines3's SAC
    (benchmarks/notes/2026-11-speed.md). LASER's own agent, V-trace in a trust region, needs more experience there
    (presets `hopper` and `halfcheetah`).
    """
    return dataclasses.replace(sac(), env="HalfCheetah-v5")
