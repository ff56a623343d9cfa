"""The example of Ray Tune, in a process and with a Ray of its own."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from learner.checkpoint import load_newest_checkpoint

_PROGRAM = """
import json
import ray_tuner
from ray import tune

rates = tune.grid_search([3e-3, 3e-3, 1e-7, 1e-7])
found = ray_tuner.main(1, **{"steps": 4000, "algorithm.learning-rate": rates})
print(json.dumps([
    {"rate": one.config["algorithm.learning-rate"], "steps": one.metrics["env_steps"], "path": one.path,
     "error": str(one.error)}
    for one in found
]))
"""


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
    trials = json.loads(said.stdout.splitlines()[-1])
    assert [trial["error"] for trial in trials] == ["None"] * 4
    reached = {rate: [trial["steps"] for trial in trials if trial["rate"] == rate] for rate in (3e-3, 1e-7)}
    assert max(reached[3e-3]) >= 4000
    assert min(reached[1e-7]) < 4000
    (whole,) = [trial for trial in trials if trial["steps"] >= 4000][:1]
    (checkpoints,) = Path(whole["path"]).rglob("checkpoints")
    state = load_newest_checkpoint(checkpoints)[0].state
    assert state["recorder"]["totals"]["env_steps"] >= 4000
