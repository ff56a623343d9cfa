"""Env steps/s on Pong while learning: RLlib's IMPALA, LASER without replay and LASER with half of each batch replayed.

All sides have the same small network and preprocessing, and run alternately. Reports medians of the steady rate after a
warm-up, the ratios to RLlib, and LASER's share of the bound from pong_bound.py. Target: 2.3x RLlib without replay, 1.7x
with replay, and 0.8 of the bound. One env step is one agent decision, four frames.
"""

from __future__ import annotations

import shutil
import sqlite3
import sys
import tempfile
from contextlib import closing
from pathlib import Path

import measure
import peer_venv

# RLlib has no layer norm; the initialisation of filters does not change the speed.
SAME_NET = ("--network.layer-norm", "false")
# By side: command-line arguments, target ratio to RLlib.
LASER_SIDES = {
    "laser_no_replay": (["impala_pong"], 2.3),
    "laser_half_replayed": (["pong", "--algorithm.replay-fraction", "0.5", *SAME_NET], 1.7),
}
SHARE_OF_BOUND = 0.8


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--warm-up", type=float, default=30.0, help="first seconds of every side, which do not count")
    parser.add_argument("--window", type=float, default=60.0, help="measured seconds on RLlib's side")
    parser.add_argument("--steps", type=int, default=250_000, help="env steps of each run of LASER, warm-up included")
    parser.add_argument("--no-rllib", action="store_true", help="LASER alone, e.g. while making it faster")
    peer_venv.add_option(parser)
    options = parser.parse_args()
    if options.quick:
        options.repeats, options.warm_up, options.window, options.steps = 1, 8.0, 10.0, 50_000

    with tempfile.TemporaryDirectory() as place:
        kept = Path(place)

        def rllib(seed: int) -> dict:
            command = [peer_venv.peer_python("rllib", options.venvs), peer_venv.SCRIPTS / "rllib_impala_pong.py"]
            command += ["--warm-up", options.warm_up, "--window", options.window, "--seed", seed]
            return measure.run_json(command, timeout_s=options.warm_up + options.window + 300.0)

        def laser(name: str, words: list[str], seed: int) -> dict:
            run_dir = kept / name
            shutil.rmtree(run_dir, ignore_errors=True)
            command = [*measure.LASER, "train", *words, "--seed", seed, "--steps", options.steps]
            result = measure.run_json([*command, "--run-dir", run_dir, "--quiet", "--json"], timeout_s=1200.0)
            rate = measure.steady_rate(measure.read_ticks(run_dir), options.warm_up)
            return {**result, "whole_run": result["env_steps_per_second"], "env_steps_per_second": rate}

        sides = {} if options.no_rllib else {"rllib": rllib}
        for name, (words, _) in LASER_SIDES.items():
            sides[name] = lambda seed, name=name, words=words: laser(name, words, seed)
        results = measure.alternate(sides, options.repeats)

        rates = {name: measure.summarise(rows, "env_steps_per_second", "env steps/s") for name, rows in results.items()}
        conclusions = [f"{name}: {rate}" for name, rate in rates.items()]
        bounds = {}
        for name, (_, wanted) in LASER_SIDES.items():
            if "rllib" in rates:
                ratio = rates[name].median / rates["rllib"].median
                conclusions.append(f"{name} / rllib: {ratio:.2f}, to reach {wanted}")
            quick = ["--quick"] if options.quick else []
            command = [sys.executable, measure.ROOT / "benchmarks" / "pong_bound.py", kept / name, *quick]
            bounds[name] = bound = measure.run_json(command, timeout_s=600.0)
            share = rates[name].median / bound["bound_env_steps_per_second"]
            costs = ", ".join(f"{part} {1e6 * bound[part]:.0f}" for part in ("emulation", "inference", "learning"))
            conclusions.append(
                f"{name}: {share:.2f} of its bound of {bound['bound_env_steps_per_second']:,.0f} env steps/s "
                f"(microseconds of a core per env step: {costs}), to reach {SHARE_OF_BOUND}; "
                f"bottleneck: {bottleneck(kept / name)}"
            )
    measure.save("pong_throughput", vars(options), {"runs": results, "bounds": bounds}, conclusions)


def bottleneck(run_dir: Path) -> str:
    """Return the bottleneck that the run recorded most often."""
    path = f"{(run_dir / 'metrics.db').resolve().as_uri()}?mode=ro"
    # An unchanged note is not repeated, so each counts for the ticks until the next.
    query = "SELECT tick, value FROM notes JOIN names USING (id) WHERE name = 'bottleneck' ORDER BY tick"
    with closing(sqlite3.connect(path, uri=True)) as connection:
        notes = connection.execute(query).fetchall()
        (last,) = connection.execute("SELECT max(tick) + 1 FROM ticks").fetchone()
    lasted: dict[str, int] = {}
    for (tick, words), (following, _) in zip(notes, [*notes[1:], (last, "")], strict=True):
        part = words.partition(" (")[0]
        lasted[part] = lasted.get(part, 0) + following - tick
    return max(lasted, key=lambda part: lasted[part]) if lasted else "not recorded"


if __name__ == "__main__":
    main()
