import subprocess
import sys

import pytest

import laser
from laser.config import ConfigError


def test_values_are_changed_by_the_command_lines_keys():
    config = laser.load_preset("cartpole", {"steps": 50_000, "algorithm.learning-rate": 1e-3, "replay.num_shards": 2})
    assert (config.steps, config.algorithm.learning_rate, config.replay.num_shards) == (50_000, 1e-3, 2)
    assert laser.change(config, {"env": "Acrobot-v1"}).env == "Acrobot-v1"
    assert config.preset == "cartpole"


def test_all_mistakes_are_named_at_once():
    with pytest.raises(ConfigError) as caught:
        laser.load_preset("cartpole", {"stepz": 1, "algorithm.learning-rate": -1.0, "num_envs": "many"})
    assert {problem.key for problem in caught.value.problems} == {"stepz", "algorithm.learning-rate", "num-envs"}
    with pytest.raises(ConfigError, match="there is no preset 'cartpol'; did you mean cartpole"):
        laser.load_preset("cartpol")


def test_everything_named_is_there():
    names = (
        "train",
        "sweep",
        "SweepConfig",
        "SweepResult",
        "load_preset",
        "change",
        "load_policy",
        "evaluate",
        "TrainConfig",
        "TrainResult",
        "EvaluationResult",
        "Callback",
        "TrainingRun",
        "Interrupted",
    )
    assert set(names) <= set(dir(laser))
    assert all(callable(getattr(laser, name)) for name in names)
    with pytest.raises(AttributeError, match="no attribute 'trian'"):
        laser.trian  # noqa: B018


def test_the_package_alone_loads_neither_torch_nor_the_launcher():
    code = "import sys, laser.unroll; print([name for name in ('torch', 'launch', 'ray') if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
