"""Contents of a checkpoint: which actors go on from each other's state, and a replay of which a shard has ended."""

import dataclasses
from types import SimpleNamespace

import pytest

from actors.config import ActorConfig
from laser.environments import EnvironmentConfig
from laser.ports import PortClosedError
from launch.presets import load_preset
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import _made_for, _save_replay


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


class Ended:
    """The port of a shard that has ended with its node."""

    def partial_state(self, known, life):
        raise PortClosedError("its node has ended")


@pytest.mark.parametrize("outlasts", [True, False])
def test_a_checkpoint_goes_without_a_replay_of_which_a_shard_ended_before_it_was_ever_saved(tmp_path, outlasts):
    topology = SimpleNamespace(shards=[Ended()], config=SimpleNamespace(outlasts_deaths=outlasts))
    run = RunDirectory(tmp_path, resumed=False)
    if outlasts:
        assert _save_replay(run, topology) == []
    else:
        with pytest.raises(PortClosedError):
            _save_replay(run, topology)
