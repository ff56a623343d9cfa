"""Env steps per second of DDPG beside Stable-Baselines3's, and of RACER with a small replay and one of 2^19 steps.

    python benchmarks/ddpg_racer.py [--only ddpg | racer] [--repeats N] [--quick]

Hopper-v5, one update per env step. DDPG has 256x256 units and batches of 256 with plain replay on both sides, and with
ReF-ER too; LASER's matrix products are in bfloat16. SB3 runs with one torch thread and with two, and the faster run
counts. Target: twice SB3. RACER has the preset's four environments, 2x128 units, batches of 256 and ReF-ER. Target:
600 env steps/s, and less than 20 % slower with the large replay.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import measure
import peer_venv
from sac_td3 import Task, laser, sb3

TO_REACH, RACER_TO_REACH, RACER_SHARE = 2.0, 600.0, 0.8
# Products of this size take half the time in bfloat16, as in the presets sac and td3. One environment, as SB3 has.
DDPG_WORDS = (
    "--num-envs 1 --algorithm.batch-size 256 --network.hidden-sizes 256,256 --replay.samples-per-insert 256 "
    "--learner.precision bfloat16 --learner.publish-interval 4"
)
PLAIN = "--algorithm.refer.enabled no --replay.remover fifo"
UNIT = "env steps/s"


def ddpg(python: Path, repeats: int, num_steps: int, words: Sequence[str]) -> tuple[dict[str, list[dict]], list[str]]:
    """Run both sides of DDPG alternately; return all results and the conclusions."""
    task = Task("Hopper-v5", "", 256, 1e-3, random_steps=500)
    timed_from = 2 * task.random_steps

    def ours(more: str) -> Callable[[int], dict]:
        every = [*DDPG_WORDS.split(), *more.split(), *words]
        return lambda seed: laser("ddpg", task, seed, timed_from + num_steps, timed_from, 0, every)

    def theirs(threads: int) -> Callable[[int], dict]:
        return lambda seed: sb3(python, "ddpg", task, seed, timed_from + num_steps, timed_from, 0, threads)

    sides = {
        "plain replay": ours(PLAIN),
        "ReF-ER": ours(""),
        "sb3, 1 thread": theirs(1),
        "sb3, 2 threads": theirs(2),
    }
    rows = measure.alternate(sides, repeats)
    rates = {name: measure.summarise(side, "env_steps_per_second", UNIT) for name, side in rows.items()}
    best = max(rates["sb3, 1 thread"].median, rates["sb3, 2 threads"].median)
    conclusions = [f"DDPG, {name}: {rate}" for name, rate in rates.items()]
    ratios = {name: rates[name].median / best for name in ("plain replay", "ReF-ER")}
    conclusions += [f"DDPG, {name}: {ratio:.2f} times SB3, to reach {TO_REACH}" for name, ratio in ratios.items()]
    return rows, conclusions


def racer(
    repeats: int, num_steps: int, capacities: tuple[int, int], words: Sequence[str]
) -> tuple[dict[str, list[dict]], list[str]]:
    """Run RACER alternately with a small and a large replay, each nearly full before learning begins."""

    def with_capacity(capacity: int) -> Callable[[int], dict]:
        task = Task("Hopper-v5", "", 128, 1e-4, random_steps=capacity * 15 // 16)
        timed_from = task.random_steps + num_steps // 10
        more = ["--replay.capacity-steps", str(capacity), *words]
        return lambda seed: laser("racer", task, seed, timed_from + num_steps, timed_from, 0, more)

    names = [f"replay of {capacity:,}" for capacity in capacities]
    rows = measure.alternate({name: with_capacity(c) for name, c in zip(names, capacities, strict=True)}, repeats)
    small, large = (measure.summarise(rows[name], "env_steps_per_second", UNIT) for name in names)
    conclusions = [f"RACER, {name}: {rate}" for name, rate in zip(names, (small, large), strict=True)]
    conclusions.append(f"RACER: {small.median:.0f} {UNIT}, to reach {RACER_TO_REACH:.0f}")
    conclusions.append(f"RACER: {large.median / small.median:.2f} with the large replay, to reach {RACER_SHARE}")
    return rows, conclusions


def main() -> None:
    """Measure and print."""
    parser = measure.parser(__doc__)
    parser.add_argument("--only", choices=("ddpg", "racer"))
    parser.add_argument("--steps", type=int, default=10_000, help="timed env steps")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each side")
    parser.add_argument("--words", default="", help="arguments for laser train: --words='--learner.torch-threads 2'")
    peer_venv.add_option(parser)
    options = parser.parse_args()
    repeats, steps, capacities = options.repeats, options.steps, (2**14, 2**19)
    if options.quick:
        repeats, steps, capacities = 1, 1_000, (2**10, 2**12)
    results, conclusions = {}, []
    if options.only != "racer":
        results["ddpg"], found = ddpg(
            peer_venv.peer_python("sb3", options.venvs), repeats, steps, options.words.split()
        )
        conclusions += found
    if options.only != "ddpg":
        results["racer"], found = racer(repeats, steps, capacities, options.words.split())
        conclusions += found
    settings = {"steps": steps, "repeats": repeats, "words": options.words, "quick": options.quick}
    measure.save("ddpg_racer", settings, results, conclusions)


if __name__ == "__main__":
    main()
