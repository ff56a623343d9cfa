"""What one learner step from single replayed steps costs, and how that grows with the replay.

    python benchmarks/step_learning.py [--presets racer ddpg ...] [--items N ...] [--eager] [--quick]

The whole step as a run does it: the draw, the batch, loss and optimiser, columns written back and Q-retrace swept every
so often. Per preset and size, median microseconds of wall time and of CPU time of all threads; on a busy machine the
second is the steadier. One step per env step is the paper's pace, so a million over it bounds the env steps per second.
"""

from __future__ import annotations

import statistics
import time
from typing import Any

import numpy as np
import torch
from measure import parser, save

from laser.environments import describe_environment
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from launch.presets import load_preset
from launch.program import member_settings, unroll_spec
from learner.learner import Learner
from learner.parameter_store import ParameterStore
from replay_server.shard import Shard

STEPS_PER_EPISODE = 1000
NUM_STREAMS = 50


def fill(shard: Shard, spec: UnrollSpec, num_steps: int) -> None:
    """Insert random experience in episodes of a thousand steps that end in truncation."""
    rng = np.random.default_rng(0)
    per_episode = STEPS_PER_EPISODE // spec.unroll_length
    for sequence in range(-(-num_steps // (spec.unroll_length * NUM_STREAMS))):
        fields: dict[str, np.ndarray] = {}
        for name, item in spec.fields.items():
            shape = (NUM_STREAMS, *spec.shape(name))
            fields[name] = np.zeros(shape, item.array.dtype)
            if item.array.dtype == "float32":
                fields[name][...] = 0.3 * rng.standard_normal(shape, np.float32)
        if "mu/std" in fields:
            fields["mu/std"][...] = 0.4
        fields["valid"][...] = True
        fields["first"][:, 0] = sequence % per_episode == 0
        if sequence % per_episode == per_episode - 1:
            fields["valid"][:, -1], fields["first"][:, -1] = False, True
        headers = np.zeros(NUM_STREAMS, HEADER_DTYPE)
        headers["environment"], headers["sequence"] = np.arange(NUM_STREAMS), sequence
        shard.insert(Unrolls(headers, fields)).result()


def bench(preset: str, num_steps: int, compiled: bool, num_calls: int, repeats: int) -> dict[str, Any]:
    """Return what one learner step costs."""
    values = {
        "replay.capacity-steps": num_steps,
        "replay.min-steps": 512,
        "num-envs": NUM_STREAMS,
        "runtime": "lockstep",
    }
    config = load_preset(preset, values | {"learner.compile": "on" if compiled else "off"})
    environment = describe_environment(config.env, config.environment)
    algorithm = config.algorithm.build(environment, config.network)
    spec = unroll_spec(config, environment, algorithm)
    shard = Shard(spec, config.replay, [member_settings(config, algorithm)])
    fill(shard, spec, num_steps)
    learner = Learner(algorithm, spec, shard, ParameterStore(), config.learner, "cpu", 0, prefetch=False)
    learner.warm_up()
    for _ in range(10):
        learner.step()
    walls, cpus = [], []
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in range(num_calls):
            learner.step()
        walls.append((time.perf_counter() - wall) / num_calls * 1e6)
        cpus.append((time.process_time() - cpu) / num_calls * 1e6)
    shard.close()
    row = {"preset": preset, "steps": num_steps, "compiled": compiled}
    return row | {"wall_us": round(statistics.median(walls)), "cpu_us": round(statistics.median(cpus))}


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--presets", nargs="+", default=["racer", "v_racer", "ddpg", "naf"])
    options.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--repeats", type=int, default=5)
    options.add_argument("--eager", action="store_true", help="do not compile the loss")
    arguments = options.parse_args()
    torch.set_num_threads(1)
    num_calls, repeats = (5, 1) if arguments.quick else (200, arguments.repeats)
    rows = []
    for preset in arguments.presets:
        for num_steps in arguments.items:
            rows.append(bench(preset, num_steps, not arguments.eager, num_calls, repeats))
            row = rows[-1]
            print(
                f"{preset:<10} {num_steps:>9,} steps {row['wall_us']:>7} us wall {row['cpu_us']:>7} us CPU", flush=True
            )
    lines = [f"{row['preset']}, {row['steps']:,} steps stored: {row['wall_us']} us per learner step" for row in rows]
    save("step_learning", vars(arguments), rows, lines)


if __name__ == "__main__":
    main()
