"""One agent over several tasks, from the command line's config to its evaluation."""

import dataclasses
import math

import numpy as np
import pytest
import torch

from laser.config import ConfigError, find_problems
from launch.evaluation.evaluate import evaluate
from launch.presets import load_preset
from launch.records.metrics_db import read_names, read_series
from launch.train import train
from learner.checkpoint import load_newest_checkpoint

MAZES = "mini/TMaze10-v0,mini/TMaze20-v0,mini/TMaze5-v0"


def small(run_dir, **changes):
    preset = load_preset("cartpole")
    values = {
        "env": MAZES,
        "steps": 1500,
        "runtime": "lockstep",
        "run_dir": run_dir,
        "quiet": True,
        "num_actors": 2,
        "num_envs": 5,
        "stop_at_return": math.inf,
        **changes,
    }
    replay = dataclasses.replace(preset.replay, capacity_steps=2000, min_steps=128)
    return dataclasses.replace(preset, replay=replay, **values)


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    run_dir = tmp_path_factory.mktemp("runs") / "mazes"
    config = small(run_dir)
    config = dataclasses.replace(
        config, evaluation=dataclasses.replace(config.evaluation, interval=700, episodes=3, num_envs=2)
    )
    train(config)
    return run_dir


def test_every_task_is_trained_on_and_reported(trained):
    names = set(read_names(trained / "metrics.db"))
    for task in MAZES.split(","):
        assert f"tasks/{task}/mean_return" in names
        assert f"buckets/{task}/mean_return" in names
        assert f"evaluation/{task}/mean_return" in names
    assert "buckets/mean_return" in names
    ends = [value for _, value in read_series(trained / "metrics.db", "buckets/ends_at")]
    assert all(end % 75 == 0 and end <= 1600 for end in ends), "a bucket is a twentieth of the run"
    # One of the three has no reference, so nothing is normalised over all.
    assert not any("normalised" in name for name in names)


def test_evaluation_plays_every_task(trained, capsys):
    result = evaluate(trained, 4, num_envs=2, quiet=False)
    assert [task.id for task in result.tasks] == MAZES.split(",")
    assert all(len(task.returns) == 4 for task in result.tasks)
    out = capsys.readouterr().out
    for task in result.tasks:
        assert task.id in out
    found = result.to_json()
    assert found["episodes"] == 12
    assert found["summary"] is None
    assert [task["env"] for task in found["tasks"]] == MAZES.split(",")
    assert found["tasks"][2]["normalised"] is None
    low, high = found["tasks"][0]["interval"]
    assert low <= found["tasks"][0]["mean_return"] <= high


def test_resumed_lockstep_equals_one_that_was_never_interrupted(tmp_path):
    def weights(run):
        return load_newest_checkpoint(run / "checkpoints")[0].tensors["networks"]

    train(small(tmp_path / "whole", steps=1024, checkpoint_replay=True))
    train(small(tmp_path / "parts", steps=512, checkpoint_replay=True))
    train(small(tmp_path / "parts", steps=1024, checkpoint_replay=True, resume=True))
    whole, parts = weights(tmp_path / "whole"), weights(tmp_path / "parts")
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_too_few_environments_for_the_tasks(tmp_path):
    (problem,) = find_problems(small(tmp_path, env="dmlab30", num_actors=2, num_envs=14))
    assert problem.key == "num-envs"
    assert "each of 30 tasks" in problem.wrong
    assert problem.remedy == "use at least 15"
    assert not list(find_problems(small(tmp_path, env="dmlab30", num_actors=2, num_envs=15)))
    with pytest.raises(ConfigError, match="named twice"):
        small(tmp_path, env="a,a").check()


def test_one_task_stands_beside_random_play_and_the_best(tmp_path):
    train(small(tmp_path / "run", env="mini/Catch-v0", steps=300))
    result = evaluate(tmp_path / "run", 6, quiet=True)
    (task,) = result.tasks
    assert task.normalised == pytest.approx((task.mean_return + 0.6) / 1.6)
    found = result.to_json()
    assert found["normalised"] == task.normalised
    assert found["published"] is None
    assert result.summary["mean"][0] == pytest.approx(task.normalised)
    assert "normalised" in result.words()
    assert "random 0, the best policy 1" in result.words()
    assert np.isfinite(found["normalised_interval"]).all()
