"""Pong from pixels: learning curves of LASER with several seeds, sticky actions off and on.

Draws docs/pictures/pong.png. Each run stops at a mean training return of 18 or at its env steps, and is then evaluated
over 20 episodes. Target: an evaluation of 15 or more within 2.5 million env steps and 40 minutes, better within
1.5 million and 25 minutes.
"""

from __future__ import annotations

import curves
import measure

# Fresh experience is 16 updates old with the preset's 32 environments, 9 with 8, which helps with sticky actions.
STICKY = {"off": "--environment.sticky-actions 0", "on": "--environment.sticky-actions 0.25 --num-envs 8"}


def main() -> None:
    parser = curves.parser(__doc__, 2_500_000, "pong")
    parser.add_argument("--seeds", type=int, default=3, help="runs per setting")
    parser.add_argument("--sticky-actions", choices=("off", "on", "both"), default="both")
    parser.add_argument("--stop-at-return", type=float, default=18.0)
    options = parser.parse_args()
    if options.quick:
        options.seeds, options.steps, options.episodes, options.sticky_actions = 1, 20_000, 2, "off"
        options.pictures = options.runs

    wanted = tuple(STICKY) if options.sticky_actions == "both" else (options.sticky_actions,)
    runs = [
        curves.Curve(
            f"sticky actions {sticky}",
            options.runs / f"sticky-{sticky}-seed-{seed}",
            f"pong --seed {seed} --steps {options.steps} --stop-at-return {options.stop_at_return} " + STICKY[sticky],
        )
        for seed in range(1, options.seeds + 1)
        for sticky in wanted
    ]
    if options.redraw:
        runs = [run for run in runs if run.run_dir.is_dir()]
    results = []
    for run in runs:
        result = curves.train_and_evaluate(run, options.episodes, timeout_s=3 * 3600.0, redraw=options.redraw)
        results.append(result)
        print(
            f"{run.run_dir.name}: {result['evaluation_mean_return']:.1f} over {options.episodes} episodes after "
            f"{result['env_steps'] / 1e6:.2f}M env steps, {result['minutes']:.1f} minutes",
            flush=True,
        )
    conclusions = []
    for label in dict.fromkeys(run.label for run in runs):
        rows = [result for result in results if result["label"] == label]
        for key, unit in (("evaluation_mean_return", "return"), ("env_steps", "env steps"), ("minutes", "minutes")):
            conclusions.append(f"{label}, {key}: {measure.summarise(rows, key, unit)}")
        reached = sum(row["evaluation_mean_return"] >= 15.0 and row["minutes"] <= 40.0 for row in rows)
        conclusions.append(f"{label}: {reached} of {len(rows)} reached 15 within 40 minutes")
    curves.draw(options.pictures / "pong.png", "LASER on ALE/Pong-v5 from pixels", runs, goal=18.0)
    measure.save("pong_learning", vars(options), results, conclusions)


if __name__ == "__main__":
    main()
