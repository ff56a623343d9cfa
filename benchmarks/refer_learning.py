"""RACER, DDPG with ReF-ER and PPO on Hopper-v5, one run each: learning curves.

The constants are those of the paper's table 1. Settings in steps (annealing, the replay and its warm-up) are rescaled
from its ten million steps to a run of this length; learning rates are larger, and were not tuned. Runs are in lockstep,
two at a time. Draws docs/pictures/hopper_refer.png and compares an evaluation with a random policy's return. At the
paper's length, without rescaling: `laser train racer`, `ddpg` and `ppo`.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import curves
import measure
from mujoco_learning import random_return

ENV = "Hopper-v5"
_ANNEALED = 5.0  # over the whole run: 5e-7 per update, and the paper makes one update per env step
_REFER = "--replay.capacity-steps 131072 --replay.min-steps {warm_up} --algorithm.refer.annealing {annealing}"
PRESETS = {
    "RACER": f"racer --num-envs 1 --algorithm.learning-rate 3e-4 {_REFER}",
    "DDPG with ReF-ER": f"ddpg --num-envs 1 --algorithm.learning-rate 3e-4 --algorithm.actor-rate 0.3 {_REFER}",
    "PPO": "ppo --algorithm.learning-rate 3e-4",
}


def main() -> None:
    parser = curves.parser(__doc__, 200_000, "refer")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.quick:
        options.steps, options.episodes, options.pictures = 6_000, 2, options.runs

    rescaled = {"warm_up": min(10_000, options.steps // 5), "annealing": _ANNEALED / options.steps}
    common = f"--runtime lockstep --seed {options.seed} --steps {options.steps}"
    runs = [
        curves.Curve(label, options.runs / words.partition(" ")[0], f"{words.format(**rescaled)} {common}")
        for label, words in PRESETS.items()
    ]

    def make(run: curves.Curve) -> dict:
        row = curves.train_and_evaluate(run, options.episodes, timeout_s=4 * 3600.0, redraw=options.redraw)
        print(f"{run.label}: {row['evaluation_mean_return']:.0f} after {row['minutes']:.1f} minutes", flush=True)
        return row

    with ThreadPoolExecutor(2) as pool:
        rows = list(pool.map(make, runs))
    random = random_return(ENV, options.episodes)
    conclusions = [
        f"{row['label']}: {row['evaluation_mean_return']:.0f} over {options.episodes} evaluation episodes after "
        f"{options.steps:,} env steps, {row['minutes']:.1f} minutes beside another; random actions {random:.0f}"
        for row in rows
    ]
    curves.draw(options.pictures / "hopper_refer.png", f"Single-step replay with ReF-ER, and PPO, on {ENV}", runs)
    measure.save("refer_learning", vars(options), rows, conclusions)


if __name__ == "__main__":
    main()
