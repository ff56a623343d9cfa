"""Computation on this machine: the device, torch's threads, compiled policies and groups of environments."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch

from laser.compilation import can_compile
from laser.environments import task_ids
from laser.specs import EnvironmentSpec, has_pictures
from launch.gpus import find_lost_gpu, num_gpus
from launch.settings.train_config import TrainConfig

_WIDE = 256  # units of the widest layer


@dataclass(frozen=True)
class ChosenDevice:
    """The device of a member's learner.

    Args:
        name: cpu, cuda or cuda:N; "auto" on Ray, which decides whether the learner's process gets a GPU.
        note: a note for the user if a GPU of this machine stays idle, or "".
    """

    name: str
    note: str = ""


def choose_device(config: TrainConfig, environment: EnvironmentSpec) -> ChosenDevice:
    """Return the device of a member's learner: the config's, or for `auto` a GPU if it is faster, else the CPU.

    In lockstep `auto` means the CPU, whose results repeat bit by bit.
    """
    if config.device != "auto":
        return ChosenDevice(config.device)
    pays = gpu_pays(config, environment)
    if config.ray_address:  # a cluster's GPUs are not this machine's
        return ChosenDevice("auto" if pays and not config.takes_turns else "cpu")
    if pays and (lost := find_lost_gpu()) is not None:
        return ChosenDevice("cpu", f"{lost.key}: the learner uses the CPU, since {lost.wrong}; {lost.remedy}")
    if num_gpus() == 0:
        return ChosenDevice("cpu")
    if not pays:
        return ChosenDevice(
            "cpu", "device: the CPU is faster for networks this small, so the GPU stays idle; --device cuda uses it"
        )
    if config.takes_turns:
        return ChosenDevice(
            "cpu",
            "device: lockstep computes on the CPU, to repeat bit by bit, so the GPU stays idle; "
            "--schedule free uses it",
        )
    return ChosenDevice("auto" if config.has_processes else "cuda")


def gpu_pays(config: TrainConfig, environment: EnvironmentSpec) -> bool:
    """Return whether networks are large enough for a GPU: networks with frames as input, or wide MLPs.

    The kernels of smaller networks take less time than their launch.
    """
    return has_pictures(environment.observations) or _is_wide(config)


def placed_device(name: str) -> str:
    """Return a chosen device's name in the learner's process: "auto" becomes the GPU that Ray assigned, if any."""
    if name != "auto":
        return name
    return "cuda" if num_gpus() else "cpu"


def resolve_device(config: TrainConfig) -> str:
    """Return the device for the benchmark of a single component: `auto` is a GPU if there is one, faster or not."""
    return placed_device(config.device)


def _is_wide(config: TrainConfig) -> bool:
    return max(config.network.hidden_sizes, default=0) >= _WIDE


def learner_threads(config: TrainConfig, environment: EnvironmentSpec, device: str, population: int = 1) -> int:
    """Return the number of torch threads of a learner: one if it computes on a GPU.

    On the CPU with frames, all learners together use half of the cores: threads that outnumber free cores spin at every
    barrier (measured on two cores beside one actor: 792 env steps/s on Pong with two threads, 1,576 with one). MLPs are
    too small to split between threads. Two threads pay only for agents that learn from single steps with wide MLPs and
    that are alone or take turns: actors wait for them most of the time (TD3 on Hopper, two threads over one: 1.5 times
    the env steps/s in lockstep, 1.2 beside its actor).
    """
    if config.learner.torch_threads:
        return config.learner.torch_threads
    if device != "cpu":
        return 1
    num_cores = os.cpu_count() or 1
    takes_turns = config.takes_turns
    if has_pictures(environment.observations):
        return 1 if takes_turns else max(1, num_cores // 2 // population)
    shares_out = _is_wide(config) and config.algorithm.view == "steps" and (takes_turns or population == 1)
    return min(2, num_cores) if shares_out else 1


def num_env_groups(config: TrainConfig) -> int:
    """Return the number of groups of an actor's environments: while the policy acts for one, the others emulate."""
    if config.offline:
        return 1
    is_atari = task_ids(config.env)[0].startswith("ALE/")
    return config.actor.env_groups or (2 if is_atari and config.num_envs > 1 else 1)


def compiles_policy(config: TrainConfig, environment: EnvironmentSpec) -> bool:
    """Return whether actors compile their networks: by default if compiling is possible and saves time."""
    if config.actor.compile != "auto":
        return config.actor.compile == "on"
    return (
        has_pictures(environment.observations)
        and not config.takes_turns
        and can_compile(torch.device(config.actor.device))
    )
