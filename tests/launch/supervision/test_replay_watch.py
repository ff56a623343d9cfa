"""The watch over a member's shards, with shards that die when the test says so."""

from __future__ import annotations

from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace

import pytest

from laser.futures import done, failed
from laser.ports import PortAwayError, PortClosedError
from laser.replay_stats import LedgerCounts, MemberStats, ReplayStats, add_stats
from launch.errors import NothingToResumeError
from launch.planning.member_plan import plan_member
from launch.presets import load_preset
from launch.recording.recorder import Recorder
from launch.runtimes.runtime import WorkerDiedError
from launch.supervision import restart_watch
from launch.supervision.budgets import Budgets
from launch.supervision.replay_watch import ReplayWatch


class FakeShard:
    """A shard's port."""

    def __init__(self):
        self.error: Exception | None = None
        self.begun: list[tuple[object, object]] = []

    def accounts(self) -> dict:
        if self.error is not None:
            raise self.error
        return {"streams": {}, "ledger": {"inserted": 7}}

    def presence(self) -> Future:
        return done((1, "", 0)) if self.error is None else failed(self.error)

    def begin_again(self, saved, last_seen) -> Future:
        self.error = None
        self.begun.append((saved, last_seen))
        return done(None)


def seen(inserted):
    return ReplayStats(LedgerCounts(inserted=inserted, received=inserted), members={0: MemberStats()})


class Watched:
    """Two shards under watch, and what was said about them."""

    def __init__(self, saved=None, max_failures=3, newest=None):
        saves = saved is not None or newest is not None
        changes = {"runtime": "ray", "replay.num_shards": 2, "num_actors": 2, "checkpoint_replay": saves}
        changes["max_failures"] = max_failures
        self.shards, self.lost, self.said = [FakeShard(), FakeShard()], [], []
        plan = plan_member(load_preset("cartpole", changes))
        topology = SimpleNamespace(
            shards=self.shards, member=plan, config=plan.config, owns_replay=True, actors=[], replay=None
        )
        self.recorder = recorder = Recorder(in_turns=True)
        self.budgets = Budgets(plan.config, recorder)
        newest, lost = newest or (lambda: saved), lambda *what: self.lost.append(what)
        self.watch = ReplayWatch(topology, recorder, self.budgets, newest, lost, self.said.append)

    def look(self):
        for _ in range(6):
            self.watch.watch()


class Saved:
    """A checkpoint that holds the replay."""

    checkpoint = SimpleNamespace(path=Path("000003-step-600"))

    def __init__(self, inserted, fault=""):
        self._inserted, self.replay_fault = inserted, fault

    def replay(self):
        return (
            []
            if self.replay_fault
            else [{"ledger": {"inserted": self._inserted}, "index": index} for index in range(2)]
        )


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch):
    monkeypatch.setattr(restart_watch, "_LOOK_INTERVAL_S", 0.0)


def test_a_shard_begins_empty_with_the_accounts_of_its_last_statistics():
    watched = Watched()
    watched.watch.look_at(ReplayStats(members={0: MemberStats()}, shards=(seen(10), seen(20))))
    watched.shards[1].error = PortAwayError("started anew")
    watched.look()
    assert watched.shards[1].begun == [(None, seen(20))]
    assert not watched.shards[0].begun
    assert watched.lost == [("shard_died", "shard 1 of the replay died: another one begins empty")]


@pytest.mark.parametrize(("inserted", "is_used"), [(15, True), (20, True), (21, False)])
def test_a_shard_begins_with_its_saved_part_unless_that_is_newer_than_its_last_statistics(inserted, is_used):
    watched = Watched(Saved(inserted))
    watched.watch.look_at(ReplayStats(members={0: MemberStats()}, shards=(seen(10), seen(20))))
    watched.shards[1].error = PortAwayError("started anew")
    watched.look()
    ((part, _),) = watched.shards[1].begun
    assert (part is not None) is is_used
    if is_used:
        assert part["index"] == 1
    too_new = "it is newer than the last statistics, so that unrolls would be unaccounted for"
    unused = f"begins empty, since what was saved cannot be used: {too_new}"
    how = "continues from 000003-step-600" if is_used else unused
    assert watched.lost == [("shard_died", f"shard 1 of the replay died: another one {how}")]


