"""Core-seconds per env step of a Pong run: emulation, inference and learning, each measured alone.

The bound is `cores / (emulation + inference + learning)`: the rate of a machine whose cores did nothing else. The
settings are those of an existing run (its config.json). Everything runs on one thread and CPU time is counted, so other
processes on the machine change little. The last line of standard output is one JSON object.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable
from pathlib import Path

import measure
import numpy as np
import torch
from ale_py.vector_env import AtariVectorEnv

from actors.policy import Policy, PolicyState
from actors.unroll_builder import Identity, UnrollBuilder
from laser.algorithms.base import Algorithm
from laser.environments import make_environment
from laser.environments.base import VectorEnvironment
from laser.ports import KEY_DTYPE, Sample
from laser.unroll import UnrollSpec
from launch.planning.member_plan import plan_member
from launch.settings.json_form import config_from_json
from launch.settings.train_config import TrainConfig
from learner.experience.collate import collate
from learner.experience.mixing import Mix
from learner.updating.factory import make_updater


def cost(work: Callable[[], int], seconds: float) -> float:
    """Return CPU seconds per env step of `work`, which returns its number of env steps; the best of three windows.

    The best counts, because disturbances of cache or clock only make the work slower.
    """
    work()
    windows = []
    for _ in range(3):
        begun, cpu, steps = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() - begun < seconds / 3:
            steps += work()
        windows.append((time.process_time() - cpu) / steps)
    return min(windows)


def emulation(config: TrainConfig, seconds: float) -> float:
    """Return core-seconds per env step of ale-py's vector environment with random actions, without any of our code."""
    flags = config.environment
    environments = AtariVectorEnv(
        "pong",
        config.num_envs,
        num_threads=1,
        repeat_action_probability=flags.sticky_actions,
        frameskip=flags.frame_skip,
        stack_num=flags.frame_stack,
        noop_max=flags.max_noops,
        reward_clipping=False,
    )
    environments.reset(seed=1)
    generator = np.random.default_rng(1)

    def step() -> int:
        environments.step(generator.integers(0, 6, config.num_envs))
        return config.num_envs

    result = cost(step, seconds)
    environments.close()
    return result


def inference(config: TrainConfig, seconds: float) -> float:
    """Return core-seconds per env step of the policy on a group of environments, compiled as in the actor."""
    member = plan_member(config)
    num_envs = member.env_groups[0]
    environment = make_environment(config.env, num_envs, config.environment)
    policy = Policy(member.algorithm, environment.spec, seed=1, compiled=member.compiles_policy)
    state = PolicyState(num_envs, environment.spec, member.algorithm)
    observations = environment.reset(1)

    def act() -> int:
        policy.act(observations, state)
        return num_envs

    act()  # compiles
    result = cost(act, seconds)
    environment.close()
    return result


def learning(config: TrainConfig, seconds: float) -> float:
    """Return core-seconds of the update per env step, that is per fresh row of its batches."""
    environment = make_environment(config.env, config.algorithm.batch_size, config.environment)
    member = plan_member(config, environment.spec)
    algorithm, spec = member.algorithm, member.own_unrolls
    step = make_updater(algorithm, algorithm.make_networks(), spec, config.learner, torch.device("cpu"), seed=1)
    sample = _real_unrolls(config, environment, spec, algorithm)
    (batch,) = collate([Mix(sample, None)], spec, 0, config.algorithm.discount, 0)
    environment.close()

    def train() -> int:
        step(batch, 0.0, {})
        return config.algorithm.num_online * config.unroll_length

    train()  # compiles
    return cost(train, seconds)


def _real_unrolls(
    config: TrainConfig, environment: VectorEnvironment, spec: UnrollSpec, algorithm: Algorithm
) -> Sample:
    """Return one batch of unrolls of the game, played by an untrained policy."""
    count = config.algorithm.batch_size
    policy = Policy(algorithm, environment.spec, seed=1)
    state = PolicyState(count, environment.spec, algorithm)
    builder = UnrollBuilder(spec, count, Identity(run=0, actor=0), incarnation=0)
    everyone, observations = np.arange(count), environment.reset(1)
    builder.begin(everyone, observations, state.first, state.last_action, state.last_reward, state.core_state, 0)
    for _ in range(config.unroll_length):
        actions, mu = policy.act(observations, state)
        environment.send(actions)
        (part,) = environment.recv()
        observations = part.observations
        builder.append(everyone, actions, mu, part.rewards, part.terminated, ~part.ignored, observations, part.ignored)
    return Sample(builder.take(everyone), np.zeros(count, KEY_DTYPE), np.ones(count), count)


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("run_dir", type=Path, help="a run of laser train on Pong")
    parser.add_argument("--seconds", type=float, default=15.0, help="seconds of measurement per part")
    options = parser.parse_args()
    seconds = 2.0 if options.quick else options.seconds
    torch.set_num_threads(1)
    config = config_from_json(json.loads((options.run_dir / "config.json").read_text(encoding="utf-8"))["config"])
    parts = {part.__name__: part(config, seconds) for part in (emulation, inference, learning)}
    cores = len(os.sched_getaffinity(0))
    for name, core_s in parts.items():
        print(f"{name}: {1e6 * core_s:.0f} microseconds of one core per env step")
    print(json.dumps({**parts, "cores": cores, "bound_env_steps_per_second": cores / sum(parts.values())}))


if __name__ == "__main__":
    main()
