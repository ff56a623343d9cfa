"""ACER and Reactor: env steps until tasks are solved, and env steps/s beside LASER on the same network and replay.

LASER replays the same number of steps per env step, in updates of about the same size, with the same torso and unrolls;
the two run alternately. Target: CartPole-v1 at 475 within 40,000 env steps (ACER) and 80,000 (Reactor), Pendulum-v1 at
-250, and 0.7 of LASER's env steps/s.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import measure

from launch.presets import find_presets, load_preset
from launch.settings.train_config import TrainConfig
from launch.settings.values import find_leaves, show

# The return at which a task counts as solved, and the largest number of env steps until then.
GOALS = {"acer_cartpole": (475.0, 40_000), "reactor_cartpole": (475.0, 80_000), "acer_pendulum": (-250.0, 60_000)}


def laser_like(config: TrainConfig) -> list[str]:
    """Return the arguments of a LASER run with the same amount of replay and the same network."""
    algorithm = config.algorithm
    ratio = algorithm.replays_per_batch
    # Fresh batches and the replayed ones after each become one kind of batch, with the replayed ones' size in it.
    batch_size = round(algorithm.batch_size * (1.0 + ratio) / ratio) if ratio else algorithm.batch_size
    fraction = ratio / (1.0 + ratio) if ratio else algorithm.replay_fraction
    values = {
        "env": config.env,
        "num-envs": config.num_envs,
        "unroll-length": config.unroll_length,
        "algorithm.batch-size": batch_size,
        "algorithm.replay-fraction": fraction,
        **{leaf.key: leaf.value for leaf in find_leaves(config.network, "network.")},
        **{leaf.key: leaf.value for leaf in find_leaves(config.replay, "replay.")},
    }
    return ["cartpole", *(word for key, value in values.items() for word in (f"--{key}", show(value)))]


def run(words: list[str], steps: int, goal: float, seed: int) -> dict:
    """Train once, from the command line."""
    with tempfile.TemporaryDirectory() as place:
        options = ["--steps", steps, "--seed", seed, "--stop-at-return", goal, "--run-dir", Path(place) / "run"]
        return measure.run_json([*measure.LASER, "train", *words, *options, "--quiet", "--json"], timeout_s=3600)


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--presets", nargs="+", default=[name for name in GOALS if name in find_presets()])
    parser.add_argument("--seeds", type=int, default=5, help="runs per preset until it is solved")
    parser.add_argument("--first-seed", type=int, default=11, help="first seed; presets were tuned on lower ones")
    parser.add_argument("--repeats", type=int, default=5, help="timed runs per side")
    parser.add_argument("--timed-steps", type=int, default=20_000, help="env steps of a timed run")
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.repeats, options.timed_steps = 0, 1, 2_000
    results: dict[str, dict] = {}
    conclusions = []
    for name in options.presets:
        goal, limit = GOALS[name]
        solving = [
            run([name], limit, goal, seed) for seed in range(options.first_seed, options.first_seed + options.seeds)
        ]
        timed = measure.alternate(
            {
                name: lambda seed, name=name: run([name], options.timed_steps, float("inf"), seed),
                "laser": lambda seed, name=name: run(
                    laser_like(load_preset(name)), options.timed_steps, float("inf"), seed
                ),
            },
            options.repeats,
        )
        results[name] = {"solving": solving, "timed": timed}
        if solving:
            solved = sum(row["finished"] == "solved" for row in solving)
            needed = measure.summarise(solving, "env_steps", "env steps")
            conclusions.append(f"{name}: {solved} of {len(solving)} reach {goal:g}; {needed}; to reach: {limit:,}")
        rates = {side: measure.summarise(rows, "env_steps_per_second", "env steps/s") for side, rows in timed.items()}
        ratio = rates[name].median / rates["laser"].median
        conclusions.append(f"{name}: {rates[name]}; laser: {rates['laser']}; {ratio:.2f} of it, to reach: 0.7")
    measure.save("q_actors", vars(options), results, conclusions)


if __name__ == "__main__":
    main()
