"""What is said while an evaluation goes on."""

from functools import partial

import numpy as np
import pytest

from laser.environments.base import Transition
from launch.evaluation.evaluate import evaluate
from launch.evaluation.playing import Playing
from launch.presets import load_preset
from launch.recording.progress import Progress
from launch.train import train


def step(*who, ended=(), ignored=()):
    names = np.array(who)
    over = np.isin(names, ended)
    return Transition(names, {}, np.zeros(len(who), np.float32), over, np.zeros_like(over), np.isin(names, ignored))


def test_episodes_count_as_far_as_each_environment_is_to_play_them():
    playing = Playing(num_episodes=3, num_envs=2)  # two of the first one, one of the other
    assert (playing.num_ended, playing.share) == (0, 0.0)
    playing.look(None, step(0, 1, ended=[0]))
    playing.look(None, step(0, 1, ignored=[0]))
    for who in (0, 0):  # the third one does not count
        playing.look(None, step(who, ended=[who]))
    assert playing.num_ended == 2
    assert playing.share == pytest.approx(2 / 3)
    assert playing.num_steps == 5
    assert playing.words("Pong").startswith("Pong: 2 of 3 episodes · 5 env steps · ")
    assert playing.words("Pong").endswith(" left")


@pytest.mark.parametrize("quiet", [False, True])
def test_who_waits_for_an_evaluation_is_told_how_far_it_is(tmp_path, monkeypatch, capsys, quiet):
    train(load_preset("cartpole", {"steps": 600, "quiet": True, "run_dir": str(tmp_path / "run")}))
    monkeypatch.setattr("launch.evaluation.evaluate.Progress", partial(Progress, interval_s=0.02))
    evaluate(tmp_path / "run", 200, quiet=quiet)
    assert ("of 200 episodes" in capsys.readouterr().err) is not quiet
