"""Runs that are measured for a moment."""

import dataclasses
import math
import time
from contextlib import contextmanager

import pytest

from launch.bench._measured_run import difference, measure_run
from launch.presets import load_preset
from launch.recording.recorder import Snapshot


def snapshot(seconds, **changes):
    values = {"env_steps": 0, "frames": 0, "learner_steps": 0, "episodes": 0, "mean_return": math.nan, "bottleneck": ""}
    rates = {"env_steps_per_second": math.nan, "learner_steps_per_second": math.nan}
    return Snapshot(seconds=seconds, **(values | rates | changes))


def test_numbers_are_of_what_lies_between_two_moments():
    begin = snapshot(2.0, env_steps=100, frames=400, learner_steps=10, counters={"time/learner_wait": 1.0})
    end = snapshot(
        4.0,
        env_steps=500,
        frames=2000,
        learner_steps=30,
        mean_return=-3.0,
        bottleneck="learner",
        counters={
            "time/learner_wait": 1.5,
            "time/learner_step": 1.3,
            "time/publish": 0.2,
            "time/environment": 3.0,
            "time/inference": 1.0,
        },
        gauges={"policy_lag/online/p50": 7.0, "loss": 1.0},
    )
    measured = difference(begin, end, warm_up_s=5.0, start_s=6.0)
    assert (measured.seconds, measured.warm_up_s, measured.start_s) == (2.0, 5.0, 6.0)
    assert measured.env_steps_per_second == 200.0
    assert measured.frames_per_second == 800.0
    assert measured.updates_per_second == 10.0
    assert measured.idle_share == pytest.approx(0.25)
    assert measured.actor_shares == pytest.approx({"environment": 0.75, "inference": 0.25, "insert_wait": 0.0})
    assert measured.policy_lag == {"online/p50": 7.0}
    assert (measured.mean_return, measured.bottleneck) == (-3.0, "learner")


def cartpole(**changes):
    return dataclasses.replace(load_preset("cartpole"), runtime="local", device="cpu", **changes)


def test_agents_that_share_a_replay_are_measured_each():
    measured = measure_run([cartpole(seed=0), cartpole(seed=1)], 2.0, share_replay=True)
    assert len(measured) == 2
    for each in measured:
        assert each.env_steps_per_second > 0
        assert each.updates_per_second > 0
        assert 0.0 <= each.idle_share <= 1.0
        assert 2.0 <= each.seconds < 60.0
        assert each.start_s >= each.warm_up_s > 0.0


def test_who_watches_can_end_it_and_it_runs_inside_what_it_is_given():
    log = []

    @contextmanager
    def alone():
        log.append("begin")
        yield
        log.append("end")

    def watch(snapshots):
        log.append(snapshots[0].learner_steps)
        return len(log) == 4

    begun = time.monotonic()
    measure_run([cartpole()], 600.0, watch=watch, alone=alone)
    assert time.monotonic() - begun < 60.0
    assert (log[0], log[-1], len(log)) == ("begin", "end", 5)
    assert all(steps > 0 for steps in log[1:-1])
