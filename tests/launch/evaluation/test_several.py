"""Several runs evaluated together: each as alone, and the mean over them."""

import json
import statistics

import numpy as np
import pytest

import laser
from laser.config import ConfigError
from laser.scoring.scores import find_reference
from launch.__main__ import main
from launch.errors import NothingToResumeError
from launch.evaluation.evaluate import evaluate
from launch.evaluation.several import evaluate_runs

FIRST, SECOND = "mini/Catch-v0", "mini/SparseCatch2-v0"


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Two seeds on each of two games."""
    made = {}
    for env in (FIRST, SECOND):
        for seed in (1, 2):
            path = tmp_path_factory.mktemp("run") / f"{env[5:9]}{seed}"
            laser.train(
                laser.load_preset("mini", {"env": env, "steps": 200, "seed": seed, "run_dir": path, "quiet": True})
            )
            made[env, seed] = path
    return made


def test_each_is_as_alone_and_the_mean_is_over_runs(runs, capsys):
    paths = [runs[FIRST, 1], runs[FIRST, 2]]
    assert main(["eval", *map(str, paths), "--episodes", "6", "--json"]) == 0
    printed = capsys.readouterr()
    found = json.loads(printed.out.splitlines()[-1])
    alone = [evaluate(path, 6, quiet=True) for path in paths]
    assert [each["returns"] for each in found["runs"]] == [each.returns for each in alone]
    means = [each.mean_return for each in alone]
    (task,) = found["tasks"].values()
    assert task["mean_returns"] == means
    assert task["mean_return"] == pytest.approx(statistics.fmean(means))
    assert min(means) <= task["interval"][0] <= task["mean_return"] <= task["interval"][1] <= max(means)
    assert f"{FIRST}, 2 runs: mean return {statistics.fmean(means):,.2f}" in printed.out
    assert found["summary"] is None


def test_games_are_summarised_by_normalised_scores(runs):
    found = evaluate_runs(list(runs.values()), episodes=4, quiet=True)
    scores = np.array([[find_reference(task).normalise(value) for value in found.means[task]] for task in found.means])
    assert found.summary["median"][0] == pytest.approx(np.median(scores.mean(1)))
    assert list(found.means) == [FIRST, SECOND]
    uneven = evaluate_runs(list(runs.values())[:3], episodes=4, quiet=True)
    assert uneven.summary is None
    assert list(uneven.intervals) == [FIRST]


def test_a_run_that_cannot_play_does_not_hold_up_the_others(runs, tmp_path, capsys):
    (tmp_path / "broken").mkdir()
    record = (runs[FIRST, 1] / "config.json").read_text()
    (tmp_path / "broken" / "config.json").write_text(record)
    found = evaluate_runs([tmp_path / "broken", runs[FIRST, 1]], episodes=2)
    assert len(found.played) == 1
    assert "no checkpoint" in found.failed[0].error
    assert "warning: " in capsys.readouterr().err
    assert found.to_json()["runs"][1] == found.failed[0].to_json()
    with pytest.raises(NothingToResumeError, match="no checkpoint"):
        evaluate_runs([tmp_path / "broken"], quiet=True)


def test_mistakes_come_before_anything_is_played(runs, tmp_path, capsys):
    with pytest.raises(ConfigError, match="is named twice"):
        evaluate_runs([runs[FIRST, 1], runs[FIRST, 1]])
    with pytest.raises(NothingToResumeError, match="holds no run"):
        evaluate_runs([runs[FIRST, 1], tmp_path])
    (tmp_path / "config.json").write_text(
        json.dumps({**json.loads((runs[FIRST, 1] / "config.json").read_text()), "sweep": {}})
    )
    with pytest.raises(ConfigError, match="is a sweep; evaluate it alone: laser eval"):
        evaluate_runs([runs[FIRST, 1], tmp_path])
    assert capsys.readouterr().out == ""
