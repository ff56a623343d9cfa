"""A whole run for a few seconds, with actors, replay and learner: env steps per second while learning."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from laser.config import Bounds, raise_problems
from launch.bench import machine
from launch.bench._measured_run import measure_run
from launch.presets import load_preset


@dataclass(frozen=True)
class Options:
    """Choice of the run."""

    preset: Annotated[str, "preset to train"] = "pong"
    device: Annotated[str, "device of the learner: auto, cpu, cuda or cuda:N"] = "auto"
    runtime: Annotated[
        Literal["preset", "local", "lockstep", "ray"], "the preset's runtime, threads, one thread, or processes"
    ] = "preset"
    num_envs: Annotated[int, Bounds(least=0, most=4096), "environments per actor; 0: the preset's"] = 0
    seconds: Annotated[float, Bounds(above=0.0, most=1e6), "seconds of measuring, from the first updates on"] = 10.0
    json: Annotated[bool, "print one JSON object"] = False


def run(options: Options) -> dict[str, Any]:
    """Train and write no files; compilation and the filling of the replay are not measured."""
    config = load_preset(options.preset)
    config = dataclasses.replace(
        config,
        device=options.device,
        runtime=config.runtime if options.runtime == "preset" else options.runtime,
        num_envs=options.num_envs or config.num_envs,
    )
    raise_problems(list(config.single_problems()))
    (measured,) = measure_run([config], options.seconds)
    return {
        "preset": config.preset,
        "runtime": config.runtime,
        "num_envs": config.num_actors * config.num_envs,
        "env_steps_per_second": measured.env_steps_per_second,
        "frames_per_second": measured.frames_per_second,
        "updates_per_second": measured.updates_per_second,
        "learner_idle_share": measured.idle_share,
        **{f"policy_lag_{name.replace('/', '_')}": value for name, value in measured.policy_lag.items()},
        "start_seconds": measured.start_s,
        "seconds": measured.seconds,
        **machine(),
        "bottleneck": measured.bottleneck or "unknown: measure for longer",
    }
