"""Env steps per second of the presets, from which the hours of a figure are estimated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_GPU, _CPU = "one H100 (by its learner)", "two cores"


@dataclass(frozen=True)
class Speed:
    """Env steps per second of one run, and the machine."""

    env_steps_per_s: float
    machine: str


# From benchmarks/notes and docs/gpu.md. On the GPU only the learner was measured, which is the limit there: 40,020
# steps/s of updates of the residual net with four times the channels, and five of them per env step.
SPEEDS = {
    "atari": Speed(8_000, _GPU),
    # Four replays of each env step; other ratios of its figures cost in proportion.
    "acer": Speed(126, _CPU),
    "acer_continuous": Speed(4_700, _CPU),
    "reactor": Speed(140, _CPU),
    "rainbow": Speed(37.5, _CPU),
    # With a stand-in for DeepMind Lab, whose own time comes on top: an update of 316 fresh steps takes 20 s.
    "dmlab30": Speed(16, _CPU),
    "ppo": Speed(1_560, _CPU),
    "ddpg": Speed(496, _CPU),
    # 588 with sweeps at intervals; a full replay with sweeps per sample takes 1.9 times as long.
    "racer": Speed(310, _CPU),
    "v_racer": Speed(310, _CPU),
    # As many updates of the same net as RACER, without sweeps.
    "naf": Speed(588, _CPU),
    "sac": Speed(278, _CPU),
    "td3": Speed(426, _CPU),
    # SAC and TD3 with half their batch; what NERS costs beside it is not measured.
    "ners_sac": Speed(278, _CPU),
    "ners_td3": Speed(426, _CPU),
    "cartpole": Speed(3_907, _CPU),
    "acer_cartpole": Speed(3_525, _CPU),
    "reactor_cartpole": Speed(2_241, _CPU),
    "acer_pendulum": Speed(944, _CPU),
}


def hours_of(env_steps: Mapping[str, int]) -> tuple[float, list[str], list[str]]:
    """Return the hours of runs one after the other, the machines, and the presets that have not been measured.

    Args:
        env_steps: by preset.
    """
    known = {preset: SPEEDS[preset] for preset in env_steps if preset in SPEEDS}
    hours = sum(env_steps[preset] / speed.env_steps_per_s / 3600.0 for preset, speed in known.items())
    machines = list(dict.fromkeys(speed.machine for speed in known.values()))
    return hours, machines, [preset for preset in env_steps if preset not in known]
