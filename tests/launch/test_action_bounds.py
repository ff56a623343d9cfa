"""`environment.action-bounds`: what environments get in training, evaluation, `load_policy` and exports."""

import dataclasses

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

import laser
from laser.config import ConfigError
from launch.export.export import export
from launch.export.options import ExportOptions
from launch.presets import load_preset
from launch.settings.json_form import config_from_json, config_to_json
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig, SweepOptions

LARGEST: list[float] = []


class Far(gymnasium.Env):
    """The best action is far beyond the bounds of [-1, 1]; the largest action so far is kept."""

    observation_space = spaces.Box(-1, 1, (2,), np.float32)
    action_space = spaces.Box(-1, 1, (1,), np.float32)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(2, np.float32), {}

    def step(self, action):
        self.steps += 1
        LARGEST.append(float(np.abs(action).max()))
        return np.zeros(2, np.float32), float(action[0]), False, self.steps >= 10, {}


gymnasium.register("Far-v0", entry_point=f"{__name__}:Far")


def config_of(path, bounds):
    values = {"env": f"{__name__}:Far-v0", "steps": 600, "quiet": True, "run_dir": path, "replay.min_steps": 100}
    # A wide policy, so that most of its samples are beyond the bounds.
    return load_preset("halfcheetah", {**values, "environment.action_bounds": bounds, "network.initial_std": 3.0})


@pytest.mark.parametrize("bounds", ["clip", "none", "tanh"])
def test_everybody_who_acts_respects_them(tmp_path, bounds):
    LARGEST.clear()
    laser.train(config_of(tmp_path / "run", bounds))
    trained = max(LARGEST)
    assert trained > 3 if bounds == "none" else 0.9 < trained <= 1
    LARGEST.clear()
    laser.evaluate(tmp_path / "run", episodes=5, quiet=True)
    assert max(LARGEST) > 3 if bounds == "none" else 0.9 < max(LARGEST) <= 1
    policy = laser.load_policy(tmp_path / "run")
    actions = [abs(float(policy.act(np.zeros(2, np.float32))[0])) for _ in range(50)]
    assert max(actions) > 3 if bounds == "none" else max(actions) <= 1


@pytest.mark.parametrize("bounds", ["none", "tanh"])
def test_exports_act_as_the_policy_does(tmp_path, bounds):
    pytest.importorskip("onnxruntime")
    laser.train(config_of(tmp_path / "run", bounds))
    assert export(tmp_path / "run", ExportOptions(quiet=True)).checked_steps > 0  # compared with the policy


def test_members_that_share_must_agree(tmp_path):
    base = config_of(tmp_path / "sweep", "clip")
    grid = {"environment.action-bounds": ("clip", "none")}
    with pytest.raises(ConfigError, match="action"):
        sweep(SweepConfig(base, grid, SweepOptions(share_replay=True)))


def test_the_papers_presets_let_mujoco_take_what_comes_and_old_runs_clip():
    assert {load_preset(name).environment.action_bounds for name in ("racer", "v_racer", "ddpg", "naf", "ppo")} == {
        "none"
    }
    assert load_preset("sac").environment.action_bounds == "clip"
    record = config_to_json(dataclasses.replace(load_preset("halfcheetah"), quiet=True))
    del record["environment"]["action_bounds"]
    assert config_from_json(record).environment.action_bounds == "clip"
