"""Sweeps with more members than train at once: turns, shared experience, failures, and continuation after a stop."""

from __future__ import annotations

import dataclasses
import functools
import shutil
import signal
import threading
from contextlib import nullcontext

import pytest
import torch
from small_sweeps import SMALL
from stopped_sweeps import stopped

from actors.evaluator import Evaluator
from laser.foreign_threads import left_behind
from launch.errors import Interrupted, LaunchError
from launch.planning.plan import make_plan
from launch.presets import change, load_preset
from launch.records.exchange_reader import read_exchange_sums
from launch.records.metrics_db import MetricsDb, read_series
from launch.runtimes.local_runtime import LocalRuntime
from launch.supervision import places, session
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.signals import StopSignal
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.train import train
from learner.checkpoint import list_checkpoints, load_newest_checkpoint
from learner.learner import Learner

RATES = {"algorithm.learning-rate": [3e-3, 1e-3, 3e-4]}
both_schedules = pytest.mark.parametrize("schedule", ["lockstep", "free"])


def small(path, grid=RATES, concurrent=1, share_replay=True, seeds=1, **changes):
    base = dataclasses.replace(change(load_preset("cartpole"), SMALL | changes), run_dir=path)
    return SweepConfig(base, grid, SweepOptions(seeds=seeds, share_replay=share_replay, concurrent=concurrent))


def weights(result):
    found = {}
    for member in result.members:
        checkpoint, _ = load_newest_checkpoint(member.result.run_dir / "checkpoints")
        found |= {f"{member.number}/{name}": item for name, item in checkpoint.tensors["networks"].items()}
    return found


def same(one, other):
    assert set(one) == set(other)
    return all(torch.equal(value, other[name]) for name, value in one.items())


@both_schedules
@pytest.mark.parametrize("share_replay", [True, False])
def test_no_more_members_than_asked_for_train_at_once(tmp_path, monkeypatch, schedule, share_replay):
    place_later, alive = places.place_later, []

    def watched(member, *arguments):
        alive.append((member.number, sum(name.startswith("learner") for name in left_behind())))
        return place_later(member, *arguments)

    monkeypatch.setattr(places, "place_later", watched)
    config = small(tmp_path / "run", concurrent=2, share_replay=share_replay, seeds=2, schedule=schedule)
    result = sweep(config)
    assert [number for number, _ in alive] == [2, 3, 4, 5], "members get places in the order of their numbers"
    assert all(others < 2 for _, others in alive)
    assert [member.result.finished for member in result.members] == ["steps"] * 6
    assert all(member.result.env_steps >= 384 for member in result.members)
    assert not [name for name in left_behind() if name.startswith(("learner", "actor"))]


def test_a_lockstep_sweep_with_turns_repeats_bit_by_bit(tmp_path):
    first, second = (sweep(small(tmp_path / name, concurrent=2)) for name in "ab")
    assert same(weights(first), weights(second))


@pytest.mark.parametrize("kept", [[], ["config.json", "lock", "log.txt", "metrics.db"]], ids=["no directory", "killed"])
def test_members_that_had_not_trained_begin_after_a_resume(tmp_path, kept):
    """As if the sweep had never stopped, also with the weights of another run, and after a kill during a start."""
    weighty = train(dataclasses.replace(small(tmp_path / "weights").base, seed=9))
    changes = {"init_from": str(weighty.run_dir), "share_replay": False}
    whole = sweep(small(tmp_path / "whole", **changes))
    sweep(small(tmp_path / "parts", **changes))
    shutil.rmtree(tmp_path / "parts" / "members" / "2")
    for name in kept:
        path = tmp_path / "parts" / "members" / "2" / name
        path.parent.mkdir(exist_ok=True)
        if name == "metrics.db":
            MetricsDb(path).close()
        else:
            shutil.copy(tmp_path / "whole" / "members" / "2" / name, path)
    again = sweep(small(tmp_path / "parts", **changes, resume=True))
    assert same(weights(whole), weights(again))


def test_members_of_replays_of_their_own_learn_as_if_nobody_waited(tmp_path):
    """In lockstep nothing but the replay connects members."""
    waited, at_once = (sweep(small(tmp_path / str(num), concurrent=num, share_replay=False)) for num in (1, 0))
    assert same(weights(waited), weights(at_once))


