"""Cost of one update from single replayed steps, and its growth with the size of the replay.

    python benchmarks/step_learning.py [--arms ddpg "ddpg --replay.sampler per" ...] [--items N ...] [--eager]

The update is measured as in a run: draw, batch, loss, optimiser, column writes, and now and then a sweep of Q-retrace
and a recount of far-policy steps. One env step is inserted into the full replay per update, so that episodes are
forgotten. Sizes take turns. Reports per arm and size the median microseconds of wall time and of CPU time of all
threads (the second is steadier on a busy machine), and the median ratio to the smallest size of the same turn. Target:
within 10 % for uniform draws and ReF-ER, logarithmic for PER.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from measure import parser, save

from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from launch.factories import make_prioritizer
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from learner.learner import Learner
from learner.publishing.parameter_store import ParameterStore
from replay_server.serving.shard import Shard

PLAIN = "--algorithm.refer.enabled false --replay.remover fifo"
ARMS = ["racer", "ddpg", f"ddpg {PLAIN}", f"ddpg {PLAIN} --replay.sampler per", f"ddpg {PLAIN} --replay.sampler rank"]
STEPS_PER_EPISODE = 1000
NUM_STREAMS = 10


class Feeder:
    """Inserts random experience in episodes of a thousand steps that end in truncation.

    Args:
        shard: receives the experience.
        spec: layout of the unrolls.
    """

    def __init__(self, shard: Shard, spec: UnrollSpec):
        self.steps_per_insert = NUM_STREAMS * spec.unroll_length
        self._shard = shard
        self._spec = spec
        self._rng = np.random.default_rng(0)
        self._sequence = 0

    def insert(self) -> None:
        """Insert one unroll of each environment."""
        spec, per_episode = self._spec, STEPS_PER_EPISODE // self._spec.unroll_length
        fields: dict[str, np.ndarray] = {}
        for name, item in spec.fields.items():
            shape = (NUM_STREAMS, *spec.shape(name))
            fields[name] = np.zeros(shape, item.array.dtype)
            if item.array.dtype == "float32":
                fields[name][...] = 0.3 * self._rng.standard_normal(shape, np.float32)
        if "mu/std" in fields:
            fields["mu/std"][...] = 0.4
        fields["valid"][...] = True
        fields["first"][:, 0] = self._sequence % per_episode == 0
        if self._sequence % per_episode == per_episode - 1:
            fields["valid"][:, -1], fields["first"][:, -1] = False, True
        headers = np.zeros(NUM_STREAMS, HEADER_DTYPE)
        headers["environment"], headers["sequence"] = np.arange(NUM_STREAMS), self._sequence
        self._shard.insert(Unrolls(headers, fields)).result()
        self._sequence += 1


def fill(shard: Shard, spec: UnrollSpec, num_steps: int) -> Feeder:
    """Fill a shard; return the feeder that inserts more."""
    feeder = Feeder(shard, spec)
    for _ in range(-(-num_steps // feeder.steps_per_insert)):
        feeder.insert()
    return feeder


@dataclass
class Subject:
    """A learner and its full replay."""

    shard: Shard
    feeder: Feeder
    learner: Learner

    def turn(self, num_inserts: int) -> tuple[float, float]:
        """Return microseconds per update: wall time, and CPU time over all threads."""
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(num_inserts):
            self.feeder.insert()
            self.learner.step(self.feeder.steps_per_insert)
        num_steps = num_inserts * self.feeder.steps_per_insert
        return (time.perf_counter() - wall) / num_steps * 1e6, (time.process_time() - cpu) / num_steps * 1e6


def make_subject(arm: str, num_steps: int, compiled: bool) -> Subject:
    """Return a learner with a full replay, from a preset and further arguments of `laser train`."""
    preset, *words = arm.split()
    values = {
        "replay.capacity-steps": num_steps,
        "replay.min-steps": 512,
        "num-envs": NUM_STREAMS,
        "runtime": "lockstep",
        "learner.compile": "on" if compiled else "off",
    }
    values |= {name.removeprefix("--"): value for name, value in zip(words[::2], words[1::2], strict=True)}
    config = load_preset(preset, values)
    member = plan_member(config)
    algorithm, spec = member.algorithm, member.own_unrolls
    shard = Shard(spec, config.replay, [member.replay])
    feeder = fill(shard, spec, num_steps)
    rule = make_prioritizer(member, "cpu")
    learner = Learner(
        algorithm, spec, shard, ParameterStore(), config.learner, "cpu", 0, prioritizer=rule, prefetch=False
    )
    learner.warm_up()
    return Subject(shard, feeder, learner)


def bench(arm: str, items: list[int], compiled: bool, num_inserts: int, repeats: int) -> list[dict[str, Any]]:
    """Return the cost of one update at each size."""
    subjects = [make_subject(arm, num_steps, compiled) for num_steps in items]
    for subject in subjects:
        subject.turn(1)
    turns = [[subject.turn(num_inserts) for subject in subjects] for _ in range(repeats)]
    rows = []
    for place, num_steps in enumerate(items):
        wall, cpu = (statistics.median(turn[place][kind] for turn in turns) for kind in (0, 1))
        ratio, cpu_ratio = (statistics.median(turn[place][kind] / turn[0][kind] for turn in turns) for kind in (0, 1))
        row = {"arm": arm, "steps": num_steps, "compiled": compiled, "wall_us": round(wall), "cpu_us": round(cpu)}
        rows.append(row | {"over_smallest": round(ratio, 3), "cpu_over_smallest": round(cpu_ratio, 3)})
    for subject in subjects:
        subject.learner.close()
        subject.shard.close()
    return rows


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--arms", nargs="+", default=ARMS, help="a preset, with further arguments of laser train")
    options.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--repeats", type=int, default=11)
    options.add_argument("--eager", action="store_true", help="do not compile the loss")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    num_inserts, repeats = (1, 1) if arguments.quick else (2, arguments.repeats)
    rows = []
    for arm in arguments.arms:
        rows += bench(arm, arguments.items, not arguments.eager, num_inserts, repeats)
        print(*rows[-len(arguments.items) :], sep="\n", flush=True)
    lines = [
        f"{row['arm']}: {row['steps']:,} steps stored: {row['wall_us']} us per learner step, "
        f"{row['over_smallest']} of the smallest (CPU {row['cpu_over_smallest']})"
        for row in rows
    ]
    save("step_learning", vars(arguments), rows, lines)


if __name__ == "__main__":
    main()
