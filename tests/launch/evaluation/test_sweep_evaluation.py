import dataclasses
import json
import math
import shutil

import numpy as np
import pytest

from launch.errors import NothingToResumeError
from launch.evaluation.evaluate import evaluate
from launch.evaluation.sweep_evaluation import MemberRecord, read_best_curve
from launch.formats import short
from launch.presets import change, load_preset
from launch.records.metrics_db import MetricsDb
from launch.records.settings_schedule import SCHEDULE_NAME, SettingsChange, write_changes
from launch.records.tick import Tick
from launch.standard_output import finite
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.sweep_progress import closing_table


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    base = change(
        load_preset("cartpole"),
        {
            "env": "mini/Catch-v0",
            "steps": 600,
            "quiet": True,
            "runtime": "lockstep",
            "num_envs": 4,
            "replay.capacity-steps": 2000,
            "replay.min-steps": 128,
            "stop_at_return": math.inf,
        },
    )
    base = dataclasses.replace(base, run_dir=tmp_path_factory.mktemp("runs") / "sweep")
    grid = {"algorithm.learning-rate": [3e-3, 1e-3, 1e-5]}
    result = sweep(SweepConfig(base, grid, SweepOptions(share_replay=True)))
    assert result.best_curve is not None
    assert vars(result.best_curve) == result.to_json()["best_curve"]
    assert "point-wise best while training, normalised median" in closing_table(result, "")
    return result.run_dir


def test_a_member_is_listed_with_the_settings_that_a_population_changed(swept, tmp_path, capsys):
    """Whoever copies the winner's settings needs those that it ended with."""
    place = shutil.copytree(swept, tmp_path / "sweep")
    changes = [
        SettingsChange(100, {"algorithm.learning-rate": 2e-4}),
        SettingsChange(200, {"algorithm.entropy-cost": 0.5}),
    ]
    write_changes(place / "members" / "1" / SCHEDULE_NAME, changes)
    result = evaluate(place, 2)
    assert f"algorithm.learning-rate={short(2e-4)}, algorithm.entropy-cost=0.5" in capsys.readouterr().out
    (_, second, _) = result.to_json()["members"]
    assert second["overrides"] == {"algorithm.learning-rate": "0.001"}
    assert second["ended"] == {"algorithm.learning-rate": short(2e-4), "algorithm.entropy-cost": "0.5"}


def test_every_member_plays_and_the_best_is_named(swept, capsys):
    result = evaluate(swept, 5, num_envs=5)
    assert [member.number for member in result.members] == [0, 1, 2]
    alone = evaluate(swept / "members" / "1", 5, num_envs=5, quiet=True)
    assert result.members[1].result.returns == alone.returns
    returns = [member.result.mean_return for member in result.members]
    assert result.best.result.mean_return == max(returns)
    out = capsys.readouterr().out
    assert f"best: member {result.best.number}" in out
    assert all(f"algorithm.learning-rate={rate}" in out for rate in ("0.003", "0.001", "1e-05"))
    assert "point-wise best while training, normalised median" in out
    found = json.loads(json.dumps(finite(result.to_json())))
    assert found["best_return"] == max(returns)
    assert found["mean_return"] == pytest.approx(np.mean(returns))
    assert [member["overrides"]["algorithm.learning-rate"] for member in found["members"]] == [
        "0.003",
        "0.001",
        "1e-05",
    ]
    assert found["episodes"] == 15
    assert len(found["best_curve"]["ends"]) == len(found["best_curve"]["scores"]) > 0


def test_a_member_without_a_checkpoint_does_not_hide_the_others(swept, tmp_path):
    copy = tmp_path / "sweep"
    shutil.copytree(swept, copy)
    shutil.rmtree(copy / "members" / "0" / "checkpoints")
    result = evaluate(copy, 2, quiet=True)
    assert result.members[0].result is None
    assert result.best.number != 0
    assert "none" in result.words()
    lost, played = result.to_json()["members"][:2]
    assert "error" in lost
    assert (lost["episodes_asked"], lost["episodes_played"], lost["episodes_failed"]) == (2, 0, {"no_checkpoint": 2})
    assert (played["episodes_asked"], played["episodes_played"], played["episodes_failed"]) == (2, 2, {})
    (copy / "members" / "1" / "config.json").unlink()
    assert [member.result is None for member in evaluate(copy, 2, quiet=True).members] == [True, True, False]
    for number in (1, 2):
        shutil.rmtree(copy / "members" / str(number) / "checkpoints")
    for _ in range(2):
        with pytest.raises(NothingToResumeError, match="no member of"):
            evaluate(copy, 2, quiet=True)
        shutil.rmtree(copy / "members", ignore_errors=True)


