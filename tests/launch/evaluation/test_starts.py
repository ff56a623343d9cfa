"""`laser eval --starts`: episodes behind the starts of a file, and scores beside those from human starts."""

import json

import pytest

from laser.config import ConfigError
from laser.environments import EnvironmentConfig
from launch.__main__ import main
from launch.evaluation.evaluation_result import TaskResult
from launch.evaluation.starts import behind_starts
from launch.presets import load_preset
from launch.train import train

PONG = "ALE/Pong-v5"


@pytest.fixture
def starts(tmp_path):
    path = tmp_path / "my starts.json"
    path.write_text(json.dumps({PONG: [[0] * 30, [3] * 30]}))
    return path


def test_an_agent_plays_behind_them(starts, tmp_path, capsys):
    values = {"steps": 64, "num_envs": 2, "unroll_length": 8, "quiet": True, "run_dir": tmp_path / "run"}
    run = train(load_preset("pong", values)).run_dir
    conditions = ["--sticky-actions", "0", "--max-episode-frames", "400", "--episodes", "2", "--num-envs", "2"]
    assert main(["eval", str(run), "--starts", str(starts), *conditions, "--json"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert result["mean_length"] == 400 / 4 - 30  # the frames of a start count
    random, human = (result["published_human_starts"][name] for name in ("random", "human"))
    assert result["normalised"] == pytest.approx((result["mean_return"] - random) / (human - random))


def test_scores_from_human_starts_are_normalised_by_such():
    plain, behind = (TaskResult(PONG, [3.0], [9], None, each).reference for each in (False, True))
    assert (plain.random, plain.human) != (behind.random, behind.human)
    assert (behind.random, behind.human) == (-18.0, 15.5)
    assert TaskResult("CartPole-v1", [3.0], [9], None, True).reference is None


def test_the_protocol_repeats_the_games(starts):
    wrapper = "gymnasium.wrappers:TransformReward(func=abs)"
    protocol = behind_starts(PONG, EnvironmentConfig(max_noops=30, wrappers=wrapper), str(starts))
    assert (protocol.max_noops, protocol.fire_at_reset) == (0, False)
    first, _, second = protocol.wrappers.partition("),")
    assert first == f'laser.environments.starts:BehindStart("{starts}"'
    assert second == wrapper


@pytest.mark.parametrize(
    ("env", "sticky", "wrong"),
    [
        ("CartPole-v1", 0.0, "starts: CartPole-v1 is no Atari game"),
        ("ALE/Breakout-v5", 0.0, "has no starts of ALE/Breakout-v5"),
        (PONG, 0.25, r"starts: sticky actions \(0.25\) lead a start elsewhere each time; use --sticky-actions 0"),
    ],
)
def test_what_cannot_be_played_behind_them_is_refused(starts, env, sticky, wrong):
    with pytest.raises(ConfigError, match=wrong):
        behind_starts(env, EnvironmentConfig(sticky_actions=sticky), str(starts))


def test_a_sweep_is_refused(starts, tmp_path, capsys):
    words = ["cartpole", "--seeds", "2", "--steps", "200", "--quiet", "--run-dir", str(tmp_path / "sweep")]
    assert main(["sweep", *words]) == 0
    assert main(["eval", str(tmp_path / "sweep"), "--starts", str(starts)]) == 2
    assert (
        "holds a sweep, and its members are compared by scores from no-op starts; choose a" in capsys.readouterr().err
    )
