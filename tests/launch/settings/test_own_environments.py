"""The settings of a user's own environment: from flags, files, Python and sweeps to the record and back."""

import dataclasses
import json

import pytest

import laser
from laser.config import ConfigError
from laser.environments.config import EnvironmentConfig
from launch.command_line.arguments import parse_sweep, parse_train
from launch.command_line.flags import format_flags
from launch.settings.json_form import config_from_json, config_to_json
from launch.settings.values import find_leaves


class Environment:
    """Stands for a class of the user; settings do not build it."""


FLAGS = ["cartpole", "--environment.kwargs.max_size", "9", "--environment.kwargs.mode=hard", "--run-dir", "/tmp/x"]


def test_arguments_on_the_command_line_reach_the_record_and_come_back():
    config = parse_train([*FLAGS, "--environment.kwargs.map.goal", "[1, 2]", "--environment.wrappers", "a:B(x=1),c:D"])
    assert config.environment.kwargs == {"max_size": 9, "mode": "hard", "map": {"goal": [1, 2]}}
    saved = json.loads(json.dumps(config_to_json(config)))
    assert saved["environment"]["kwargs"] == {"max_size": 9, "mode": "hard", "map": {"goal": [1, 2]}}
    again = config_from_json(saved)
    assert again == config
    assert hash(again.environment) == hash(config.environment)


def test_flags_override_single_arguments_of_a_file(tmp_path):
    path = tmp_path / "own.toml"
    path.write_text('[environment.kwargs]\nmax_size = 3\nwalls = "9"\n')
    config = parse_train([*FLAGS, "--config", str(path)])
    assert config.environment.kwargs == {"max_size": 9, "walls": "9", "mode": "hard"}


def test_records_without_arguments_still_load():
    saved = config_to_json(laser.load_preset("cartpole"))
    del saved["environment"]["kwargs"], saved["environment"]["wrappers"]
    assert config_from_json(saved).environment == EnvironmentConfig()


def test_a_sweep_tries_several_values_of_an_argument():
    sweep = parse_sweep([*FLAGS, "--grid", "environment.kwargs.num-walls=1,2"])
    found = [member.config.environment.kwargs for member in sweep.members()]
    assert found == [{"max_size": 9, "mode": "hard", "num_walls": number} for number in (1, 2)]


def test_mistakes_in_arguments_name_their_key():
    with pytest.raises(ConfigError, match=r"environment\.kwargs\.size: needs a value"):
        parse_train(["cartpole", "--environment.kwargs.size"])
    with pytest.raises(ConfigError, match=r"environment\.kwargs: must be a table"):
        parse_train(["cartpole", "--environment.kwargs", "9"])
    with pytest.raises(ConfigError, match=r"environment\.kwarg\.size: unknown key"):
        parse_train(["cartpole", "--environment.kwarg.size", "9"])
    with pytest.raises(ConfigError, match=r"environment\.wrappers: must be module:Wrapper"):
        parse_train(["cartpole", "--environment.wrappers", "Longer"])


def test_help_shows_how_arguments_are_named():
    assert "--environment.kwargs.NAME VALUE" in format_flags(find_leaves(laser.load_preset("cartpole")))


def test_python_takes_a_class_or_a_function_as_environment():
    path = f"{__name__}:Environment"
    assert laser.load_preset("cartpole", {"env": Environment}).env == path
    config = dataclasses.replace(laser.load_preset("cartpole"), env=Environment)
    assert config.env == path
    config.check()


@pytest.mark.parametrize("change", [{"runtime": "ray"}, {"environment": EnvironmentConfig(vectorization="async")}])
def test_what_processes_cannot_import_is_refused_before_a_start(change):
    config = dataclasses.replace(laser.load_preset("cartpole", {"env": lambda: None}))
    config.check()
    with pytest.raises(ConfigError, match=r"^env: other processes cannot import .*<lambda>#\d+; define it at the top"):
        dataclasses.replace(config, **change).check()
