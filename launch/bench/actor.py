"""An actor's two halves alone, emulation and inference: env steps per second, and the slower half."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np

from actors.policy import Policy, PolicyState
from laser.config import Bounds
from laser.environments import make_environment
from launch.bench import machine
from launch.presets import load_preset


@dataclass(frozen=True)
class Options:
    """Choice of the measurement."""

    preset: Annotated[str, "preset of environment, networks and number of environments"] = "pong"
    num_envs: Annotated[int, Bounds(least=0, most=4096), "number of environments; 0: the preset's"] = 0
    seconds: Annotated[float, Bounds(above=0.0, most=1e6), "seconds of measuring per half"] = 5.0
    json: Annotated[bool, "print one JSON object"] = False


def run(options: Options) -> dict[str, Any]:
    """Measure emulation with an untrained policy's actions, and inference on the environment's observations."""
    config = load_preset(options.preset)
    num_envs = options.num_envs or config.num_envs
    environment = make_environment(config.env, num_envs, config.environment)
    try:
        algorithm = config.algorithm.build(environment.spec, config.network)
        policy = Policy(algorithm, environment.spec, seed=0)
        state = PolicyState(num_envs, environment.spec, algorithm)
        observations = environment.reset(0)
        actions: np.ndarray = policy.act(observations, state)[0]

        def emulate() -> None:
            environment.send(actions)
            environment.recv()

        emulation_s = _seconds_each(emulate, options.seconds)
        inference_s = _seconds_each(lambda: policy.act(observations, state), options.seconds)
    finally:
        environment.close()
    parts = {"environment": emulation_s, "inference": inference_s}
    slower = max(parts, key=lambda name: parts[name])
    return {
        "preset": config.preset,
        "num_envs": num_envs,
        "emulation_env_steps_per_second": num_envs / emulation_s,
        "inference_env_steps_per_second": num_envs / inference_s,
        "one_after_the_other_env_steps_per_second": num_envs / (emulation_s + inference_s),
        **machine(),
        "bottleneck": f"{slower} ({100 * parts[slower] / (emulation_s + inference_s):.0f}% of an env step)",
    }


def _seconds_each(work: Callable[[], Any], seconds: float) -> float:
    work()
    start, count = time.perf_counter(), 0
    while time.perf_counter() - start < seconds:
        work()
        count += 1
    return (time.perf_counter() - start) / count
