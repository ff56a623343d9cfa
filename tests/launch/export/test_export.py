"""Exported policies compute what the policy computes, without LASER."""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys

import gymnasium
import numpy as np
import pytest
import torch

import laser
from laser.config import ConfigError
from launch.errors import LaunchError
from launch.export import export as export_module
from launch.export.export import ExportError, export
from launch.export.options import ExportOptions
from launch.export.policy_step import PolicyStep, input_name

sys.path.append(str(pathlib.Path(__file__).parents[2] / "contracts"))
from masked_worlds import Gates


class Named(gymnasium.Env):
    """Observations with names that the file, or its format, uses itself; episodes of three steps."""

    NAMES = ("action", "add", "cat", "first", "last_action", "linear", "state/x")

    observation_space = gymnasium.spaces.Dict(
        {name: gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32) for name in NAMES}
    )
    action_space = gymnasium.spaces.Discrete(3)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._left = 3
        return self._seen(), {}

    def step(self, action):
        self._left -= 1
        return self._seen(), float(action), self._left == 0, False, {}

    def _seen(self):
        return {name: self.np_random.uniform(-1.0, 1.0, 2).astype(np.float32) for name in self.NAMES}


KINDS = {
    "discrete": ("cartpole", {}),
    "pictures": ("mini", {}),
    "memory": ("mini", {"network.core": "lstm"}),
    "names": ("vectors", {"env": Named, "network.core": "lstm", "network.separate-critic": False}),
    "continuous": ("ppo_pendulum", {}),
    "squashed": ("sac_pendulum", {"replay.min-steps": 256, "learner.compile": "off", "actor.compile": "off"}),
    "masks": ("cartpole", {"env": Gates}),
    "noisy values": ("dqn_cartpole", {"algorithm.noisy": True, "algorithm.distributional": True}),
}


QUICK = ("discrete", "memory")


@pytest.fixture(
    scope="module", params=[pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in KINDS]
)
def run_dir(request, tmp_path_factory):
    preset, changes = KINDS[request.param]
    path = tmp_path_factory.mktemp("runs") / request.param.replace(" ", "-")
    steps = {"steps": 300, "replay.min-steps": 64, "run_dir": str(path), "quiet": True}
    laser.train(laser.load_preset(preset, {**steps, **changes}))
    return path


@pytest.mark.parametrize("format", ["torch", "onnx"])
def test_a_file_plays_an_episode_as_the_policy_does(run_dir, format):
    result = export(run_dir, ExportOptions(format=format))
    assert result.checked_steps > 1
    assert result.largest_difference < 1e-4
    assert result.file.exists()
    assert not list(run_dir.glob(".writing-*"))


def test_a_program_needs_no_laser_and_takes_any_number_of_environments(run_dir):
    file = export(run_dir, ExportOptions(format="torch")).file
    script = """
import json, sys, torch
extra = {"signature.json": ""}
program = torch.export.load(sys.argv[1], extra_files=extra)
signature = json.loads(extra["signature.json"])
for num in (1, 2, 7):
    specs = signature["inputs"].values()
    inputs = [torch.ones((num, *each["shape"]), dtype=getattr(torch, each["dtype"])) for each in specs]
    outputs = program.module()(*inputs)
    assert len(outputs) == len(signature["outputs"])
    assert all(output.shape[0] == num for output in outputs), [output.shape for output in outputs]
assert not {"laser", "launch", "actors"} & set(sys.modules)
print(json.dumps([output[:2].tolist() for output in outputs]))
"""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, str(file)], capture_output=True, text=True, check=False, cwd="/"
    )
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)[1][:2]
    assert first == pytest.approx(second, abs=1e-5), "the same observations, other statistics"


def test_a_file_that_differs_is_not_kept(run_dir, monkeypatch):
    """A policy whose file forgets a little of every number is refused, and nothing is written."""
    whole = PolicyStep.forward

    def forward(self, *inputs):
        outputs = whole(self, *inputs)
        if torch.compiler.is_exporting():
            return tuple(output + 0.01 if output.dtype == torch.float32 else output for output in outputs)
        return outputs

    monkeypatch.setattr(PolicyStep, "forward", forward)
    file = run_dir / "wrong.pt2"
    with pytest.raises(ExportError, match=r"^format: at step 0 of an episode the file's .* differs by 0\.01"):
        export(run_dir, ExportOptions(format="torch", out=file))
    assert not file.exists()
    assert not list(run_dir.glob(".writing-*"))


def test_what_stops_an_export_is_one_line(tmp_path, monkeypatch):
    with pytest.raises(LaunchError, match="holds no run"):
        export(tmp_path, ExportOptions(format="torch"))
    monkeypatch.setattr(export_module, "_ONNX_PACKAGES", ("no-such-package",))
    monkeypatch.setitem(
        sys.modules["laser.packages"].OPTIONAL,
        "no-such-package",
        sys.modules["laser.packages"].OptionalPackage("no_such", "x"),
    )
    with pytest.raises(ConfigError, match=r"format: no-such-package is not installed; .*, or use --format torch"):
        export(tmp_path, ExportOptions(format="onnx"))


@pytest.mark.parametrize(("format", "name", "suffix"), [("torch", "x.foo", ".pt2"), ("onnx", "x.pt2", ".onnx")])
def test_a_name_of_another_format_is_refused(run_dir, tmp_path, format, name, suffix):
    with pytest.raises(ConfigError) as caught:
        export(run_dir, ExportOptions(format=format, out=tmp_path / name))
    wrong = f"out: must end in {suffix} with format {format}, got {tmp_path / name}"
    assert str(caught.value) == f"{wrong}; choose a name such as policy{suffix}"
    assert not (tmp_path / name).exists()


def test_a_folder_that_cannot_be_written_is_named(run_dir, tmp_path):
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    with pytest.raises(LaunchError, match=r"^out: .* cannot be written: .*; choose another --out"):
        export(run_dir, ExportOptions(format="torch", out=in_the_way / "policy.pt2"))


def test_actions_are_in_the_environments_units(run_dir):
    """The file's actions are what `load_policy` returns."""
    file = export(run_dir, ExportOptions(format="torch")).file
    policy = laser.load_policy(run_dir, greedy=True)
    extra = {"signature.json": ""}
    program = torch.export.load(file, extra_files=extra).module()
    inputs = json.loads(extra["signature.json"])["inputs"]
    rng = np.random.default_rng(0)
    arrays = {name: np.zeros((1, *each["shape"]), each["dtype"]) for name, each in inputs.items()}
    for name in policy.environment.observations:
        array = arrays[input_name(name)]
        array[:] = rng.integers(0, 2, array.shape) if name != "action_mask" else True
    if "first" in arrays:
        arrays["first"][:] = True
    with torch.no_grad():
        action = program(*map(torch.from_numpy, arrays.values()))[0].numpy()
    own = policy.act({name: arrays[input_name(name)] for name in policy.environment.observations})
    np.testing.assert_allclose(action, own, rtol=1e-5, atol=1e-5)
