"""LASER with continuous actions on HalfCheetah-v5 and Hopper-v5, several seeds each, 300,000 env steps.

Draws docs/pictures/ENV.png (halfcheetah, hopper) and compares an evaluation with a random policy's return. Target:
clear learning within 300,000 env steps.
"""

from __future__ import annotations

import curves
import measure

ENVIRONMENTS = {"halfcheetah": "HalfCheetah-v5", "hopper": "Hopper-v5"}


def main() -> None:
    parser = curves.parser(__doc__, 300_000, "mujoco")
    parser.add_argument("--preset", choices=ENVIRONMENTS, action="append", help="default: both")
    parser.add_argument("--seeds", type=int, default=3)
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.steps, options.episodes, options.pictures = 1, 10_000, 2, options.runs

    results, conclusions = [], []
    for name in options.preset or ENVIRONMENTS:
        env = ENVIRONMENTS[name]
        runs = [
            curves.Curve(
                "LASER",
                options.runs / f"{name}-seed-{seed}",
                f"{name} --seed {seed} --steps {options.steps}",
            )
            for seed in range(1, options.seeds + 1)
        ]
        random = random_return(env, options.episodes)
        rows = []
        for run in runs:
            row = curves.train_and_evaluate(run, options.episodes, timeout_s=2 * 3600.0, redraw=options.redraw)
            rows.append({**row, "env": env, "random_mean_return": random})
            score, minutes = row["evaluation_mean_return"], row["minutes"]
            print(f"{run.run_dir.name}: {score:.0f} after {minutes:.1f} minutes", flush=True)
        results += rows
        returns = measure.summarise(rows, "evaluation_mean_return", "return")
        took = measure.summarise(rows, "minutes", "minutes")
        conclusions.append(f"{env}: {returns} after {options.steps:,} env steps, {took}; random actions {random:.0f}")
        curves.draw(options.pictures / f"{name}.png", f"LASER on {env}", runs)
    measure.save("mujoco_learning", vars(options), results, conclusions)


def random_return(env: str, episodes: int) -> float:
    """Return the mean return of uniformly random actions."""
    import gymnasium

    environment = gymnasium.make(env)
    environment.action_space.seed(1)
    total = 0.0
    for episode in range(episodes):
        environment.reset(seed=episode)
        ended = False
        while not ended:
            _, reward, terminated, truncated, _ = environment.step(environment.action_space.sample())
            total += float(reward)
            ended = terminated or truncated
    environment.close()
    return total / episodes


if __name__ == "__main__":
    main()
