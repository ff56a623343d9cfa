import pytest

from laser.config import ConfigError, find_problems
from launch.config import TrainConfig
from launch.presets import find_presets, load_preset


def test_the_presets_of_the_first_agent_are_there():
    assert {"cartpole", "impala_cartpole", "pong", "impala_pong", "hopper", "halfcheetah", "atari"} <= set(
        find_presets()
    )


@pytest.mark.parametrize("name", find_presets())
def test_every_preset_is_a_right_config_with_a_line_of_help(name):
    config = load_preset(name)
    assert isinstance(config, TrainConfig)
    assert config.preset == name
    assert list(find_problems(config)) == []
    assert list(config.warnings()) == []
    assert find_presets()[name].endswith((".", "game"))
    assert len(find_presets()[name]) < 110


def test_hyphens_are_the_same_as_underscores():
    assert load_preset("impala-pong") == load_preset("impala_pong")


@pytest.mark.parametrize("name", ["", "no-such", "../config", "__init__", "os"])
def test_what_is_no_preset_is_not_imported(name):
    with pytest.raises(ConfigError, match="there is no preset"):
        load_preset(name)
