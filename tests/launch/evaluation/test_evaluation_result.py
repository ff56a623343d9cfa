import json
from pathlib import Path

import numpy as np
import pytest

from laser.environments import EnvironmentConfig
from laser.scoring.scores import find_reference
from launch.evaluation import evaluate as module
from launch.evaluation.evaluate import evaluate
from launch.evaluation.evaluation_result import EvaluationResult, TaskResult
from launch.presets import change, load_preset
from launch.train import train

BREAKOUT, PONG = "ALE/Breakout-v5", "ALE/Pong-v5"


def result(*tasks):
    env = ",".join(task.id for task in tasks)
    return EvaluationResult(Path("runs/x"), env, 12_500_000, list(tasks), False, 0, {"max_noops": 30})


def test_a_game_stands_beside_people_random_play_and_the_paper():
    returns = np.random.default_rng(0).normal(400, 20, 50).tolist()
    task = TaskResult(BREAKOUT, returns, [1000] * 50)
    assert task.normalised == pytest.approx((np.mean(returns) - 1.7) / 28.8)
    low, high = task.interval
    # The bootstrap's interval is near the normal one.
    error = np.std(returns) / 50**0.5
    assert low == pytest.approx(task.mean_return - 1.96 * error, abs=0.3 * error)
    assert high == pytest.approx(task.mean_return + 1.96 * error, abs=0.3 * error)
    assert task.normalised_interval == pytest.approx(((low - 1.7) / 28.8, (high - 1.7) / 28.8))
    words = result(task).words()
    assert "random 0, human 1" in words
    assert "shared replay after 50M frames 852.5, after 200M 850.3, own replay after 50M 570.0" in words
    found = result(task).to_json()
    assert found["published"]["laser_shared_200m"] == 850.3
    assert found["normalised"] == task.normalised
    assert found["protocol"] == {"max_noops": 30}
    assert found["interval"] == [low, high]


def test_several_games_are_summarised_over_tasks():
    generator = np.random.default_rng(1)
    tasks = [TaskResult(id, generator.normal(10, 5, 20).tolist(), [9] * 20) for id in (BREAKOUT, PONG)]
    by_task = [(np.mean(task.returns) - find_reference(task.id).random) for task in tasks]
    by_task = [value / s for value, s in zip(by_task, (28.8, 35.3), strict=True)]
    summary = result(*tasks).summary
    assert summary["median"][0] == pytest.approx(np.mean(by_task))
    assert summary["mean"][0] == pytest.approx(np.mean(by_task))
    assert summary["mean_capped"][0] == pytest.approx(np.mean(np.minimum(by_task, 1)))
    for score, (low, high) in summary.values():
        assert low <= score <= high
    words = result(*tasks).words()
    assert "normalised median over tasks" in words
    assert words.count("\n") >= 6
    assert [task["env"] for task in result(*tasks).to_json()["tasks"]] == [BREAKOUT, PONG]


def test_a_single_episode_has_no_interval():
    task = TaskResult("CartPole-v1", [12.0], [12])
    assert result(task).words() == "CartPole-v1 after 12,500,000 env steps: return 12.00 in 1 sampled episode"
    found = json.loads(json.dumps(result(task).to_json(), allow_nan=False))
    assert (found["mean_return"], found["standard_error"], found["interval"]) == (12.0, None, None)


def test_a_single_episode_of_each_game_has_no_intervals():
    tasks = [TaskResult(id, [value], [9]) for id, value in ((BREAKOUT, 30.5), (PONG, 14.6))]
    words = result(*tasks).words()
    assert "normalised 1.000, random 0, human 1" in tasks[0].words()
    assert "interval over" not in tasks[0].words()
    assert " to " not in words
    assert "nan" not in words
    found = json.loads(json.dumps(result(*tasks).to_json(), allow_nan=False))
    assert [(task["interval"], task["normalised_interval"]) for task in found["tasks"]] == [(None, None)] * 2
    assert found["summary"]["median"] == {"score": pytest.approx(1.0, abs=0.01), "interval": None}


def test_where_nothing_is_known_nothing_is_claimed():
    task = TaskResult("CartPole-v1", [1.0, 2.0], [1, 2])
    assert task.normalised is None
    assert task.published is None
    assert result(task).summary is None
    assert "normalised" not in result(task).words()
    assert "paper" not in result(task).words()


def test_the_flags_of_the_protocol_reach_the_environment(tmp_path, monkeypatch):
    values = {"env": "mini/Catch-v0", "steps": 200, "quiet": True, "runtime": "lockstep", "run_dir": tmp_path / "run"}
    train(change(load_preset("cartpole"), values | {"replay.capacity-steps": 2000}))
    seen = []
    make = module.make_environment

    def recording(id, num_envs, config):
        seen.append(config)
        return make(id, num_envs, EnvironmentConfig())

    monkeypatch.setattr(module, "make_environment", recording)
    evaluate(tmp_path / "run", 1, quiet=True)
    flags = {"max_noops": 37, "sticky_actions": 0.25, "max_episode_frames": 1000, "test_levels": True}
    evaluate(tmp_path / "run", 1, quiet=True, **flags)
    assert seen[0] == EnvironmentConfig()
    assert seen[1] == EnvironmentConfig(**flags)
