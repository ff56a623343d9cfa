"""The example of Ray Tune, in a process and with a Ray of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import optuna
import pytest

from learner.checkpoint import load_newest_checkpoint

_PROGRAM = """
import json
import ray_tuner
from ray import tune
from ray.tune.search.optuna import OptunaSearch

rates = tune.grid_search([3e-3, 3e-3, 1e-7, 1e-7])
found = ray_tuner.main(1, **{"steps": 4000, "algorithm.learning-rate": rates})
trials = [
    {"rate": one.config["algorithm.learning-rate"], "steps": one.metrics["env_steps"], "id": one.metrics["trial_id"],
     "error": str(one.error)}
    for one in found
]
searched = ray_tuner.main(2, OptunaSearch(seed=5), steps=600)
searched = [{**one.config, "reached": one.metrics["env_steps"]} for one in searched]
print(json.dumps([trials, searched]))  # last: Tune prints, too
"""


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.ray
@pytest.mark.timeout(400)
def test_trials_that_fall_behind_end_early_and_each_leaves_a_run(tmp_path):
    examples = Path(__file__).parents[2] / "docs" / "examples"
    # Tune's workers import the example, too.
    path = os.pathsep.join(filter(None, [str(examples), os.environ.get("PYTHONPATH", "")]))
    said = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        cwd=tmp_path, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, timeout=350, check=False,
    )  # fmt: skip
    assert said.returncode == 0, said.stderr[-3000:]
    trials, searched = json.loads(said.stdout.splitlines()[-1])
    assert [trial["error"] for trial in trials] == ["None"] * 4
    reached = {rate: [trial["steps"] for trial in trials if trial["rate"] == rate] for rate in (3e-3, 1e-7)}
    assert max(reached[3e-3]) >= 4000
    assert min(reached[1e-7]) < 4000
    (whole,) = [trial for trial in trials if trial["steps"] >= 4000][:1]
    state = load_newest_checkpoint(tmp_path / "ray_runs" / whole["id"] / "checkpoints")[0].state
    assert state["recorder"]["totals"]["env_steps"] >= 4000
    assert all(600 <= trial["reached"] < 4000 for trial in searched)
    rates = {trial["algorithm.learning-rate"] for trial in searched}
    assert rates == first_rates(seed=5, num_trials=2)


def first_rates(seed, num_trials):
    """Return the first learning rates that Optuna itself chooses in the example's space."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed))
    space = {
        "algorithm.learning-rate": optuna.distributions.FloatDistribution(1e-4, 1e-2, log=True),
        "algorithm.entropy-cost": optuna.distributions.FloatDistribution(0.0, 0.05),
        "seed": optuna.distributions.IntDistribution(0, 2**31 - 1),
    }
    return {study.ask(space).params["algorithm.learning-rate"] for _ in range(num_trials)}
