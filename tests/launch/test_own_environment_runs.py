"""Runs on a user's own environment, with arguments and wrappers: every later command makes the same one."""

import dataclasses
import json
import pathlib

import gymnasium
import numpy as np
import pytest

import laser
from laser.config import ConfigError
from laser.environments import EnvironmentConfig
from launch.command_line.cli import run as command_line

ENVIRONMENT = EnvironmentConfig(kwargs={"size": 2, "length": 7}, wrappers="own_worlds:Longer(number=3)")


@pytest.fixture
def worlds(monkeypatch):
    monkeypatch.syspath_prepend(str(pathlib.Path(__file__).parents[1] / "contracts"))
    import own_worlds

    return own_worlds


def config_for(env, path, **changes):
    values = {"env": env, "steps": 320, "quiet": True, "run_dir": path, "runtime": "lockstep"}
    config = laser.load_preset("cartpole")
    learner = dataclasses.replace(config.learner, compile="off")
    values |= {"num_envs": 4, "environment": ENVIRONMENT, "learner": learner, **changes}
    return dataclasses.replace(config, **values)


def test_every_later_command_makes_the_same_environment(worlds, tmp_path):
    result = laser.train(config_for(worlds.World, tmp_path / "run"))
    assert result.finished == "steps"
    evaluated = laser.evaluate(tmp_path / "run", 4, quiet=True)
    assert evaluated.env == "own_worlds:World"
    assert evaluated.tasks[0].lengths == [7] * 4
    assert evaluated.to_json()["protocol"]["kwargs"] == {"size": 2, "length": 7}
    policy = laser.load_policy(tmp_path / "run")
    assert policy.act(np.zeros(5, np.float32)) in (0, 1)
    with pytest.raises(ValueError, match=r"must have shape \(5,\), .*got \(4,\)"):
        policy.act(np.zeros(4, np.float32))
    resumed = laser.train(config_for(worlds.World, tmp_path / "run", resume=True, steps=640))
    assert resumed.env_steps >= 640


def test_an_agent_plays_in_another_environment_with_the_same_spaces(worlds, tmp_path, capsys):
    laser.train(config_for(worlds.World, tmp_path / "run"))
    run = tmp_path / "run"

    def lengths(**options):
        return laser.evaluate(run, 2, quiet=True, **options).tasks[0].lengths

    assert lengths(kwargs={"length": 3}) == [3, 3]
    assert lengths(env="own_worlds:World", kwargs={"length": 3}) == [3, 3]
    assert lengths(env=worlds.make_world, kwargs={"size": 2}) == [5, 5]
    with pytest.raises(ConfigError, match=r"^env: own_worlds:make_world has other observations than own_w"):
        lengths(env=worlds.make_world)
    with pytest.raises(ConfigError, match=r"^env: .* has other observations"):
        lengths(kwargs={"size": 3})
    command = ["eval", str(run), "--env", "own_worlds:make_world", "--kwargs.size", "2", "--episodes", "2", "--json"]
    assert command_line(command) == 0
    printed = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert (printed["env"], printed["protocol"]["kwargs"]) == ("own_worlds:make_world", {"size": 2})
    assert printed["protocol"]["wrappers"] == ENVIRONMENT.wrappers


def test_a_function_of_this_process_trains_in_threads(worlds, tmp_path):
    result = laser.train(config_for(lambda size, length: worlds.World(size, length), tmp_path / "run"))
    assert result.finished == "steps"
    assert laser.evaluate(tmp_path / "run", 2, quiet=True).tasks[0].lengths == [7, 7]


def test_nearly_every_space_can_be_learned_from_and_played(worlds, tmp_path):
    config = config_for(worlds.Everything, tmp_path / "run", environment=EnvironmentConfig(), steps=1024)
    config = laser.change(config, {"replay.min-steps": 320, "replay.capacity-steps": 2000})
    assert laser.train(config).learner_steps > 3
    assert laser.evaluate(tmp_path / "run", 2, quiet=True).tasks[0].lengths == [5, 5]
    policy, space = laser.load_policy(tmp_path / "run"), worlds.Everything().observation_space
    space.seed(1)
    items = [space.sample() for _ in range(3)]
    one_by_one = [policy.act(item, greedy=True) for item in items]
    vector = gymnasium.vector.utils
    batch = vector.concatenate(space, items, vector.create_empty_array(space, 3))
    assert policy.act(batch, greedy=True).tolist() == one_by_one
