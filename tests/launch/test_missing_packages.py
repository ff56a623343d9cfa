"""What a user reads who asks for something whose package is not installed: one line, before anything starts."""

import importlib.util

import pytest

from laser.packages import OPTIONAL, pip_install
from launch.__main__ import main
from launch.presets import load_preset
from launch.train import train

find_spec = importlib.util.find_spec


@pytest.fixture
def without(monkeypatch):
    """Return a function that hides an optional package."""

    def hide(name):
        module = OPTIONAL[name].module
        monkeypatch.setattr("importlib.util.find_spec", lambda asked: None if asked == module else find_spec(asked))

    return hide


@pytest.mark.parametrize(
    ("name", "command", "key"),
    [
        ("ray", "train cartpole --runtime ray", "runtime"),
        ("ray", "train cartpole --ray-address 127.0.0.1:1", "runtime"),
        ("ray", "sweep cartpole --seeds 2 --runtime ray", "runtime"),
        ("wandb", "train cartpole --track wandb", "track"),
        ("imageio-ffmpeg", "train cartpole --capture-video", "capture-video"),
        ("dash", "dashboard .", "dashboard"),
        ("dash-ag-grid", "dashboard .", "dashboard"),
        ("matplotlib", "report .", "report"),
        ("ale-py", "train pong", "env"),
        ("mujoco", "train hopper", "env"),
        ("dm-control", "train cartpole --env dm_control/cartpole-swingup-v0", "env"),
        (
            "optuna",
            "sweep cartpole --space algorithm.discount={0.9,0.8} --sample 4 --concurrent 1 --tuner optuna",
            "tuner",
        ),
        ("minatar", "train cartpole --env MinAtar/Breakout-v1", "env"),
    ],
)
def test_what_needs_a_missing_package_ends_with_one_line(name, command, key, without, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    without(name)
    assert main(command.split()) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {key}: ")
    assert f"{name}" in err.partition(";")[0]
    assert f"not installed; {pip_install()} '" in err
    assert err.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_without_tensorboard_a_run_says_so_and_keeps_its_numbers(without, tmp_path, capsys):
    without("tensorboard")
    train(load_preset("cartpole", {"steps": 100, "num_envs": 2, "run_dir": str(tmp_path / "run")}), ["test"])
    err = capsys.readouterr().err
    (line,) = [line for line in err.splitlines() if "TensorBoard" in line]
    assert line.startswith("warning: TensorBoard events are not written")
    assert line.partition(f": {pip_install()} 'tensorboard")[1]
    assert "--logdir" not in err
    assert (tmp_path / "run" / "metrics.db").stat().st_size > 0
    assert not list((tmp_path / "run").glob("events.out.tfevents*"))
