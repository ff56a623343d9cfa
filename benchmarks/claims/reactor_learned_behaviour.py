"""Reactor's third claim: with a learned behaviour policy it learns from a log that holds no probabilities.

An agent trains; all its experience, from all of its policies, is the log. New agents then learn only from that log and
never act: with the stored probabilities; from a log without probabilities, with a learned behaviour policy; and from a
log in which all actions are recorded as equally likely. Their returns are compared with the mean return in the log.
Source: Gruslys et al. 2017 (the Reactor), sections 3.2 and 4.2.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from parts import measure, worker_pool
from small_agent import SmallAgent

from laser.unroll import Unrolls
from launch.presets import load_preset
from launch.reproductions.outcomes import spread

# By environment: preset, env steps in the log, updates from it.
TASKS = {"CartPole-v1": ("reactor_cartpole", 15_000, 3_000), "mini/Catch-v0": ("reactor_mini", 8_000, 2_000)}
MU = "mu/logits"
NUM_LOOKS = 6


@dataclasses.dataclass(frozen=True)
class Arm:
    """A way to learn from a log: the probabilities that are used, and a change to those in the log."""

    label: str
    behaviour: str
    stored: str


ARMS = (
    Arm("stored probabilities", "memorised", "kept"),
    Arm("no probabilities, learned behaviour", "learned", "left out"),
    Arm("said to be uniform", "memorised", "uniform"),
)


def make_log(env: str, seed: int, num_steps: int) -> tuple[list[Unrolls], float]:
    """Train an agent; return all its experience and the mean return of the episodes that ended in it."""
    torch.set_num_threads(1)
    agent = SmallAgent(_config(env, seed))
    agent.train(num_steps)
    played = agent.recording.inserted
    agent.close()
    rewards = sum(float((part.fields["rewards"] * part.fields["valid"]).sum()) for part in played)
    # An episode's end is a row without a transition.
    return played, rewards / max(1, sum(int((~part.fields["valid"]).sum()) for part in played))


def learn(env: str, seed: int, arm: Arm, log: list[Unrolls], num_updates: int) -> list[float]:
    """Learn only from a log; return the mean return of the policy at equally spaced numbers of updates."""
    torch.set_num_threads(1)
    config = _config(env, seed + 100, **{"algorithm.behaviour-policy": arm.behaviour})
    algorithm = SmallAgent(config)
    algorithm.close()
    spec = algorithm.spec
    if arm.stored == "left out":
        spec = dataclasses.replace(spec, behaviour={})
    agent = SmallAgent(config, spec)
    for part in log:
        # States are recomputed along episodes, so the acting agent's states are left out.
        fields: Mapping[str, np.ndarray] = part.fields
        kept = {name: fields.get(name, np.zeros((len(part), *spec.shape(name)), np.float32)) for name in spec.fields}
        if arm.stored == "uniform":
            kept[MU] = np.zeros_like(fields[MU])
        receipt = agent.shard.insert(Unrolls(part.headers, kept, part.frames)).result(60.0)
        if receipt.rejected:
            raise measure.BenchmarkError(f"the log was not taken: {receipt.rejected}")
    returns = []
    for _ in range(NUM_LOOKS):
        for _ in range(num_updates // NUM_LOOKS):
            agent.learner.step()
        returns.append(agent.evaluate(20))
    agent.close()
    return returns


def _config(env: str, seed: int, **changes: Any) -> Any:
    values = {"env": env, "seed": seed, "runtime": "lockstep", "learner.deadline-s": 60.0}
    return load_preset(TASKS[env][0], {**values, **changes})


def main() -> None:
    made = measure.parser(__doc__)
    made.add_argument("--seeds", type=int, default=5, help="logs per task, each learned from once per arm")
    options = made.parse_args()
    begun = time.perf_counter()
    if options.quick:
        options.seeds = 1
    results, conclusions = {}, []
    with worker_pool() as pool:
        for env, (_, num_steps, num_updates) in list(TASKS.items())[:: -1 if options.quick else 1]:
            if options.quick:
                num_steps, num_updates = 1_600, 60
            seeds = range(1, options.seeds + 1)
            logs = list(pool.map(make_log, [env] * options.seeds, seeds, [num_steps] * options.seeds))
            futures = {
                arm.label: [
                    pool.submit(learn, env, seed, arm, log, num_updates)
                    for seed, (log, _) in zip(seeds, logs, strict=True)
                ]
                for arm in ARMS
            }
            returns = {label: [future.result() for future in row] for label, row in futures.items()}
            in_log = [mean_return for _, mean_return in logs]
            results[env] = {"in_log": in_log, "returns": returns, "env_steps": num_steps, "updates": num_updates}
            conclusions.append(f"{env}: mean return in the log of {num_steps:,} env steps: {spread(np.array(in_log))}")
            conclusions += [
                f"{env}: {label}: after {num_updates:,} updates {spread(np.array(rows)[:, -1])}, best of "
                f"{NUM_LOOKS} looks {spread(np.array(rows).max(1))}"
                for label, rows in returns.items()
            ]
            print("\n".join(conclusions[-1 - len(ARMS) :]), flush=True)
            if options.quick:
                break
    minutes = round((time.perf_counter() - begun) / 60.0, 1)
    measure.save("claims/reactor_learned_behaviour", {**vars(options), "minutes": minutes}, results, conclusions)


if __name__ == "__main__":
    main()
