"""SAC and TD3 beside Stable-Baselines3 with the same settings: env steps per second, or returns after 50,000 steps.

    python benchmarks/sac_td3.py speed      # Hopper-v5, 256x256, batches of 256, one update per env step
    python benchmarks/sac_td3.py returns    # Pendulum-v1 and Hopper-v5, greedy evaluation, several seeds

Speed runs alternate; SB3 runs with one torch thread, with two, and with two and as many updates at a time as LASER's
preset. The fastest counts. Target: 2.5 times SB3.
Runs for returns are made in parallel (`--jobs`). Target: a mean not below the 95 % interval of SB3's mean.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import measure
import peer_venv

from laser.environments.suite import split_seed
from laser.scoring.statistics import mean_interval
from launch.presets import load_preset

TO_REACH = 2.5
EVALUATION_SEED = 1_000


@dataclass(frozen=True)
class Task:
    """An environment with the settings of both sides.

    Args:
        env: environment id.
        suffix: of LASER's presets for the environment.
        hidden: width of both layers.
        learning_rate: of all networks.
        random_steps: random steps before learning.
    """

    env: str
    suffix: str
    hidden: int
    learning_rate: float
    random_steps: int


TASKS = {
    "Pendulum-v1": Task("Pendulum-v1", "_pendulum", 64, 1e-3, 1_000),
    "Hopper-v5": Task("Hopper-v5", "", 256, 3e-4, 10_000),
}


def laser(
    algorithm: str, task: Task, seed: int, steps: int, timed_from: int, episodes: int, words: Sequence[str]
) -> dict:
    """Train with LASER; return the rate of the timed part, and the evaluation's result if requested."""
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "run"
        command = [*measure.LASER, "train", algorithm + task.suffix, "--env", task.env, "--seed", seed]
        command += ["--steps", steps, "--replay.min-steps", task.random_steps, "--replay.capacity-steps", 1_000_000]
        command += ["--algorithm.learning-rate", task.learning_rate, "--run-dir", run_dir, "--quiet", "--json", *words]
        result = measure.run_json(command, timeout_s=4 * 3600.0)
        ticks = [tick for tick in measure.read_ticks(run_dir) if tick[1] >= timed_from]
        if len(ticks) > 1:
            (begun, first), (ended, last) = ticks[0], ticks[-1]
            result["env_steps_per_second"] = (last - first) / (ended - begun)
        result["updates_per_env_step"] = result["learner_steps"] / (result["env_steps"] - task.random_steps)
        if episodes:
            # One environment: its episodes begin as those of SB3's evaluation.
            command = [*measure.LASER, "eval", run_dir, "--episodes", episodes, "--seed", EVALUATION_SEED]
            command += ["--num-envs", 1, "--greedy", "--json"]
            result["evaluation_mean_return"] = measure.run_json(command, timeout_s=3600.0)["mean_return"]
    return result


def sb3(
    python: Path,
    algorithm: str,
    task: Task,
    seed: int,
    steps: int,
    timed_from: int,
    episodes: int,
    threads: int = 1,
    together: int = 1,
) -> dict:
    """Train with SB3, `together` updates after every `together` steps; return its result."""
    command: list[str | Path | float] = [python, peer_venv.SCRIPTS / "sb3_off_policy.py", "--algorithm", algorithm]
    command += ["--env", task.env, "--steps", steps, "--timed-from", timed_from, "--random-steps", task.random_steps]
    command += ["--learning-rate", task.learning_rate, "--hidden", task.hidden, "--seed", seed, "--threads", threads]
    command += ["--together", together]
    (first_reset,) = split_seed(EVALUATION_SEED, 1)  # the seed of LASER's one environment
    command += ["--episodes", episodes, "--evaluation-seed", first_reset]
    return measure.run_json(command, timeout_s=4 * 3600.0)


def speed(python: Path, algorithms: Sequence[str], repeats: int, num_steps: int, words: Sequence[str]) -> None:
    """Compare the speeds of both sides, run alternately; print and save."""
    task = Task("Hopper-v5", "", 256, 3e-4, random_steps=500)
    timed_from = 2 * task.random_steps
    results, conclusions = {}, []
    for algorithm in algorithms:
        shared: tuple[str, Task] = (algorithm, task)
        total = timed_from + num_steps

        def ours(seed: int, shared: tuple[str, Task] = shared, total: int = total) -> dict:
            return laser(*shared, seed, total, timed_from, 0, words)

        def theirs(
            threads: int, together: int = 1, shared: tuple[str, Task] = shared, total: int = total
        ) -> Callable[[int], dict]:
            return lambda seed: sb3(python, *shared, seed, total, timed_from, 0, threads, together)

        together = load_preset(algorithm).unroll_length
        sides = {"laser": ours, "sb3, 1 thread": theirs(1), "sb3, 2 threads": theirs(2)}
        sides[f"sb3, 2 threads, {together} updates at a time"] = theirs(2, together)
        rows = measure.alternate(sides, repeats)
        results[algorithm] = rows
        rates = {name: measure.summarise(side, "env_steps_per_second", "env steps/s") for name, side in rows.items()}
        best = max(rate.median for name, rate in rates.items() if name != "laser")
        pace = measure.summarise(rows["laser"], "updates_per_env_step", "updates per env step")
        conclusions += [f"{algorithm}, {name}: {rate}" for name, rate in rates.items()]
        conclusions.append(
            f"{algorithm}: {rates['laser'].median / best:.2f} times SB3, to reach {TO_REACH}; LASER made {pace}"
        )
    settings = {"steps": num_steps, "repeats": repeats, "words": words, "quick": num_steps < 10_000}
    measure.save("sac_td3_speed", settings, results, conclusions)