@pytest.mark.parametrize(
    "changes",
    [{"member": 3}, {"member": {"index": 1, "overrides": 3}}, {"config": {"preset": "cartpole"}}, {"history": 3}],
    ids=str,
)
def test_a_member_whose_record_has_another_form_does_not_hide_the_others(swept, tmp_path, changes):
    copy = shutil.copytree(swept, tmp_path / "sweep")
    path = copy / "members" / "1" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    lost = evaluate(copy, 1, quiet=True).members
    assert [member.result is None for member in lost] == [False, True, False]
    assert f"{path} cannot be read: config.json." in lost[1].error


def write(path, scores, name="mean_return"):
    """Record a bucketed curve as a run does: scores by the bucket's end, 100 frames each, written a little later."""
    with MetricsDb(path) as metrics:
        for end, score in scores.items():
            values = {f"buckets/{name}": float(score), "buckets/ends_at": float(end)}
            metrics.write(Tick(end / 100, 0.0, end + 7, 4 * end, 0), values)
    return path


def records(paths, env="CartPole-v1"):
    return [MemberRecord(path, env, {"algorithm.learning-rate": str(n)}) for n, path in enumerate(paths)]


def test_the_best_at_every_point(tmp_path):
    paths = [
        write(tmp_path / "a.db", {100: 1, 200: 5, 300: 5, 400: 2}),  # the second 5 is not stored again
        write(tmp_path / "b.db", {200: 3, 400: 6}),
        write(tmp_path / "d.db", {500: 0}),  # the others keep what they had
        write(tmp_path / "c.db", {}),
        tmp_path / "missing.db",
    ]
    curve = read_best_curve(records(paths))
    assert curve.name == "mean return"
    assert curve.ends == [100, 200, 300, 400, 500]
    assert curve.scores == [1, 5, 5, 6, 6]
    assert read_best_curve(records(paths[3:])) is None


def test_members_that_differ_by_their_game_are_one_agent(tmp_path):
    """One that is the best at one game must not stand for a setting that fails at the other."""
    games, scores = ("mini/Catch-v0", "mini/DeepSea8-v0"), {("1", 0): 0.2, ("1", 1): 1.0, ("2", 0): 0.7, ("2", 1): 0.7}
    members = []
    for (rate, game), score in scores.items():
        path = write(tmp_path / f"{rate}-{game}.db", {100: score}, "normalised_median")
        members.append(MemberRecord(path, games[game], {"env": games[game], "algorithm.learning-rate": rate}))
    curve = read_best_curve(members)
    assert (curve.name, curve.scores) == ("normalised median", [pytest.approx(0.7)])
    unknown = [dataclasses.replace(member, env="CartPole-v1") for member in members]
    assert read_best_curve(unknown) is None, "plain returns of several games"
    # Seeds are agents of their own: the best seed counts.
    seeds = [member for member in members for _ in range(2)]
    seeds[5] = dataclasses.replace(seeds[5], metrics=write(tmp_path / "lucky.db", {100: 0.9}, "normalised_median"))
    assert read_best_curve(seeds).scores == [pytest.approx(0.8)]


def test_a_sweep_over_games_is_summed_up(tmp_path):
    base = change(load_preset("mini"), {"steps": 400, "quiet": True, "run_dir": tmp_path / "sweep"})
    grid = {"env": ["mini/Catch-v0", "mini/DeepSea8-v0"], "algorithm.learning-rate": [3e-3, 1e-5]}
    result = sweep(SweepConfig(base, grid, SweepOptions(share_replay=False)))
    words = closing_table(result, "")
    assert result.best is None, "returns of different games cannot be compared"
    found = json.loads(json.dumps(finite(result.to_json())))
    assert set(found["agents"]["summaries"]) == {"algorithm.learning-rate=0.003", "algorithm.learning-rate=1e-05"}
    assert "by the last 20 training episodes over 2 games, one seed each" in words
    assert f"laser eval {result.run_dir} --episodes 20" in words
    played = evaluate(result.run_dir, 2, num_envs=2, quiet=True)
    assert "best: member" not in played.words()
    assert "interquartile mean" in played.words()
    assert played.to_json()["best_member"] is None
