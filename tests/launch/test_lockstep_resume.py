"""A resumed lockstep run equals an uninterrupted one: over several shards, and with recurrent networks."""

import dataclasses
import sqlite3
from contextlib import closing

import pytest
import torch

from actors.config import ActorConfig
from laser.environments.config import EnvironmentConfig
from launch.presets import load_preset
from launch.train import train
from learner.checkpoint import load_newest_checkpoint


def small(path, *, recurrent, num_shards, **changes):
    config = load_preset("cartpole")
    values = {"quiet": True, "run_dir": path, "runtime": "lockstep", "num_envs": 3, "num_actors": 2, **changes}
    replay = dataclasses.replace(config.replay, capacity_steps=1000, min_steps=128, num_shards=num_shards)
    network = config.network
    if recurrent:
        network = dataclasses.replace(network, core="lstm", core_size=8, separate_critic=False)
    # Fresh unrolls that do not fill a batch wait for the next one, also across a resumption.
    algorithm = dataclasses.replace(config.algorithm, batch_size=16, replay_fraction=0.75)
    return dataclasses.replace(
        config, algorithm=algorithm, replay=replay, network=network, checkpoint_replay=True, **values
    )


def saved(path):
    checkpoint, warnings = load_newest_checkpoint(path / "checkpoints")
    assert not warnings
    return {f"{group}/{name}": value for group, part in checkpoint.tensors.items() for name, value in part.items()}


@pytest.mark.parametrize(("recurrent", "num_shards"), [(True, 1), (True, 2), (False, 2)])
def test_a_resumed_run_equals_one_that_was_never_interrupted(tmp_path, recurrent, num_shards):
    kind = {"recurrent": recurrent, "num_shards": num_shards}
    whole = train(small(tmp_path / "whole", steps=1024, **kind))
    train(small(tmp_path / "parts", steps=600, **kind))  # amid a batch
    train(small(tmp_path / "parts", steps=1024, resume=True, **kind))
    one, other = saved(tmp_path / "whole"), saved(tmp_path / "parts")
    assert set(one) == set(other)
    assert ("replay_states/hidden" in one) == recurrent
    for name, value in one.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0, msg=name)
    assert whole.learner_steps > 10


@pytest.mark.parametrize(
    "changed",
    [{"num_envs": 2}, {"actor": ActorConfig(env_groups=2)}, {"environment": EnvironmentConfig(vectorization="sync")}],
)
def test_actors_begin_anew_where_they_are_made_otherwise(tmp_path, changed):
    config = dataclasses.replace(small(tmp_path / "run", recurrent=False, num_shards=1), checkpoint_replay=False)
    train(dataclasses.replace(config, steps=512))
    result = train(dataclasses.replace(config, steps=1024, resume=True, **changed))
    assert result.env_steps >= 1024
    with closing(sqlite3.connect(tmp_path / "run" / "metrics.db")) as metrics:
        steps = [step for (step,) in metrics.execute("SELECT env_steps FROM ticks ORDER BY tick")]
    assert steps == sorted(steps), "nothing is counted twice or taken back"
