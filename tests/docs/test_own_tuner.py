import importlib
import json
import os
import subprocess
import sys

import pytest

import laser
from learner.checkpoint import load_newest_checkpoint


@pytest.fixture
def module(examples):
    return importlib.import_module("own_tuner")


def steps_of(study_dir, seed):
    records = study_dir.glob("runs/*/config.json")
    (path,) = (path for path in records if json.loads(path.read_text())["config"]["seed"] == seed)
    return int(load_newest_checkpoint(path.parent / "checkpoints")[0].state["recorder"]["totals"]["env_steps"])


def test_trials_fall_behind_and_end_early(module, quick, tmp_path):
    study = module.main(6, sampler_seed=0, **quick | {"steps": 2000})
    states = [trial.state.name for trial in study.trials]
    assert states[:3] == ["COMPLETE"] * 3, "the pruner waits for three trials"
    assert set(states) == {"COMPLETE", "PRUNED"}
    reached: dict[str, list[int]] = {"COMPLETE": [], "PRUNED": []}
    for trial in study.trials:
        reached[trial.state.name].append(steps_of(tmp_path, trial.number))
        assert next(iter(trial.intermediate_values)) == 1
    assert min(reached["COMPLETE"]) >= 2000
    assert min(reached["PRUNED"]) < 2000, "the last report may prune, too"
    assert study.best_value == max(trial.value for trial in study.trials if trial.state.name == "COMPLETE")


def test_trials_train_at_the_same_time_in_threads(module, quick, tmp_path):
    study = module.main(3, 2, **quick)
    assert [trial.state.name for trial in study.trials] == ["COMPLETE"] * 3
    assert all(steps_of(tmp_path, number) >= 1000 for number in range(3))


def test_processes_that_begin_at_once_share_the_study(module, quick, tmp_path, examples):
    program = f"import own_tuner; own_tuner.main(2, **{quick})"
    begun = [
        subprocess.Popen(
            [sys.executable, "-c", program], cwd=tmp_path, env={**os.environ, "PYTHONPATH": _path(examples)},
            stderr=subprocess.PIPE, text=True,
        )
        for _ in range(2)
    ]  # fmt: skip
    for process in begun:
        _, said = process.communicate(timeout=100)
        assert process.returncode == 0, said[-2000:]
    trials = module.main(1, **quick).trials
    assert len(trials) == 5
    assert {trial.state.name for trial in trials} <= {"COMPLETE", "PRUNED"}  # the pruner begins with the fourth
    assert len({tuple(trial.params.values()) for trial in trials}) == 5, "two processes tried the same settings"
    assert all(steps_of(tmp_path, number) >= 1000 for number in range(5))


def _path(examples):
    return os.pathsep.join(filter(None, [str(examples), os.environ.get("PYTHONPATH", "")]))


def test_another_start_adds_trials_to_the_study(module, quick):
    module.main(1, **quick)
    assert len(module.main(1, **quick).trials) == 2


def test_a_callback_that_does_not_prune_leaves_the_run_alone(module, quick):
    class Trial:
        number = 0
        reports: list = []  # noqa: RUF012

        def report(self, value, step):
            self.reports.append((step, value))

        def should_prune(self):
            return False

    pruning = module.Pruning(Trial(), interval=300)
    result = laser.train(laser.load_preset("cartpole", quick), callbacks=[pruning])
    assert result.finished == "steps"
    assert not pruning.is_pruned
    assert [step for step, _ in Trial.reports] == [1, 2, 3]
