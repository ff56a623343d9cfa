"""Which actors go on from each other's state."""

import dataclasses

from actors.config import ActorConfig
from laser.environments import EnvironmentConfig
from launch.presets import load_preset
from launch.supervision.checkpointing import _made_for


def test_actors_on_another_kind_of_device_begin_anew():
    """Their generators' states differ in size."""
    config = load_preset("cartpole")
    assert _made_for(config) == _made_for(dataclasses.replace(config, actor=ActorConfig()))
    assert _made_for(config) != _made_for(dataclasses.replace(config, actor=ActorConfig(device="cuda")))


def test_actors_of_records_without_arguments_and_wrappers_continue():
    config = load_preset("cartpole")
    made_for = _made_for(config)["environment"]
    assert not {"kwargs", "wrappers"} & set(made_for)
    own = dataclasses.replace(config, environment=EnvironmentConfig(kwargs={"size": 1}))
    assert _made_for(own)["environment"] == made_for | {"kwargs": {"size": 1}}