@both_schedules
def test_a_late_member_draws_from_all_that_is_there(tmp_path, schedule):
    result = sweep(small(tmp_path / "run", schedule=schedule))
    shares = []
    for member in result.members:
        path = member.result.run_dir / "metrics.db"
        drawn = read_exchange_sums(path)
        foreign = sum(counts["steps"] for maker, counts in drawn.items() if maker != member.number)
        shares.append(foreign / read_series(path, "totals/steps_learned/replayed")[-1][1])
    # Uniform over x own steps and n of each member before: the mean of n/(n+x) while x grows to n, and of 2n/(2n+x).
    # In turns the learner draws evenly while x grows; a thread draws when it gets to run.
    expected = [0.0, 0.69, 0.81]
    if schedule == "lockstep":
        assert shares == pytest.approx(expected, abs=0.12)
    else:
        assert shares[0] == 0.0
        assert all(0.4 < share < 1.0 for share in shares[1:])


@both_schedules
def test_a_sweep_goes_on_with_done_running_and_waiting_members(tmp_path, monkeypatch, schedule):
    num_steps = 384 if schedule == "lockstep" else 4000  # threads make some hundreds before a stop is seen
    config = small(tmp_path / "run", schedule=schedule, steps=num_steps)
    stopped(config, monkeypatch, member=1, env_steps=100)
    members = tmp_path / "run" / "members"
    saved = [load_newest_checkpoint(members / name / "checkpoints")[0].state["recorder"]["totals"] for name in "01"]
    steps = [int(totals["env_steps"]) for totals in saved]
    assert steps[0] >= num_steps > steps[1] >= 100
    assert not (members / "2").exists(), "a member that waits has no directory"
    result = sweep(dataclasses.replace(config, base=dataclasses.replace(config.base, resume=True)))
    assert [member.result.finished for member in result.members] == ["steps"] * 3
    assert result.members[0].result.env_steps == steps[0], "a member that was done does not train again"
    assert min(member.result.env_steps for member in result.members) >= num_steps


@pytest.mark.parametrize("share_replay", [True, False])
def test_a_sweep_with_turns_goes_on_as_if_it_had_not_been_interrupted(tmp_path, monkeypatch, share_replay):
    values = {"share_replay": share_replay, "checkpoint_replay": True}
    whole = sweep(small(tmp_path / "whole", **values))
    stopped(small(tmp_path / "parts", **values), monkeypatch, member=1, env_steps=200)
    again = sweep(small(tmp_path / "parts", **values, resume=True))
    assert same(weights(whole), weights(again))


def test_a_member_that_is_being_started_at_a_stop_goes_on_too(tmp_path, monkeypatch):
    place_later, stop = places.place_later, StopSignal()

    def watched(*arguments):
        stop.number = signal.SIGINT
        return place_later(*arguments)

    with monkeypatch.context() as patch:
        patch.setattr(places, "place_later", watched)
        patch.setattr(places.Starting, "is_over", False)
        patch.setattr("launch.sweeps.sweep.stop_on_signals", lambda: nullcontext(stop))
        with pytest.raises(Interrupted, match="--resume"):
            sweep(small(tmp_path / "run", schedule="free"))
    assert list_checkpoints(tmp_path / "run" / "members" / "1" / "checkpoints")
    result = sweep(small(tmp_path / "run", schedule="free", resume=True))
    assert [member.result.finished for member in result.members] == ["steps"] * 3


def test_an_evaluation_that_hangs_does_not_keep_a_place_for_ever(tmp_path, monkeypatch):
    goes_on = threading.Event()

    def evaluate_report(self, *arguments):
        goes_on.wait(60.0)

    monkeypatch.setattr(Evaluator, "evaluate_report", evaluate_report)
    for module in ("schedule", "free"):
        monkeypatch.setattr(f"launch.supervision.{module}.CALL_DEADLINE_S", 0.3)
    try:
        result = sweep(small(tmp_path / "run", schedule="free", **{"evaluation.interval": 200}))
    finally:
        goes_on.set()
    assert [member.result.finished for member in result.members] == ["steps"] * 3


def test_in_lockstep_a_late_member_takes_turns_with_the_others(tmp_path, monkeypatch):
    stop, supervisors, when = MemberSupervisor.stop, {}, []

    def watched(self, *arguments):
        supervisors[self.number] = self
        if self.number == 2:
            when.append(1 in supervisors)
        stop(self, *arguments)

    monkeypatch.setattr(MemberSupervisor, "stop", watched)
    sweep(small(tmp_path / "run", {"steps": [384, 704, 385]}, concurrent=2))
    assert when == [True], "member 1 has 320 steps left when member 2 begins, which has 384"


