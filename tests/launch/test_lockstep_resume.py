"""A resumed lockstep run equals an uninterrupted one: over several shards, and with recurrent networks."""

import dataclasses
import signal
import sqlite3
from contextlib import closing, nullcontext

import pytest
import torch

from actors.config import ActorConfig
from laser.environments.config import EnvironmentConfig
from launch.errors import Interrupted
from launch.presets import load_preset
from launch.supervision.signals import StopSignal
from launch.train import train
from learner.checkpoint import load_newest_checkpoint
from learner.learner import Learner


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


def many_updates(path, **changes):
    """Return a small run in which 64 updates, in four calls, follow each turn of the actor."""
    settings = {"replay.min-steps": 64, "replay.capacity-steps": 1000, "replay.samples-per-insert": 256.0}
    settings |= {"network.hidden-sizes": (8,), "quiet": True, "checkpoint-replay": True, "stop-at-return": float("inf")}
    return load_preset("acer_pendulum", {**settings, "steps": 320, "run-dir": path, **changes})


@pytest.fixture(scope="module")
def never_stopped(tmp_path_factory):
    path = tmp_path_factory.mktemp("never_stopped") / "run"
    assert train(many_updates(path)).learner_steps == 64 * 4
    return saved(path)


@pytest.mark.parametrize("stopped_at", [2, 4, 7])
def test_a_stop_amid_the_updates_of_a_turn_waits_for_one_call_and_the_rest_is_made_later(
    tmp_path, monkeypatch, never_stopped, stopped_at
):
    stop, step, calls = StopSignal(), Learner.step, []

    def step_on(self, num_updates):
        calls.append(num_updates)
        if len(calls) == stopped_at:
            stop.number = signal.SIGINT
        return step(self, num_updates)

    step_on.__name__ = "step"
    with monkeypatch.context() as patch:
        patch.setattr(Learner, "step", step_on)
        patch.setattr("launch.train.stop_on_signals", lambda: nullcontext(stop))
        with pytest.raises(Interrupted):
            train(many_updates(tmp_path / "parts"))
    assert calls == [16] * stopped_at
    train(many_updates(tmp_path / "parts", resume=True))
    other = saved(tmp_path / "parts")
    for name, value in never_stopped.items():
        torch.testing.assert_close(value, other[name], rtol=0, atol=0, msg=name)


def test_a_turn_of_many_updates_reports_while_it_learns(tmp_path, monkeypatch):
    monkeypatch.setattr("launch.supervision.lockstep.REPORT_INTERVAL_S", 0.0)
    order, step, report = [], Learner.step, Learner.report

    def step_on(self, num_updates):
        order.append("step")
        return step(self, num_updates)

    def report_on(self):
        order.append("report")
        return report(self)

    step_on.__name__, report_on.__name__ = "step", "report"
    monkeypatch.setattr(Learner, "step", step_on)
    monkeypatch.setattr(Learner, "report", report_on)
    train(many_updates(tmp_path / "run", steps=128))
    assert "step report step report step report step report" in " ".join(order)


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
