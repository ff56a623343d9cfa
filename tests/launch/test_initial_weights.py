"""Runs that start with the weights of another run."""

import dataclasses
import json

import pytest
import torch
from saved_runs import weights

import laser
from laser.config import ConfigError
from launch.command_line.cli import run
from learner.checkpoint import list_checkpoints, load_checkpoint, load_newest_checkpoint

# Fewer steps than a batch needs: the weights at the end are those of the start.
UNTRAINED = 128


def config_for(path, **changes):
    config = laser.load_preset("cartpole", {"learner.compile": "off", "replay.min-steps": 256})
    values = {"steps": UNTRAINED, "quiet": True, "run_dir": path, "runtime": "lockstep", "num_envs": 4}
    return dataclasses.replace(config, **{**values, **changes})


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "trained"
    config = config_for(path, steps=1024, seed=5)
    learner = dataclasses.replace(config.learner, checkpoint_interval_s=1e-3, keep_checkpoints=100)
    laser.train(dataclasses.replace(config, learner=learner))
    return path


def networks(path):
    return load_newest_checkpoint(path / "checkpoints")[0].tensors["networks"]


def same(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def test_a_new_run_starts_with_the_weights_and_nothing_else(trained, tmp_path):
    result = laser.train(config_for(tmp_path / "new", init_from=str(trained)))
    assert same(networks(tmp_path / "new"), networks(trained))
    assert result.env_steps < 1024
    assert result.learner_steps == 0
    laser.train(config_for(tmp_path / "random"))
    assert not same(networks(tmp_path / "random"), networks(trained))
    assert json.loads((tmp_path / "new" / "config.json").read_text())["config"]["init_from"] == str(trained)


def test_actors_act_with_the_weights_from_the_start(trained, tmp_path):
    changes = {"steps": 1024, "algorithm": dataclasses.replace(config_for(tmp_path).algorithm, learning_rate=1e-12)}
    before = laser.evaluate(trained, 20, quiet=True, greedy=True).mean_return
    laser.train(config_for(tmp_path / "new", init_from=str(trained), **changes))
    assert laser.evaluate(tmp_path / "new", 20, quiet=True, greedy=True).mean_return == before
    laser.train(config_for(tmp_path / "random", **changes))
    assert laser.evaluate(tmp_path / "random", 20, quiet=True, greedy=True).mean_return != before


def test_a_checkpoint_is_chosen_by_its_step_or_its_score(trained, tmp_path):
    paths = list_checkpoints(trained / "checkpoints")
    early = load_checkpoint(paths[len(paths) // 2])
    assert not same(early.tensors["networks"], networks(trained))
    laser.train(config_for(tmp_path / "early", init_from=f"{trained}@{early.step}"))
    assert same(networks(tmp_path / "early"), early.tensors["networks"])
    best = max(map(load_checkpoint, paths), key=lambda checkpoint: checkpoint.score or 0.0)
    laser.train(config_for(tmp_path / "best", init_from=f"{trained}@best"))
    assert same(networks(tmp_path / "best"), best.tensors["networks"])


def test_a_resumed_run_keeps_its_own_weights(trained, tmp_path):
    laser.train(config_for(tmp_path / "new", init_from=str(trained), steps=1024))
    before = weights(tmp_path / "new")
    laser.train(config_for(tmp_path / "new", init_from=str(trained), steps=1024, resume=True))
    assert before.keys() == weights(tmp_path / "new").keys()
    assert not same(networks(tmp_path / "new"), networks(trained))


def test_other_spaces_are_refused_or_taken_as_far_as_they_fit(trained, tmp_path, capsys):
    changes = {"init_from": str(trained), "env": "MountainCar-v0"}
    with pytest.raises(ConfigError, match=r"^init-from: .* CartPole-v1, whose spaces differ .*; --init-strict false"):
        laser.train(config_for(tmp_path / "new", **changes))
    assert not (tmp_path / "new").exists()
    laser.train(config_for(tmp_path / "new", init_strict=False, quiet=False, **changes))
    taken, own, random = networks(trained), networks(tmp_path / "new"), tmp_path / "random"
    laser.train(config_for(random, env="MountainCar-v0"))
    fits = [name for name in own if name in taken and own[name].shape == taken[name].shape]
    assert 0 < len(fits) < len(own)
    assert all(torch.equal(own[name], taken[name]) for name in fits)
    assert all(torch.equal(own[name], networks(random)[name]) for name in own if name not in fits)
    assert f"took {len(fits)} of {len(own)} tensors from {trained}" in capsys.readouterr().err


def test_other_networks_are_refused(trained, tmp_path):
    network = dataclasses.replace(config_for(tmp_path).network, hidden_sizes=(32,))
    with pytest.raises(ConfigError, match=r"^init-from: .* has other networks: \d+ tensors differ \(.* and \d+ more\)"):
        laser.train(config_for(tmp_path / "new", init_from=str(trained), network=network))


@pytest.mark.parametrize(
    ("which", "words"),
    [
        ("/nowhere", "init-from: there is no checkpoint under .*nowhere.*; give the directory of a run"),
        ("@7", "init-from: .* has no checkpoint after 7 env steps; its checkpoints are after [0-9]+"),
    ],
)
def test_checkpoints_that_do_not_exist_are_one_line(trained, tmp_path, which, words):
    with pytest.raises(ConfigError, match=words):
        laser.train(config_for(tmp_path / "new", init_from=f"{trained}{which}"))


def test_a_checkpoint_that_does_not_exist_is_named_beside_all_other_mistakes(tmp_path):
    with pytest.raises(ConfigError) as caught:
        laser.train(config_for(tmp_path / "new", init_from="/nowhere", env="Nope-v1"))
    assert [problem.key for problem in caught.value.problems] == ["env", "init-from"]
    words = ["train", "cartpole", "--init-from", "/nowhere", "--steps", "-3", "--env", "Nope-v1"]
    with pytest.raises(ConfigError) as caught:
        run(words)
    assert sorted(problem.key for problem in caught.value.problems) == ["env", "init-from", "steps"]
    assert not (tmp_path / "new").exists()
