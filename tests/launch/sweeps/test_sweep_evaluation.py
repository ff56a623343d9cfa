import dataclasses
import json
import math

import numpy as np
import pytest

from launch.command_line.cli import finite
from launch.errors import NothingToResumeError
from launch.evaluation.evaluate import evaluate
from launch.presets import change, load_preset
from launch.recording.metrics_db import MetricsDb, Tick
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig, SweepOptions
from launch.sweeps.sweep_evaluation import read_best_curve
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
    import shutil

    copy = tmp_path / "sweep"
    shutil.copytree(swept, copy)
    shutil.rmtree(copy / "members" / "0" / "checkpoints")
    result = evaluate(copy, 2, quiet=True)
    assert result.members[0].result is None
    assert result.best.number != 0
    assert "none" in result.words()
    assert "error" in result.to_json()["members"][0]
    (copy / "members" / "1" / "config.json").unlink()
    assert [member.result is None for member in evaluate(copy, 2, quiet=True).members] == [True, True, False]
    for number in (1, 2):
        shutil.rmtree(copy / "members" / str(number) / "checkpoints")
    for _ in range(2):
        with pytest.raises(NothingToResumeError, match="no member of"):
            evaluate(copy, 2, quiet=True)
        shutil.rmtree(copy / "members", ignore_errors=True)


def write(path, scores):
    """Record a bucketed curve as a run does: scores by the bucket's end, 100 frames each, written a little later."""
    with MetricsDb(path) as metrics:
        for end, score in scores.items():
            values = {"buckets/mean_return": float(score), "buckets/ends_at": float(end)}
            metrics.write(Tick(end / 100, 0.0, end + 7, 4 * end, 0), values)
    return path


def test_the_best_at_every_point(tmp_path):
    paths = [
        write(tmp_path / "a.db", {100: 1, 200: 5, 300: 5, 400: 2}),  # the second 5 is not stored again
        write(tmp_path / "b.db", {200: 3, 400: 6}),
        write(tmp_path / "d.db", {500: 0}),  # the others keep what they had
        write(tmp_path / "c.db", {}),
        tmp_path / "missing.db",
    ]
    curve = read_best_curve(paths)
    assert curve.name == "buckets/mean_return"
    assert curve.ends == [100, 200, 300, 400, 500]
    assert curve.scores == [1, 5, 5, 6, 6]
    assert read_best_curve(paths[3:]) is None
