"""The clock of the faults, and the time that counts as theirs, on a run that exists only in the test."""

import itertools
import math
from collections import Counter
from contextlib import nullcontext
from typing import get_args, get_type_hints

import numpy as np
import pytest

from launch.bench import chaos
from launch.bench.chaos_run.plan import CUT_CABLE, FULL_DISK, PARTS, PAUSE
from launch.bench.chaos_run.victim import Look

CALM, BROKEN = 10.0, 4.0
"""Updates per second without faults, and between the first and the last one."""
RECOVERY_S = 20.0


class FakeRun:
    """A run, its faults and the clock at once: time passes where the real ones wait, with updates at a known rate."""

    def __init__(self):
        self.now, self.rate, self.last_update = 0.0, CALM, math.inf
        self.path, self.looks, self.begins = None, [Look(0.0, 0, 0, 0)], []
        self.kills, self.others, self.learner_deaths, self.num_left = Counter(), Counter(), [], 0

    def monotonic(self):
        return self.now

    def wait(self, seconds):
        passed = max(0.0, seconds)
        self.now += passed
        self.looks.append(Look(self.now, 0, self.looks[-1].num_updates + round(self.rate * passed), 0))

    def wait_for_updates(self):
        self.wait(1.0)
        self.rate = CALM

    @property
    def has_ended(self):
        return self.looks[-1].num_updates >= self.last_update

    def make(self, fault):
        self.begins.append(self.now)
        self.rate = BROKEN
        self.wait(RECOVERY_S)

    def start(self):
        pass

    stop = look = leave_nothing = start


@pytest.fixture
def fake(monkeypatch):
    run = FakeRun()
    monkeypatch.setattr(chaos, "time", run)
    return run


def test_the_time_that_a_fault_takes_is_no_part_of_the_pause_to_the_next(fake):
    num, mean = 2000, 60.0
    options = chaos.Options(kills=num, every=mean)
    chaos._make_all(options, fake, fake, np.random.default_rng(0), can_fill_disk=False)
    pauses = np.diff(fake.begins)
    assert len(pauses) >= num
    assert pauses.min() == pytest.approx(RECOVERY_S), "the next one begins at once if its time has passed"
    # The mean of the larger one of a recovery and an exponential draw, within five standard errors.
    expected = RECOVERY_S + mean * np.exp(-RECOVERY_S / mean)
    assert pauses.mean() == pytest.approx(expected, abs=5 * mean / np.sqrt(num))


def test_every_part_can_be_chosen():
    hints = get_type_hints(chaos.Options)
    assert set(get_args(hints["part"])) == {"all", "any", *PARTS}


@pytest.mark.parametrize("kills", [0, 40])
@pytest.mark.parametrize(("part", "others"), [("all", {PAUSE, FULL_DISK, CUT_CABLE}), ("any", set())])
def test_kills_of_any_part_may_be_alone(kills, part, others):
    options = chaos.Options(kills=kills, part=part, nodes=2)
    faults = itertools.islice(chaos._faults(options, np.random.default_rng(0), can_fill_disk=True), 500)
    assert set(faults) == {*PARTS, *others}


@pytest.mark.parametrize("kills", [0, 7])
def test_one_part_alone_can_be_killed(fake, kills, monkeypatch):
    made = []
    monkeypatch.setattr(fake, "make", lambda fault: (made.append(fault), fake.wait(1.0)))
    options = chaos.Options(kills=kills, minutes=1.0, every=5.0, part="learner")
    chaos._make_all(options, fake, fake, np.random.default_rng(0), can_fill_disk=True)
    assert set(made) == {"learner"}
    assert len(made) == kills if kills else len(made) > 3


def test_what_follows_the_last_recovery_is_no_part_of_the_effective_time(fake, monkeypatch):
    monkeypatch.setattr(chaos, "Victim", lambda *_: fake)
    monkeypatch.setattr(chaos, "Faults", lambda *_: fake)
    monkeypatch.setattr(chaos, "small_disk", lambda folder: nullcontext("not here"))
    monkeypatch.setattr(chaos, "find_missing", lambda *_: [])
    monkeypatch.setattr(chaos, "read_accounts", lambda path: {})
    fake.last_update = 100_000
    result = chaos.run(chaos.Options(kills=20, every=60.0, steps=200_000))
    assert result["ended_by_itself"]
    assert fake.now - fake.begins[-1] > 5000, "a long rest without faults"
    # Until the first fault the rate is the calm one: at most a tenth of the time of the faults.
    assert BROKEN / CALM < result["effective_training_time"] < BROKEN / CALM + 0.1


def test_how_far_it_is_is_said(fake):
    def said(**options):
        standing = chaos._Standing(chaos.Options(**options), fake, fake, begun_at=0.0)
        return standing.words(), standing.share

    fake.looks.clear()
    assert said(kills=4) == ("a run on Ray starts", 0.0)
    fake.looks.append(Look(0.0, 0, 1_234, 0))
    fake.now = 90.0
    fake.kills.update(actor=2, learner=1)
    fake.others.update({"pause": 2, "full disk": 1})
    assert said(kills=4) == ("3 of 4 kills · 1 full disk · 2 pauses · 1,234 updates · 1.5 minutes", 0.75)
    assert said(minutes=6.0) == ("3 kills · 1 full disk · 2 pauses · 1,234 updates · 1.5 minutes", 0.25)
