import dataclasses
import math
from pathlib import Path

import pytest

from launch.supervision.training_result import TrainResult
from launch.sweeps.sweep_progress import closing_table
from launch.sweeps.sweep_result import MemberResult, SweepResult


def sweep_of(*members):
    """Returns the result of a sweep from (mean return, normalised score) of each member."""
    one = TrainResult(100, 400, 1.0, 5, math.nan, 3, Path("members/0"), "steps")
    results = [dataclasses.replace(one, mean_return=mean, normalised_score=score) for mean, score in members]
    numbered = [MemberResult(number, {"seed": number}, number, result, "") for number, result in enumerate(results)]
    return SweepResult(numbered, 1.0, Path("run"), share_replay=True)


@pytest.mark.parametrize(
    ("members", "ranking"),
    [
        ([(1.0, None), (3.0, None), (math.nan, None), (2.0, None)], [1, 3, 0, 2]),
        ([(9000.0, 0.2), (10.0, 0.8), (math.nan, None), (500.0, -0.1)], [1, 0, 3, 2]),
        ([(1.0, 0.9), (3.0, None), (2.0, 0.1)], [1, 2, 0]),  # scores and returns are not compared
    ],
)
def test_members_are_ranked_by_normalised_scores_where_all_have_one(members, ranking):
    result = sweep_of(*members)
    assert [member.number for member in result.ranked] == ranking
    assert result.best.number == ranking[0]


def test_the_table_has_a_column_of_scores_where_there_are_some():
    with_scores = closing_table(sweep_of((9000.0, 0.25), (math.nan, None)), "").splitlines()
    assert with_scores[0].split() == ["member", "return", "normalised", "env", "steps", "ended", "settings"]
    assert with_scores[1].split() == ["0", "9,000.0", "0.250", "100", "steps", "seed=0"]
    assert with_scores[2].split() == ["1", "none", "100", "steps", "seed=1"]
    assert "normalised" not in closing_table(sweep_of((1.0, None)), "")


def test_what_to_try_next_can_be_pasted_into_a_shell(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my runs" / "s" / "members").mkdir(parents=True)
    result = dataclasses.replace(sweep_of((1.0, None)), run_dir=Path("my runs/s"))
    assert "laser sweep cartpole --resume --run-dir 'my runs/s' --steps 200" in closing_table(result, "cartpole")


def test_the_best_setting_stands_beside_the_best_member_in_the_json_and_in_the_table():
    result = sweep_of((500.0, None), (10.0, None), (300.0, None), (290.0, None))
    rates = [{"lr": 0.1}, {"lr": 0.1}, {"lr": 0.2}, {"lr": 0.2}]
    members = [dataclasses.replace(one, overrides=rate) for one, rate in zip(result.members, rates, strict=True)]
    result = dataclasses.replace(result, members=members)
    values = result.to_json()
    assert values["best_member"] == 0
    assert values["best_setting"]["settings"] == {"lr": "0.2"}
    assert values["best_setting"]["members"] == [2, 3]
    lines = closing_table(result, "").splitlines()
    assert lines.index("  lr=0.2: 295.0, 2 seeds") < lines.index("  lr=0.1: 255.0, 2 seeds")
    population = dataclasses.replace(result, members=[dataclasses.replace(members[0], settings={"lr": 0.4})])
    assert population.to_json()["best_setting"] is None