def test_a_shard_whose_saved_part_is_damaged_begins_empty_and_the_file_is_named():
    watched = Watched(Saved(10, fault="replay/shard1.npz is damaged"))
    watched.watch.look_at(ReplayStats(members={0: MemberStats()}, shards=(seen(10), seen(20))))
    watched.shards[1].error = PortAwayError("started anew")
    watched.look()
    assert watched.shards[1].begun == [(None, seen(20))]
    how = "begins empty, since what was saved cannot be used: replay/shard1.npz is damaged"
    assert watched.lost == [("shard_died", f"shard 1 of the replay died: another one {how}")]


def test_a_shard_begins_empty_where_no_checkpoint_verifies():
    def newest():
        raise NothingToResumeError("resume", "no checkpoint verifies")

    watched = Watched(newest=newest)
    watched.shards[1].error = PortAwayError("started anew")
    watched.look()
    assert watched.shards[1].begun == [(None, None)]
    assert "cannot be used: no checkpoint verifies" in watched.lost[0][1]


def test_all_shards_begin_again():
    watched = Watched()
    for shard in watched.shards:
        shard.error = PortAwayError("started anew")
    watched.look()
    assert [len(shard.begun) for shard in watched.shards] == [1, 1]


def test_a_shard_that_dies_too_often_ends_the_run_and_its_budget_is_its_own():
    watched = Watched()
    for _ in range(3):
        for shard in watched.shards:
            shard.error = PortAwayError("started anew")
        watched.look()
    watched.shards[0].error = PortAwayError("started anew")
    with pytest.raises(WorkerDiedError, match="shard 0 of the replay has ended"):
        watched.look()
    assert len(watched.lost) == 6


def test_the_run_does_without_a_shard_that_ended_with_its_node_but_not_without_the_last():
    watched = Watched()
    watched.shards[0].error = PortClosedError("shard 0 of the replay did not start: its node has ended")
    watched.look()
    watched.shards[1].error = PortAwayError("started anew")
    watched.look()
    assert len(watched.shards[1].begun) == 1
    watched.shards[1].error = PortClosedError("shard 1 of the replay did not start: its node has ended")
    with pytest.raises(PortClosedError, match="its node has ended"):
        watched.look()


def test_the_accounts_hold_without_a_shard_that_ended_with_its_node():
    watched = Watched()
    ledger = LedgerCounts(received=30, inserted=26, removed=6, not_saved=4)  # 16 are stored, 4 wait
    first = ReplayStats(
        ledger, {"inserted": 0}, {(1, 0, 0): 26}, 16, waiting_unrolls=4, members={0: MemberStats(9, 5, 4)}
    )
    other = seen(100)
    watched.watch.look_at(add_stats([first, other], 0))
    watched.watch.look_at(add_stats([None, other], 0))  # away, as far as anybody knows
    gauges = watched.recorder.snapshot().gauges
    assert (gauges["ledger/inserted"], gauges["ledger/stored"], gauges["ledger/died"]) == (126, 16, 0)
    watched.shards[0].error = PortClosedError("shard 0 of the replay did not start: its node has ended")
    watched.look()
    (line,) = watched.said
    assert line.startswith(
        "shard 0 of the replay did not start: its node has ended; learners draw from the other shards"
    )
    watched.watch.look_at(add_stats([None, other], 0))
    gauges = watched.recorder.snapshot().gauges
    assert (gauges["ledger/inserted"], gauges["ledger/stored"], gauges["ledger/died"]) == (126, 0, 16)
    assert (gauges["ledger/received"], gauges["ledger/waiting"]) == (126, 0)
    assert gauges["ledger/online/dropped/shard_died"] == 4
    watched.watch._report()
    assert watched.recorder.snapshot().counters["unrolls_lost/shard"] == 16
    gone, here = watched.watch.accounts()  # for a checkpoint
    assert here["ledger"] == {"inserted": 7}
    kept = {name: gone["ledger"][name] for name in ("received", "inserted", "removed", "not_saved", "died")}
    assert kept == {"received": 26, "inserted": 26, "removed": 6, "not_saved": 4, "died": 16}
    assert gone["streams"] == {"marks": [], "incarnations": []}


def test_a_shard_that_was_never_seen_has_no_accounts():
    watched = Watched()
    watched.shards[0].error = PortClosedError("its node has ended")
    with pytest.raises(PortClosedError):
        watched.watch.accounts()


def test_a_run_that_may_lose_nothing_ends_at_its_next_checkpoint():
    watched = Watched(max_failures=0)
    watched.watch.look_at(add_stats([seen(10), seen(20)], 0))
    watched.shards[1].error = PortClosedError("shard 1 of the replay has ended")
    with pytest.raises(PortClosedError, match="shard 1"):
        watched.watch.accounts()
