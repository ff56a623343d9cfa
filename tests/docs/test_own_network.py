import dataclasses
import importlib

import gymnasium
import pytest

import laser
from laser.config import ConfigError


def test_the_example_trains_resumes_and_plays(examples, quick):
    module = importlib.import_module("own_network")
    result = module.main(**quick)
    assert result.learner_steps > 3
    saved = laser.load_policy(result.run_dir)
    observation, _ = gymnasium.make("CartPole-v1").reset(seed=0)
    assert saved.act(observation) in (0, 1)
    config = laser.load_preset("cartpole", {**quick, "steps": 1500, "run_dir": str(result.run_dir), "resume": True})
    resumed = laser.train(dataclasses.replace(config, network=module.ResidualConfig(num_blocks=3)))
    assert resumed.env_steps >= 1500
    assert resumed.learner_steps > result.learner_steps


def test_another_process_finds_the_network_from_its_folder_only(examples, quick, play_in_a_new_process, tmp_path):
    run_dir = tmp_path / importlib.import_module("own_network").main(**quick).run_dir
    played = play_in_a_new_process(run_dir, examples)
    assert played.returncode == 0, played.stderr
    assert "return" in played.stdout
    lost = play_in_a_new_process(run_dir, tmp_path)
    assert lost.returncode == 66
    assert "module 'own_network' cannot be imported" in lost.stderr
    assert "run from the folder that holds own_network.py" in lost.stderr
    assert len(lost.stderr.splitlines()) == 1


def test_what_the_network_cannot_see_is_one_line(examples, quick):
    module = importlib.import_module("own_network")
    config = dataclasses.replace(laser.load_preset("cartpole", quick), env="FrozenLake-v1")
    with pytest.raises(ConfigError, match=r"^network: ResidualConfig sees one vector"):
        laser.train(dataclasses.replace(config, network=module.ResidualConfig()))
