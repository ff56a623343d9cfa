"""How a config computes on this machine: the device, torch's threads, compiled policies, groups of environments."""

from __future__ import annotations

import os

import psutil
import torch

from laser.compilation import can_compile
from laser.environments import task_ids
from laser.specs import EnvironmentSpec, FramesSpec
from launch.config import TrainConfig

_WIDE = 256  # units of a layer
_LOOK_S = 0.3


def resolve_device(config: TrainConfig) -> str:
    """Return the device that `auto` means here; in lockstep the one that repeats bit by bit."""
    if config.device != "auto":
        return config.device
    return "cuda" if torch.cuda.is_available() and config.runtime != "lockstep" else "cpu"


def note_idle_gpu(config: TrainConfig, environment: EnvironmentSpec) -> str:
    """Return what a user should know where lockstep leaves a GPU idle that the networks are large enough for, or ""."""
    if config.runtime != "lockstep" or config.device != "auto" or not torch.cuda.is_available():
        return ""
    if not has_frames(environment) and not _is_wide(config):
        return ""
    return (
        "device: lockstep computes on the CPU, to repeat bit by bit, and leaves the GPU idle: --runtime local uses it"
    )


def _is_wide(config: TrainConfig) -> bool:
    return max(config.network.hidden_sizes, default=0) >= _WIDE


def learner_threads(config: TrainConfig, environment: EnvironmentSpec, population: int = 1) -> int:
    """Return how many threads torch uses where a learner computes on the CPU.

    With frames, all learners together half of the cores: threads that outnumber free cores spin at every barrier
    (measured on two cores beside one actor: 792 env steps/s on Pong with two threads, 1,576 with one). MLPs are too
    small to share out, but for agents that learn from single steps with wide ones, if they are alone or take turns with
    others: actors wait for them most of the time (TD3 on Hopper, two threads over one: 1.5 times the env steps/s in
    lockstep, 1.2 beside its actor).
    """
    if config.learner.torch_threads:
        return config.learner.torch_threads
    num_cores = os.cpu_count() or 1
    takes_turns = config.runtime == "lockstep"
    if has_frames(environment):
        return 1 if takes_turns else max(1, num_cores // 2 // population)
    shares_out = _is_wide(config) and config.algorithm.view == "steps" and (takes_turns or population == 1)
    return min(2, num_cores) if shares_out else 1


def note_busy_cores(config: TrainConfig, environment: EnvironmentSpec, population: int = 1) -> str:
    """Return what a user should know where other work would keep a learner's threads waiting for each other, or "".

    Looks for a third of a second at how busy this machine is, where it matters. Two runs of TD3 at once on two cores
    make 137 updates/s each with two threads, 260 with one.
    """
    num_threads = learner_threads(config, environment, population)
    if config.runtime == "ray" or config.learner.torch_threads or num_threads == 1 or resolve_device(config) != "cpu":
        return ""
    num_cores = os.cpu_count() or 1
    busy = psutil.cpu_percent(_LOOK_S) / 100.0 * num_cores
    if busy + num_threads < num_cores + 0.5:
        return ""
    return (
        f"learner.torch-threads: other work keeps {busy:.1f} of {num_cores} cores busy, and the learner's "
        f"{num_threads} threads would wait for each other; --learner.torch-threads 1 is faster then"
    )


def num_env_groups(config: TrainConfig) -> int:
    """Return in how many groups an actor's environments move: while the policy acts for one, the others emulate."""
    is_atari = task_ids(config.env)[0].startswith("ALE/")
    return config.actor.env_groups or (2 if is_atari and config.num_envs > 1 else 1)


def compiles_policy(config: TrainConfig, environment: EnvironmentSpec) -> bool:
    """Return whether actors compile their networks: where it pays for the seconds it takes, and a compiler is there."""
    if config.actor.compile != "auto":
        return config.actor.compile == "on"
    return has_frames(environment) and config.runtime != "lockstep" and can_compile(torch.device(config.actor.device))


def has_frames(environment: EnvironmentSpec) -> bool:
    """Return whether observations hold images."""
    return any(isinstance(spec, FramesSpec) for spec in environment.observations.values())
