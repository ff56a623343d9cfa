"""Playing with trained agents whose environment fails: one line, and of a sweep only the members that it concerns."""

from __future__ import annotations

import dataclasses
import json
import math
import shutil
import time
from pathlib import Path
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

from actors.policy import Policy
from laser.algorithms.impala import ImpalaConfig
from laser.config import ConfigError
from laser.environments.spaces import action_writer, observation_reader
from laser.networks.config import NetworkConfig
from laser.specs import EnvironmentSpec, environment_spec_from_json
from launch.__main__ import main
from launch.errors import LaunchError, OutputError
from launch.evaluation.evaluate import evaluate, load_policy
from launch.evaluation.loaded_policy import LoadedPolicy
from launch.export.export import export
from launch.export.options import ExportOptions
from launch.presets import change, load_preset
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions

FAILING = ("FirstMoodyCartPole-v0", "SecondMoodyCartPole-v0")
LINE = "env: FirstMoodyCartPole-v0: KeyError: 'the door is locked'; fix the environment"


class Moody(CartPoleEnv):
    """Fails where it is told to: environments by name, and in which of their methods."""

    fails: ClassVar[dict[str, str]] = {}

    def reset(self, **arguments):
        self._fail("reset")
        self.num_resets = getattr(self, "num_resets", 0) + 1
        self._fail(f"reset {self.num_resets}")
        return super().reset(**arguments)

    def step(self, action):
        self._fail("step")
        return super().step(action)

    def _fail(self, method):
        if self.fails.get(self.spec.id) == method:
            raise KeyError("the door is locked")
        if self.fails.get(self.spec.id) == f"hang in {method}":
            time.sleep(3.0)


@pytest.mark.parametrize("method", ["reset", "step"])
def test_an_environment_that_hangs_is_left_behind(swept, fails, tmp_path, capsys, method):
    fails[FAILING[0]] = f"hang in {method}"
    run = Path(shutil.copytree(swept / "members" / "0", tmp_path / "run"))
    record = json.loads((run / "config.json").read_text())
    record["config"]["environment"]["deadline_s"] = 0.5
    (run / "config.json").write_text(json.dumps(record))
    assert main(["eval", str(run), "--episodes", "1"]) == 1
    line = "env: FirstMoodyCartPole-v0 did not return from a step or a reset for 0.5 s; fix"
    assert capsys.readouterr().err.startswith(f"error: {line}")


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


def test_episodes_are_counted_by_what_became_of_them(swept, fails):
    fails[FAILING[0]] = "reset 4"
    result = evaluate(swept, 9, num_envs=1, quiet=True)
    failed, played = result.to_json()["members"]
    names = ("episodes_asked", "episodes_played", "episodes_failed")
    assert [failed[name] for name in names] == [9, 3, {"raised": 6}]
    assert "(3 of 9 episodes had been played)" in failed["error"]
    assert [played[name] for name in names] == [9, 9, {}]


def test_what_else_lies_among_the_members_is_none_of_them(swept, tmp_path):
    copy = tmp_path / "sweep"
    shutil.copytree(swept, copy)
    (copy / "members" / "0 old").mkdir()
    assert len(evaluate(copy, 1, quiet=True).members) == 2


def test_the_episodes_of_a_sweep_are_no_data_set(swept, capsys):
    assert main(["eval", str(swept), "--log", "minari:tests/sweep-v0"]) == 2
    assert capsys.readouterr().err.startswith(f"error: log: {swept} holds a sweep, and one agent plays the episodes")


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


CALLS = [
    (load_policy, {}),
    (evaluate, {"episodes": 1, "quiet": True}),
    (lambda run, checkpoint: export(run, ExportOptions(format="torch", checkpoint=checkpoint)), {}),
]


