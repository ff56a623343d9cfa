"""CartPole-v1 to a mean return of 475 over 20 training episodes: LASER and Stable-Baselines3 PPO, alternately.

Prints env steps and training seconds (without imports and compilation on both sides) as medians over seeds. The
reference is SB3 PPO with the RL Zoo's tuned settings. Target: at most 25,000 env steps, and no slower than SB3.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import measure
import peer_venv

TARGET_ENV_STEPS = 25_000


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="repeats, each with another seed")
    parser.add_argument("--steps", type=int, default=100_000, help="env steps after which LASER gives up")
    peer_venv.add_option(parser)
    options = parser.parse_args()
    sb3_python = peer_venv.peer_python("sb3", options.venvs)

    def sb3(seed: int) -> dict:
        command = [sb3_python, peer_venv.SCRIPTS / "sb3_train.py", "--algorithm", "ppo", "--env", "CartPole-v1"]
        command += [
            "--steps",
            100_000,
            "--target",
            475,
            "--seed",
            seed,
            "--settings",
            json.dumps(peer_venv.PPO_CARTPOLE),
        ]
        return measure.run_json(command, timeout_s=600)

    def laser(seed: int) -> dict:
        with tempfile.TemporaryDirectory() as place:
            command = [*measure.LASER, "train", "cartpole", "--seed", str(seed), "--steps", str(options.steps)]
            command += ["--stop-at-return", "475", "--run-dir", str(Path(place) / "run"), "--quiet", "--json"]
            result = measure.run_json(command, timeout_s=600)
        return {**result, "solved": result["finished"] == "solved"}

    results = measure.alternate({"laser": laser, "sb3": sb3}, 1 if options.quick else options.seeds)
    env_steps = {name: measure.summarise(rows, "env_steps", "env steps") for name, rows in results.items()}
    seconds = {name: measure.summarise(rows, "seconds", "s") for name, rows in results.items()}
    unsolved = {name: sum(not row["solved"] for row in rows) for name, rows in results.items()}
    conclusions = [f"{name}: {env_steps[name]}, {seconds[name]}, {unsolved[name]} unsolved" for name in results]
    conclusions.append(
        f"LASER / SB3: {env_steps['laser'].median / env_steps['sb3'].median:.2f} of the env steps, "
        f"{seconds['laser'].median / seconds['sb3'].median:.2f} of the time; "
        f"to reach: {TARGET_ENV_STEPS:,} env steps, 1.00 of the time"
    )
    measure.save("cartpole", vars(options), results, conclusions)


if __name__ == "__main__":
    main()
