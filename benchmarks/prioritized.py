"""Cost of a prioritised draw and of the following priority update: the sum tree alone, and through a shard.

    python benchmarks/prioritized.py [--items N ...] [--batch B] [--repeats R] [--quick]

Reports the median over repeats of the microseconds for one draw of a batch and one write of as many weights. CPU time
of the thread is reported beside wall time, which a busy machine disturbs more. Target: 150 microseconds for a million
items and batches of 256 (cpprb 285, a vectorised binary tree in NumPy 175).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import numpy as np
from measure import parser, save

from laser.ports import ColumnSpec, ColumnWrites, SampleRequest
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.samplers.sum_tree import SumTree
from replay_server.serving.shard import Shard

UNROLL_LENGTH = 20


def time_of(call: Callable[[], None], num_calls: int, repeats: int) -> tuple[float, float]:
    """Return median wall and thread CPU microseconds per call."""
    walls, cpus = [], []
    call()
    for _ in range(repeats):
        wall, cpu = time.perf_counter(), time.thread_time()
        for _ in range(num_calls):
            call()
        walls.append((time.perf_counter() - wall) / num_calls * 1e6)
        cpus.append((time.thread_time() - cpu) / num_calls * 1e6)
    return statistics.median(walls), statistics.median(cpus)


def bench_tree(num_items: int, batch: int, num_calls: int, repeats: int) -> tuple[float, float]:
    rng = np.random.default_rng(0)
    tree = SumTree(num_items)
    tree.write(np.arange(num_items), rng.random(num_items))
    weights = rng.random(batch)

    def draw_and_write() -> None:
        tree.write(tree.draw(batch, rng), weights)

    return time_of(draw_and_write, num_calls, repeats)


def bench_shard(num_items: int, batch: int, num_calls: int, repeats: int, sampler: str) -> tuple[float, float]:
    """Measure a shard whose steps are one number each, so that only the replay's own work counts."""
    environment = EnvironmentSpec("Steps", {"observation": VectorSpec((1,))}, DiscreteActions(2))
    spec = UnrollSpec(UNROLL_LENGTH, environment, {"logits": ArraySpec((2,))})
    members = [MemberSettings(0, columns=(ColumnSpec("priority", 1.0),))]
    shard = Shard(spec, ReplayConfig(capacity_steps=num_items, sampler=sampler), members)
    num_streams = 500
    fields = {name: np.zeros((num_streams, *spec.shape(name)), f.array.dtype) for name, f in spec.fields.items()}
    fields["valid"][:] = True
    for sequence in range(num_items // (num_streams * UNROLL_LENGTH)):
        headers = np.zeros(num_streams, HEADER_DTYPE)
        headers["environment"], headers["sequence"] = np.arange(num_streams), sequence
        shard.insert(Unrolls(headers, fields)).result()
    rng = np.random.default_rng(0)
    request = SampleRequest(0, batch, view="steps", n_step=1, discount=0.99)
    values = {"priority": rng.random((batch, 1), np.float32)}

    def draw_and_write() -> None:
        sample = shard.sample(request).result()
        shard.write(ColumnWrites(0, sample.keys, values)).result()

    measured = time_of(draw_and_write, num_calls, repeats)
    shard.close()
    return measured


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--batch", type=int, default=256)
    options.add_argument("--repeats", type=int, default=20)
    arguments = options.parse_args()
    num_calls, repeats = (10, 2) if arguments.quick else (300, arguments.repeats)
    rows = []
    for num_items in arguments.items:
        for what in ("tree", "per", "uniform"):
            if what == "tree":
                wall, cpu = bench_tree(num_items, arguments.batch, num_calls, repeats)
            else:
                wall, cpu = bench_shard(num_items, arguments.batch, num_calls, repeats, what)
            rows.append({"what": what, "items": num_items, "wall_us": round(wall, 1), "cpu_us": round(cpu, 1)})
            print(f"{num_items:>9,} items, {what:<12} {wall:7.1f} us wall {cpu:7.1f} us CPU")
    if not arguments.quick:
        save(
            "prioritized", vars(arguments), rows, [f"{row['items']}: {row['what']} {row['wall_us']} us" for row in rows]
        )


if __name__ == "__main__":
    main()
