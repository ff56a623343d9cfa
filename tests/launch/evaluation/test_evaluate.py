"""Playing with trained agents whose environment fails: one line, and of a sweep only the members that it concerns."""

from __future__ import annotations

import dataclasses
import math
import shutil
from typing import ClassVar

import gymnasium
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from launch.__main__ import main
from launch.errors import LaunchError, OutputError
from launch.evaluation.evaluate import evaluate
from launch.presets import change, load_preset
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig, SweepOptions

FAILING = ("FirstMoodyCartPole-v0", "SecondMoodyCartPole-v0")
LINE = "env: FirstMoodyCartPole-v0: KeyError: 'the door is locked'; mend the environment"


class Moody(CartPoleEnv):
    """Fails where it is told to: environments by name, and in which of their methods."""

    fails: ClassVar[dict[str, str]] = {}

    def reset(self, **arguments):
        self._fail("reset")
        return super().reset(**arguments)

    def step(self, action):
        self._fail("step")
        return super().step(action)

    def _fail(self, method):
        if self.fails.get(self.spec.id) == method:
            raise KeyError("the door is locked")


@pytest.fixture(scope="module")
def swept(tmp_path_factory):
    """Return a sweep of two members, each of which has an environment of its own."""
    for name in FAILING:
        gymnasium.register(name, Moody, max_episode_steps=15)
    changes = {"steps": 200, "quiet": True, "runtime": "lockstep", "num_envs": 2, "stop_at_return": math.inf}
    base = change(load_preset("cartpole"), {**changes, "env": FAILING[0]})
    base = dataclasses.replace(base, run_dir=tmp_path_factory.mktemp("runs") / "sweep")
    yield sweep(SweepConfig(base, {"env": list(FAILING)}, SweepOptions(share_replay=False))).run_dir
    for name in FAILING:
        del gymnasium.registry[name]


@pytest.fixture
def fails(monkeypatch):
    """Return what decides which environments fail."""
    fails = {}
    monkeypatch.setattr(Moody, "fails", fails)
    return fails


@pytest.mark.parametrize("method", ["reset", "step"])
def test_an_environment_that_raises_is_one_line(swept, fails, capsys, method):
    fails[FAILING[0]] = method
    assert main(["eval", str(swept / "members" / "0"), "--episodes", "2"]) == 1
    assert capsys.readouterr().err == f"error: {LINE}\n"


@pytest.mark.parametrize("video", [False, True])
def test_a_member_whose_environment_raises_does_not_hide_the_others(swept, fails, video):
    fails[FAILING[0]] = "reset"
    result = evaluate(swept, 1, video=video, quiet=True)
    assert (result.members[0].result, result.members[0].error) == (None, LINE)
    assert result.best.number == 1
    assert LINE in result.words()


def test_where_every_environment_raises_the_first_is_named(swept, fails):
    fails.update(dict.fromkeys(FAILING, "step"))
    with pytest.raises(LaunchError, match="door is locked") as caught:
        evaluate(swept, 1, quiet=True)
    assert str(caught.value) == LINE


def test_training_is_no_remedy_for_an_environment_that_raises(swept, fails, tmp_path):
    copy = tmp_path / "sweep"
    shutil.copytree(swept, copy)
    shutil.rmtree(copy / "members" / "0" / "checkpoints")
    fails[FAILING[1]] = "reset"
    with pytest.raises(LaunchError, match="SecondMoodyCartPole-v0: KeyError"):
        evaluate(copy, 1, quiet=True)


def test_a_full_disk_is_every_members(swept, monkeypatch):
    errors = [OutputError("run-dir", "no space left", "free some")]

    def save_video(path, video):
        if errors:
            raise errors.pop()

    monkeypatch.setattr("launch.evaluation.evaluate.save_video", save_video)
    with pytest.raises(OutputError, match="no space left"):
        evaluate(swept, 1, video=True, quiet=True)
