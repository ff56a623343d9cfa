"""A sweep of four members with one shared replay beside one with a replay each: memory, env steps per second, pace.

    python benchmarks/sweep_sharing.py [--runtime lockstep | local] [--repeats N] [--quick]

Both sweeps run alternately, for the same env steps. The rate is all members' env steps per second once all of them
learn. Memory is the bytes that the shards report, with room for 100,000 env steps per replay. The gap is the largest
distance between two members at a moment, as a share of the run.

Target with one replay: at most 0.35 of the memory, at least 0.9 of the rate, no gap above 5 %.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

import measure
import numpy as np

from launch.records.metrics_db import read_series

NUM_MEMBERS = 4
MEMORY, RATE, GAP = 0.35, 0.9, 0.05


def sweep(preset: str, words: list[str], share: bool, seed: int) -> dict:
    """Run one sweep of `NUM_MEMBERS` seeds and return its rate, its replays' memory and its widest gap."""
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "sweep"
        command = [*measure.LASER, "sweep", preset, "--seeds", NUM_MEMBERS, "--seed", seed, "--run-dir", run_dir]
        command += ["--share-replay" if share else "--no-share-replay", "--stop-at-return", "inf", "--json", *words]
        done = measure.run_json(command, timeout_s=3600.0)
        members = sorted((run_dir / "members").iterdir())
        ticks = [measure.read_ticks(member) for member in members]
        held = [read_series(member / "metrics.db", "replay/memory_bytes")[-1][1] for member in members]
    return {
        **{key: done[key] for key in ("load_before", "wall_s")},
        "env_steps_per_second": _rate(ticks),
        "replay_mb": (held[0] if share else sum(held)) / 1e6,
        "gap": _gap(ticks),
    }


def _positions(ticks: list[list[tuple[float, int]]]) -> tuple[np.ndarray, np.ndarray]:
    """Return times [N] and members' env steps [members, N], from when all have begun until the first has finished."""
    begin = max(next(time for time, steps in member if steps > 0) for member in ticks)
    end = min(member[-1][0] for member in ticks)
    times = np.linspace(begin, end, 200)
    return times, np.array([np.interp(times, *np.array(member).T) for member in ticks])


def _rate(ticks: list[list[tuple[float, int]]]) -> float:
    times, positions = _positions(ticks)
    # The first tenth goes to compilation and to replays that are not yet drawn from.
    first, total = len(times) // 10, positions.sum(0)
    return float((total[-1] - total[first]) / (times[-1] - times[first]))


def _gap(ticks: list[list[tuple[float, int]]]) -> float:
    _, positions = _positions(ticks)
    return float(np.ptp(positions, axis=0).max() / positions.max())


def main() -> None:
    """Measure and print."""
    parser = measure.parser(__doc__)
    parser.add_argument("--preset", default="cartpole")
    parser.add_argument("--runtime", choices=("lockstep", "local"), help="default: both, one after the other")
    parser.add_argument("--steps", type=int, default=40_000, help="env steps per member")
    parser.add_argument("--repeats", type=int, default=5, help="sweeps of each side")
    options = parser.parse_args()
    repeats, steps = (1, 3_000) if options.quick else (options.repeats, options.steps)
    results, conclusions = {}, []
    for runtime in [options.runtime] if options.runtime else ["lockstep", "local"]:
        # In a replay of this size the members' own queues of fresh unrolls take a good part of the memory.
        words = ["--steps", str(steps), "--runtime", runtime, "--replay.capacity-steps", "100000"]

        def side(share: bool, words: list[str] = words) -> Callable[[int], dict]:
            return lambda seed: sweep(options.preset, words, share, seed)

        rows = measure.alternate({"one replay": side(True), "a replay each": side(False)}, repeats)
        results[runtime] = rows
        ratios = {
            key: measure.Summary(tuple(one[key] / each[key] for one, each in zip(*rows.values(), strict=True)))
            for key in ("env_steps_per_second", "replay_mb")
        }
        gap = max(row["gap"] for side_rows in rows.values() for row in side_rows)
        conclusions += [
            *(
                f"{runtime}: {name}: {measure.summarise(row, 'env_steps_per_second', 'env steps/s')}"
                for name, row in rows.items()
            ),
            f"{runtime}: {ratios['env_steps_per_second']} of the rate with one replay, to reach {RATE}",
            f"{runtime}: {ratios['replay_mb']} of the replays' memory, to reach {MEMORY}",
            f"{runtime}: members at most {100 * gap:.1f} % of the run apart, to reach {100 * GAP:g} %",
        ]
    settings = {"preset": options.preset, "steps": steps, "repeats": repeats, "quick": options.quick}
    measure.save("sweep_sharing", settings, results, conclusions)


if __name__ == "__main__":
    main()
