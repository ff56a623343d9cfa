"""Several runs or sweeps evaluated together: each as alone, and the mean over them."""

import json
import statistics
from types import SimpleNamespace

import numpy as np
import pytest

import laser
from laser.config import ConfigError
from laser.scoring.scores import find_reference
from launch.__main__ import main
from launch.errors import NothingToResumeError
from launch.evaluation.evaluate import evaluate
from launch.evaluation.several import RunsEvaluation, evaluate_runs

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
    assert task["interval"] is None, "two runs have none that means anything"
    assert f"{FIRST}, 2 runs: mean return {statistics.fmean(means):,.2f}\n" in printed.out
    assert found["summary"] is None


def test_games_are_summarised_by_normalised_scores(runs):
    found = evaluate_runs(list(runs.values()), episodes=4, quiet=True)
    scores = np.array([[find_reference(task).normalise(value) for value in found.means[task]] for task in found.means])
    assert found.summary["median"][0] == pytest.approx(np.median(scores.mean(1)))
    assert list(found.means) == [FIRST, SECOND]
    uneven = evaluate_runs(list(runs.values())[:3], episodes=4, quiet=True)
    assert uneven.summary is None
    assert list(uneven.means) == [FIRST, SECOND]


def test_the_interval_over_runs_is_students_from_three_runs_on():
    def of(values):
        tasks = [SimpleNamespace(tasks=[SimpleNamespace(id="a", mean_return=value)]) for value in values]
        return RunsEvaluation(tasks, []).intervals

    assert of([1.0, 2.0]) == {}
    # The half width is 4.303 (97.5 % of Student's with two degrees of freedom) deviations of the mean.
    assert of([1.0, 2.0, 3.0])["a"] == pytest.approx((2.0 - 4.3027 / 3**0.5, 2.0 + 4.3027 / 3**0.5), abs=1e-3)


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


SWEEP = {"grid": {}, "options": {}, "pbt": {}}


def test_mistakes_come_before_anything_is_played(runs, tmp_path, capsys):
    with pytest.raises(ConfigError, match="is named twice"):
        evaluate_runs([runs[FIRST, 1], runs[FIRST, 1]])
    with pytest.raises(NothingToResumeError, match="holds no run"):
        evaluate_runs([runs[FIRST, 1], tmp_path])
    (tmp_path / "config.json").write_text(
        json.dumps({**json.loads((runs[FIRST, 1] / "config.json").read_text()), "sweep": SWEEP})
    )
    with pytest.raises(ConfigError, match=r"is a sweep, and .* is a run; name runs, or sweeps"):
        evaluate_runs([runs[FIRST, 1], tmp_path])
    assert capsys.readouterr().out == ""


def test_sweeps_over_games_are_one_result(tmp_path, capsys):
    """Two settings on two games, twice: the best setting is that of the median over games, of each repeat."""
    paths, rates, places = [], [1e-3, 2e-3, 3e-3], set()
    for repeat in (3, 4):
        for env in (FIRST, SECOND):
            paths.append(tmp_path / f"{env[5:9]}{repeat}")
            base = laser.load_preset(
                "mini", {"env": env, "steps": 200, "seed": repeat, "run_dir": paths[-1], "quiet": True}
            )
            laser.sweep(laser.SweepConfig(base, {"algorithm.learning-rate": rates}))
    capsys.readouterr()
    assert main(["eval", *map(str, paths), "--episodes", "6", "--json"]) == 0
    printed = capsys.readouterr().out
    found = json.loads(printed.splitlines()[-1])
    assert [each["run_dir"] for each in found["sweeps"]] == list(map(str, paths))
    assert found["together"]["games"] == [FIRST, SECOND]
    best = []
    for repeat, sweeps in zip(found["together"]["repeats"], (paths[:2], paths[2:]), strict=True):
        scores = np.array(
            [
                [
                    find_reference(env).normalise(evaluate(path / "members" / str(number), 6, quiet=True).mean_return)
                    for number in range(3)
                ]
                for env, path in zip((FIRST, SECOND), sweeps, strict=True)
            ]
        )
        medians = np.median(scores, 0)
        best.append(float(medians.max()))
        assert repeat["score"] == pytest.approx(best[-1])
        assert repeat["best"] == f"algorithm.learning-rate={rates[int(medians.argmax())]}"
        places.add(int(medians.argmax()))
    assert places != {0}, "the data can tell the first member from the best"
    assert found["together"]["mean_score"] == pytest.approx(statistics.fmean(best))
    assert "over 2 games, 2 repeats with one sweep of each" in printed
