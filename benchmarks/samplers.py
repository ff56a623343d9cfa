"""Cost of an update with each sampler, and its growth with the size of the replay.

    python benchmarks/samplers.py [--preset sac] [--samplers uniform per rank ners ero] [--items N ...] [--quick]

`alone` does everything in one thread, as lockstep runs do; `ahead` draws, decodes and scores in a thread beside the
update, as other runs do. The samplers take turns, and each is compared with uniform draws of the same turn: medians of
the ratios of wall time, and of CPU time over all threads, which is steadier on a busy machine. `redraw` is the cost of
choosing anew the steps that may be drawn, as ERO does after every evaluation. Target: NERS at most 1.6 times uniform,
and within 15 % from 10,000 to a million items.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch
from measure import parser, save
from step_learning import NUM_STREAMS, fill

from laser.ports import ColumnWrites, SampleRequest
from launch.factories import make_prioritizer
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from learner.learner import Learner
from learner.publishing.parameter_store import ParameterStore
from replay_server.serving.shard import Shard

MOST_RATIO, MOST_GROWTH = 1.6, 1.15


@dataclass
class Subject:
    """A filled replay and the learners that draw from it."""

    shard: Shard
    alone: Learner
    ahead: Learner

    def close(self) -> None:
        self.ahead.close()
        self.alone.close()
        self.shard.close()


def make_subject(preset: str, sampler: str, num_steps: int, compiled: str | None, batch: int) -> Subject:
    values: dict[str, object] = {
        "replay.capacity-steps": num_steps,
        "replay.min-steps": 1_000,
        "num-envs": NUM_STREAMS,
        "runtime": "lockstep",
        "replay.sampler": sampler,
        "algorithm.batch-size": batch,
    }
    if compiled:
        values["learner.compile"] = compiled
    config = load_preset(preset, values)
    member = plan_member(config)
    algorithm, spec = member.algorithm, member.own_unrolls
    shard = Shard(spec, config.replay, [member.replay])
    fill(shard, spec, num_steps)

    def learner(prefetch: bool) -> Learner:
        rule = make_prioritizer(member, "cpu")
        store = ParameterStore()
        return Learner(algorithm, spec, shard, store, config.learner, "cpu", 0, prioritizer=rule, prefetch=prefetch)

    subject = Subject(shard, learner(False), learner(True))
    for each in (subject.alone, subject.ahead):
        each.warm_up()
    time_of(subject.alone, 20)
    time_of(subject.ahead, 20)
    return subject


def time_of(learner: Learner, num_updates: int) -> tuple[float, float]:
    """Return seconds per update: wall time, and CPU time over all threads."""
    goal = learner.num_updates + num_updates
    wall, cpu = time.perf_counter(), time.process_time()
    if not learner.loader.is_ahead:
        learner.step(num_updates)
    while learner.num_updates < goal:
        learner.tick()
    return (time.perf_counter() - wall) / num_updates, (time.process_time() - cpu) / num_updates


def redraw_ms(subject: Subject) -> float:
    """Return milliseconds of one redraw."""
    sample = subject.shard.sample(SampleRequest(0, 1, view="steps")).result()
    values = {"ero_keep": np.full((1, 1), 0.5, np.float32)}
    times = []
    for _ in range(5):
        started = time.perf_counter()
        subject.shard.write(ColumnWrites(0, sample.keys, values, redraw=True)).result()
        times.append(time.perf_counter() - started)
    return 1e3 * statistics.median(times)


def main() -> None:
    """Measure and print."""
    options = parser(__doc__)
    options.add_argument("--preset", default="sac")
    options.add_argument("--samplers", nargs="+", default=["uniform", "per", "rank", "ners", "ero"])
    options.add_argument("--items", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    options.add_argument("--batch", type=int, default=128, help="steps per update; the paper's 128")
    options.add_argument("--compile", choices=("on", "off", "auto"), help="default: the preset's")
    options.add_argument("--turns", type=int, default=15)
    arguments = options.parse_args()
    torch.set_num_threads(1)
    items, num_updates, turns = arguments.items, 50, arguments.turns
    if arguments.quick:
        items, num_updates, turns = [10_000], 5, 2
    names = list(dict.fromkeys(["uniform", *arguments.samplers]))
    rows, lines = [], []
    for num_steps in items:
        subjects = {
            name: make_subject(arguments.preset, name, num_steps, arguments.compile, arguments.batch) for name in names
        }
        seconds: dict[tuple[str, str], list[tuple[float, float]]] = {
            (name, way): [] for name in names for way in ("alone", "ahead")
        }
        for _ in range(turns):
            for (name, way), times in seconds.items():
                times.append(time_of(getattr(subjects[name], way), num_updates))
        for (name, way), times in seconds.items():
            plain = seconds["uniform", way]
            wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
            ratio, cpu_ratio = (
                statistics.median(one[kind] / other[kind] for one, other in zip(times, plain, strict=True))
                for kind in (0, 1)
            )
            row = {"steps": num_steps, "sampler": name, "way": way, "us": round(1e6 * wall), "cpu_us": round(1e6 * cpu)}
            rows.append(row | {"over_uniform": round(ratio, 3), "cpu_over_uniform": round(cpu_ratio, 3)})
            lines.append(
                f"{num_steps:>9,} steps, {name:<8} {way:<6} {row['us']:>7} us, {ratio:.2f} of uniform; "
                f"CPU {row['cpu_us']:>7} us, {cpu_ratio:.2f}"
            )
            print(lines[-1], flush=True)
        if "ero" in subjects:
            lines.append(f"{num_steps:>9,} steps, ero      redraw {redraw_ms(subjects['ero']):9.2f} ms")
            print(lines[-1], flush=True)
        for subject in subjects.values():
            subject.close()
    lines += verdicts(rows)
    if not arguments.quick:
        save("samplers", vars(arguments), rows, lines)


def verdicts(rows: list[dict]) -> list[str]:
    """Return the conclusions on NERS' targets."""
    lines = []
    for way in ("alone", "ahead"):
        mine = [row for row in rows if (row["sampler"], row["way"]) == ("ners", way)]
        if not mine:
            continue
        worst, growth = max(row["over_uniform"] for row in mine), mine[-1]["us"] / mine[0]["us"]
        # Sizes are minutes apart: a slow phase of the machine, or the cost of a large replay, is in uniform draws, too.
        beside = mine[-1]["over_uniform"] / mine[0]["over_uniform"]
        lines.append(
            f"ners {way}: at most {worst:.2f} of uniform (to reach {MOST_RATIO}), largest replay over smallest "
            f"{growth:.2f}, beside uniform draws of the same turns {beside:.2f} (to reach {MOST_GROWTH})"
        )
        print(lines[-1], flush=True)
    return lines


if __name__ == "__main__":
    main()
