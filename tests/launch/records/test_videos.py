"""Filming what an agent does: by `laser eval --video`, and of the evaluations of a run, which it does not change."""

import json

import gymnasium
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from laser.config import ConfigError
from laser.environments import EnvironmentConfig
from launch.command_line.cli import run
from launch.evaluation.evaluate import evaluate, load_policy
from launch.presets import load_preset
from launch.records.videos import find_video_problems
from launch.train import train

VALUES = {"steps": 600, "num_envs": 2, "evaluation.interval": 300, "evaluation.episodes": 1, "quiet": True}


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two runs that differ in nothing but the camera."""
    root = tmp_path_factory.mktemp("runs")
    for name, values in (("plain", {}), ("filmed", {"capture_video": True})):
        train(load_preset("cartpole", {**VALUES, **values, "run_dir": str(root / name)}), ["test"])
    return root


def test_filming_changes_nothing(runs):
    plain, filmed = (load_policy(runs / name)._policy.parameters.to_numpy() for name in ("plain", "filmed"))
    assert plain.tobytes() == filmed.tobytes()
    assert not (runs / "plain" / "videos").exists()
    first, last = sorted(int(path.stem.removeprefix("evaluation-")) for path in (runs / "filmed" / "videos").iterdir())
    assert 300 <= first < 350
    assert 600 <= last < 650  # the agent as it ends


def test_eval_films_an_episode(runs, capsys):
    assert run(["eval", str(runs / "plain"), "--episodes", "1", "--video", "--json"]) == 0
    lines = capsys.readouterr().out.splitlines()
    result = json.loads(lines[-1])
    assert "video: " in "".join(lines[:-1])
    assert result["video"] == str(next((runs / "plain" / "videos").glob("eval-*-seed0.mp4")))
    without = evaluate(runs / "plain", 1, quiet=True)
    assert result["returns"] == without.returns
    assert without.tasks[0].video is None


def test_what_cannot_be_drawn_is_refused_before_anything_starts(tmp_path):
    config = load_preset("mini", {"capture_video": True, "run_dir": str(tmp_path / "run"), "quiet": True})
    (problem,) = find_video_problems("capture-video", config.env, config.environment)
    assert str(problem) == "capture-video: mini/Catch-v0 cannot be rendered here; leave --capture-video out"
    with pytest.raises(ConfigError, match="cannot be rendered"):
        train(config, ["test"])
    assert not (tmp_path / "run").exists()


class Locked(CartPoleEnv):
    """Can be built, and nothing more."""

    def reset(self, **arguments):
        raise KeyError("the door is locked")


def test_an_environment_that_raises_is_named_before_anything_starts(tmp_path, monkeypatch):
    closed = []
    monkeypatch.setattr(Locked, "close", lambda self: closed.append(self))
    monkeypatch.setitem(gymnasium.registry, "Locked-v0", gymnasium.envs.registration.EnvSpec("Locked-v0", Locked))
    values = {"env": "Locked-v0", "capture_video": True, "run_dir": str(tmp_path / "run"), "quiet": True}
    config = load_preset("cartpole", values)
    problems = find_video_problems("capture-video", "Locked-v0,mini/Catch-v0", config.environment)
    assert [*map(str, problems)] == [
        "env: Locked-v0: KeyError: 'the door is locked'; fix the environment",
        "capture-video: mini/Catch-v0 cannot be rendered here; leave --capture-video out",
    ]
    assert closed
    with pytest.raises(ConfigError, match="the door is locked"):
        train(config, ["test"])
    assert not (tmp_path / "run").exists()


def test_a_missing_encoder_is_one_line(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    (problem,) = find_video_problems("video", "CartPole-v1", EnvironmentConfig())
    assert str(problem).startswith("video: imageio-ffmpeg is not installed; ")
    assert "pip install 'imageio-ffmpeg" in str(problem)


def test_without_an_interval_a_run_is_filmed_ten_times():
    assert load_preset("cartpole", {"steps": 1000}).evaluation_interval == 0
    assert load_preset("cartpole", {"steps": 1000, "capture_video": True}).evaluation_interval == 100
    assert load_preset("cartpole", {"capture_video": True, "evaluation.interval": 7}).evaluation_interval == 7
