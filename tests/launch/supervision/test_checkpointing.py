"""Which actors go on from each other's state."""

import dataclasses

from actors.config import ActorConfig
from launch.presets import load_preset
from launch.supervision.checkpointing import _made_for


def test_actors_on_another_kind_of_device_begin_anew():
    """Their generators' states differ in size."""
    config = load_preset("cartpole")
    assert _made_for(config) == _made_for(dataclasses.replace(config, actor=ActorConfig()))
    assert _made_for(config) != _made_for(dataclasses.replace(config, actor=ActorConfig(device="cuda")))