def returns(
    python: Path,
    algorithms: Sequence[str],
    envs: Sequence[str],
    seeds: range,
    steps: int,
    episodes: int,
    jobs: int,
    words: Sequence[str],
) -> None:
    """Compare the returns of both sides, run in parallel with one torch thread each; print and save."""
    results, conclusions = [], []
    words = ["--learner.torch-threads", "1", *words]
    with ThreadPoolExecutor(jobs) as pool:
        arms = [(algorithm, TASKS[env]) for algorithm in algorithms for env in envs]
        asked = {
            (algorithm, task.env): {
                "laser": [pool.submit(laser, algorithm, task, seed, steps, steps, episodes, words) for seed in seeds],
                "sb3": [pool.submit(sb3, python, algorithm, task, seed, steps, steps, episodes) for seed in seeds],
            }
            for algorithm, task in arms
        }
        for (algorithm, env), sides in asked.items():
            rows = {name: [future.result() for future in futures] for name, futures in sides.items()}
            results.append({"algorithm": algorithm, "env": env, **rows})
            scores = {name: [row["evaluation_mean_return"] for row in side] for name, side in rows.items()}
            ours, theirs = mean_interval(scores["laser"]), mean_interval(scores["sb3"])
            reached = "reached" if ours[0] >= theirs[0] - theirs[1] else "not reached"
            reached = reached if len(seeds) > 1 else "one run each decides nothing"
            conclusions.append(
                f"{algorithm} on {env} after {steps:,} env steps: LASER {ours[0]:.1f} +- {ours[1]:.1f}, "
                f"SB3 {theirs[0]:.1f} +- {theirs[1]:.1f} (mean, 95 % interval, n={len(seeds)}): {reached}"
            )
            late = {name: mean_interval([row["mean_return"] for row in side]) for name, side in rows.items()}
            means = ", ".join(f"{name} {mean:.1f} +- {half:.1f}" for name, (mean, half) in late.items())
            conclusions.append(f"{algorithm} on {env}, the last 20 training episodes: {means}")
            print(*conclusions[-2:], sep="\n", flush=True)
    settings = {"steps": steps, "seeds": list(seeds), "episodes": episodes, "words": words, "quick": steps < 50_000}
    measure.save("sac_td3_returns", settings, results, conclusions)


def main() -> None:
    """Measure and print."""
    parser = measure.parser(__doc__)
    parser.add_argument("mode", choices=("speed", "returns"))
    parser.add_argument("--algorithms", nargs="+", choices=("sac", "td3"), default=["sac", "td3"])
    parser.add_argument("--envs", nargs="+", choices=TASKS, default=list(TASKS), help="returns: environments")
    parser.add_argument("--steps", type=int, default=0, help="env steps; default: 10,000 (speed), 50,000 (returns)")
    parser.add_argument("--repeats", type=int, default=3, help="speed: runs of each side")
    parser.add_argument("--seeds", type=int, default=5, help="returns: runs of each side")
    parser.add_argument("--first-seed", type=int, default=1, help="returns: first seed, to add to earlier ones")
    parser.add_argument("--episodes", type=int, default=20, help="returns: evaluation episodes per run")
    parser.add_argument("--jobs", type=int, default=2, help="returns: runs in parallel")
    parser.add_argument("--words", default="", help="arguments for laser train: --words='--learner.torch-threads 2'")
    peer_venv.add_option(parser)
    options = parser.parse_args()
    python = peer_venv.peer_python("sb3", options.venvs)
    if options.mode == "speed":
        repeats, steps = (1, 1_000) if options.quick else (options.repeats, options.steps or 10_000)
        speed(python, options.algorithms, repeats, steps, options.words.split())
        return
    envs, num_seeds, steps = options.envs, options.seeds, options.steps or 50_000
    if options.quick:
        envs, num_seeds, steps = ["Pendulum-v1"], 1, options.steps or 2_000
    seeds = range(options.first_seed, options.first_seed + num_seeds)
    returns(python, options.algorithms, envs, seeds, steps, options.episodes, options.jobs, options.words.split())


if __name__ == "__main__":
    main()