@pytest.mark.parametrize("member", [0, 1])
def test_a_member_has_a_checkpoint_before_its_first_step(tmp_path, monkeypatch, member):
    start, kept = MemberSupervisor.start, {}

    def watched(self):
        kept[self.number] = len(list_checkpoints(tmp_path / "run" / "members" / str(self.number) / "checkpoints"))
        start(self)

    monkeypatch.setattr(MemberSupervisor, "start", watched)
    sweep(small(tmp_path / "run", schedule="free"))
    assert kept[member] == 1


@both_schedules
@pytest.mark.parametrize("method", ["warm_up", "state_dict", "report"])
def test_the_place_of_a_member_that_fails_is_given_to_the_next(tmp_path, monkeypatch, schedule, method):
    works = getattr(Learner, method)

    @functools.wraps(works)
    def fails(self, *arguments):
        if self._member == 1:
            raise RuntimeError(f"no {method} here")
        return works(self, *arguments)

    monkeypatch.setattr(Learner, method, fails)
    result = sweep(small(tmp_path / "run", schedule=schedule))
    assert [member.result.finished for member in result.members] == ["steps", "failed", "steps"]
    assert f"no {method} here" in result.members[1].error
    assert f"no {method} here" in (tmp_path / "run" / "members" / "1" / "log.txt").read_text()


def test_a_sweep_whose_members_all_fail_fails(tmp_path, monkeypatch):
    def step(self, *arguments):
        raise LaunchError("env", "is broken", "repair it")

    monkeypatch.setattr(Learner, "step", step)
    with pytest.raises(LaunchError, match="is broken"):
        sweep(small(tmp_path / "run"))
    assert all("is broken" in (tmp_path / "run" / "members" / name / "log.txt").read_text() for name in "012")


@pytest.mark.parametrize("runtime", ["local", "ray"])
def test_a_plan_counts_the_members_that_train_at_once(tmp_path, runtime):
    rates = {"algorithm.learning-rate": [3e-3, 1e-3], "network.hidden-sizes": [(8,), (64, 64)]}
    config = small(tmp_path / "run", rates, share_replay=False, runtime=runtime)
    configs = [member.config for member in config.members()]
    large = [config for config in configs if config.network.hidden_sizes == (64, 64)]
    waiting, at_once = make_plan(configs, concurrent=2), make_plan(large)
    assert waiting.memory == at_once.memory, "the two largest, in case they meet"
    assert waiting.needs == dataclasses.replace(at_once.needs, may_wait=True)
    assert make_plan(configs).needs.num_learners == make_plan(configs, concurrent=9).needs.num_learners == 4


def test_a_member_that_waited_starts_from_the_weights_of_another_run_too(tmp_path):
    train(dataclasses.replace(change(load_preset("cartpole"), SMALL), run_dir=tmp_path / "other"))
    result = sweep(small(tmp_path / "run", init_from=str(tmp_path / "other")))
    for member in result.members:
        log = (member.result.run_dir / "log.txt").read_text(encoding="utf-8")
        assert f"from {tmp_path / 'other'}" in log


def test_places_come_and_go_with_the_room_of_the_runtime(tmp_path, monkeypatch):
    """Nodes that join a cluster make more places, nodes that leave fewer; who trains keeps its place."""
    place_later, seen = places.place_later, []

    def room(runtime=None):
        return 1 if len(seen) < 3 else 3

    def watched(member, *arguments):
        seen.append((sum(name.startswith("learner") for name in left_behind()), room()))
        return place_later(member, *arguments)

    monkeypatch.setattr(LocalRuntime, "room", room)
    monkeypatch.setattr(places, "_ROOM_EVERY_S", -1.0)
    monkeypatch.setattr(places, "place_later", watched)
    said = []
    monkeypatch.setattr(session, "say", said.append)
    config = small(tmp_path / "run", concurrent=2, seeds=3, schedule="free", quiet=False)
    result = sweep(config)
    assert [member.result.finished for member in result.members] == ["steps"] * 9
    assert [others for others, _ in seen[:3]] == [0, 0, 0], "two trained when the room became one; both had to end"
    assert max(others for others, _ in seen) == 1, "never more than asked for"
    words = [line for line in said if "room" in line]
    assert words == [
        "the cluster has room for 1 member at once now, fewer than before",
        "the cluster has room for 2 members at once now, more than before",
    ]