@pytest.mark.parametrize(("call", "arguments"), CALLS, ids=["load_policy", "evaluate", "export"])
@pytest.mark.parametrize(
    ("word", "line"),
    [
        ("bset", "checkpoint: must be one of newest, best, got 'bset'; did you mean best?"),
        ("x", "checkpoint: must be one of newest, best, got 'x'"),
        (["best"], "checkpoint: must be one of newest, best, got ['best']; did you mean best?"),
    ],
)
def test_only_the_newest_or_the_best_checkpoint_is_loaded(swept, call, arguments, word, line):
    with pytest.raises(ConfigError) as caught:
        call(swept / "members" / "0", checkpoint=word, **arguments)
    assert str(caught.value) == line


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ({"episodes": 0}, "episodes: must be at least 1, got 0"),
        ({"episodes": -1}, "episodes: must be at least 1, got -1"),
        ({"episodes": "3"}, "episodes: must be a whole number, got '3'"),
        ({"num_envs": 0}, "num-envs: must be in [1, 4096], got 0"),
        ({"seed": 0.5}, "seed: must be a whole number, got 0.5"),
        ({"curve": "mode"}, "curve: must be one of median, mean_capped, got 'mode'"),
    ],
)
def test_arguments_of_an_evaluation_are_checked_like_its_flags(swept, arguments, line):
    with pytest.raises(ConfigError) as caught:
        evaluate(swept, **{"episodes": 1, "quiet": True, **arguments})
    assert str(caught.value) == line


def test_a_full_disk_is_every_members(swept, monkeypatch):
    errors = [OutputError("run-dir", "no space left", "free some")]

    def save_video(path, video):
        if errors:
            raise errors.pop()

    monkeypatch.setattr("launch.evaluation.evaluate.save_video", save_video)
    with pytest.raises(OutputError, match="no space left"):
        evaluate(swept, 1, video=True, quiet=True)


class Odd(gymnasium.Env):
    """Spaces that begin elsewhere than at 0, have more axes than one, or turn their pictures."""

    observation_space = gymnasium.spaces.Dict(
        {
            "kind": gymnasium.spaces.Discrete(3, start=5),
            "picture": gymnasium.spaces.Box(0, 255, (3, 24, 30), np.uint8),
        }
    )

    def __init__(self, actions):
        self.action_space = actions


@pytest.mark.parametrize(
    "actions",
    [
        gymnasium.spaces.Box(-2.0, 3.0, (2, 2)),
        gymnasium.spaces.Box(-2.0, 3.0, ()),
        gymnasium.spaces.Discrete(3, start=7),
        gymnasium.spaces.MultiDiscrete([2, 3], start=[4, -9]),
    ],
)
def test_a_loaded_policy_takes_and_gives_what_the_environment_does(actions):
    environment = Odd(actions)
    reader, writer = observation_reader(environment.observation_space), action_writer(actions)
    spec = environment_spec_from_json(EnvironmentSpec("Odd-v0", reader.specs, writer.spec).to_json())
    algorithm = ImpalaConfig().build(spec, NetworkConfig())
    acted, observed = LoadedPolicy(Policy(algorithm, spec, seed=0), spec), []
    policy = acted._policy
    policy_act, policy.act = policy.act, lambda seen, state: observed.append(seen) or policy_act(seen, state)
    for seed in range(20):
        environment.observation_space.seed(seed)
        observation = environment.observation_space.sample()
        assert acted.act(observation) in actions
        for name, value in reader.read_items([observation]).items():
            np.testing.assert_array_equal(observed[-1][name], value)


def test_widths_changed_by_hand_are_one_line(swept, tmp_path, capsys):
    run = Path(shutil.copytree(swept / "members" / "1", tmp_path / "run"))
    record = json.loads((run / "config.json").read_text())
    record["config"]["network"]["hidden_sizes"] = [7, 7]
    (run / "config.json").write_text(json.dumps(record))
    assert main(["eval", str(run), "--episodes", "1"]) == 66
    (line,) = capsys.readouterr().err.splitlines()
    assert "belongs to other networks than config.json says; undo the changes of config.json" in line
