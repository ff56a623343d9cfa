import dataclasses
import json
from pathlib import Path

import pytest

from laser.algorithms import find_algorithms
from laser.config import ConfigError, find_problems
from launch.presets import find_presets, load_preset
from launch.settings.json_form import config_from_json, config_to_json
from launch.settings.train_config import TrainConfig


@pytest.mark.parametrize("preset", find_presets())
def test_presets_come_back(preset):
    config = dataclasses.replace(load_preset(preset), run_dir=Path("runs/x"))
    text = json.dumps(config_to_json(config), allow_nan=False)
    assert config_from_json(json.loads(text)) == config


def test_a_section_without_settings_is_not_recorded():
    """Records of LASER's own samplers stay as they were before samplers could have settings elsewhere."""
    assert "sampler_settings" not in config_to_json(load_preset("sac_pendulum", {"replay.sampler": "per"}))["replay"]


@pytest.mark.parametrize("name", find_algorithms())
def test_every_algorithm_comes_back_by_its_name(name):
    algorithm = dataclasses.replace(find_algorithms()[name](), learning_rate=0.25, max_gradient_norm=float("inf"))
    config = TrainConfig(env="x", steps=1, algorithm=algorithm)
    value = json.loads(json.dumps(config_to_json(config), allow_nan=False))
    assert value["algorithm"]["name"] == name
    back = config_from_json(value)
    assert back == config
    assert type(back.algorithm) is find_algorithms()[name]


def test_values_that_a_newer_version_added_take_their_defaults():
    config = load_preset("cartpole")
    value = config_to_json(config)
    del value["seed"]
    del value["replay"]
    back = config_from_json(value)
    assert back.seed == 0
    assert back.replay == type(config.replay)()


def test_mistakes_are_collected():
    value = config_to_json(load_preset("cartpole"))
    del value["env"]
    value["steps"] = "many"
    value["colour"] = 1
    value["replay"] = 3
    value["algorithm"]["learning_rate"] = "fast"
    with pytest.raises(ConfigError) as caught:
        config_from_json(value)
    assert {problem.key for problem in caught.value.problems} == {
        "env",
        "steps",
        "colour",
        "replay",
        "algorithm.learning-rate",
    }


@pytest.mark.parametrize("algorithm", [{"name": "no such"}, {}, 3])
def test_an_unknown_algorithm_is_named(algorithm):
    value = config_to_json(load_preset("cartpole"))
    value["algorithm"] = algorithm
    with pytest.raises(ConfigError, match="algorithm"):
        config_from_json(value)


def test_a_record_from_before_small_pictures_sees_them_as_vectors():
    value = config_to_json(load_preset("cartpole"))
    assert config_from_json(value).environment.picture_size == 5
    del value["environment"]["picture_size"]
    assert config_from_json(value).environment.picture_size == 20


def test_a_record_from_before_pictures_of_other_numbers_sees_pictures_as_it_did():
    value = config_to_json(load_preset("mini"))
    assert config_from_json(value).environment.pictures == "by_shape"
    value["environment"]["pictures"] = "auto"
    assert config_from_json(value).environment.pictures == "auto"
    del value["environment"]["pictures"]
    assert config_from_json(value).environment.pictures == "bytes"


def test_a_record_from_before_action_masks_has_none():
    value = config_to_json(load_preset("cartpole"))
    assert config_from_json(value).environment.action_masks == "auto"
    del value["environment"]["action_masks"]
    assert config_from_json(value).environment.action_masks == "off"
    assert config_from_json(value).environment.picture_size == 5


@pytest.mark.parametrize(("name", "torso"), [("acer", "atari_cnn"), ("dmlab30", "impala_resnet")])
def test_a_run_of_the_first_releases_keeps_what_it_began_with(name, torso):
    """The records were written by the version of 2026-11-21; later defaults and presets must not reach such a run."""
    record = json.loads((Path(__file__).parent / "old_configs" / f"{name}.json").read_text())
    config = config_from_json(record)
    assert list(find_problems(config)) == []
    assert config.network.torso == torso
    assert config.environment.fire_at_reset
    assert config.environment.action_bounds == "clip"
    assert _kept(record, config_to_json(config)) == record


def _kept(record, now):
    """Return what a config has now for the keys of a record, at every depth; what was left open may be decided."""
    if not isinstance(record, dict):
        return now if record is not None else None
    return {key: _kept(value, now[key]) for key, value in record.items() if key in now}
