"""Sweeps on Ray: members in processes share one replay, copy each other, and go on when a learner is killed."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re
import signal
import threading
import time

import psutil
import pytest
from books import newest_totals

from launch.presets import change, load_preset
from launch.records.lineage import Lineage
from launch.records.metrics_db import read_series
from launch.supervision import places, session
from launch.supervision.shared_replay import SharedReplay
from launch.sweeps.halving import PrunerConfig
from launch.sweeps.population import PbtConfig
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions

pytestmark = [pytest.mark.ray, pytest.mark.slow, pytest.mark.timeout(400)]

SETTINGS = {
    "runtime": "ray",
    "quiet": True,
    "num_envs": 4,
    "replay.capacity-steps": 2000,
    "replay.min-steps": 128,
    "replay.num-shards": 2,
    "learner.checkpoint-interval-s": 1.0,
    "stop_at_return": float("inf"),
}
# The second member learns nothing but to push one way, so that whoever is compared with it is better.
GRID = {"algorithm.learning-rate": [1e-3, 0.3, 2e-3]}


class Shared:
    """The tests' runtime in the place of a session's own: what a session starts ends with it, Ray does not."""

    def __init__(self, runtime, topologies):
        self._runtime = runtime
        self._topologies = topologies

    def __getattr__(self, name):
        return getattr(self._runtime, name)

    def close(self):
        for topology in self._topologies:
            for part in (*topology.workers, topology.parameters, *topology.shards):
                part.kill()
        return []


@pytest.fixture
def topologies(runtime, monkeypatch):
    """Return the newest session's topologies."""
    topologies = []
    place_population = session.place_population

    def remember(*arguments):
        topologies[:] = place_population(*arguments)
        return topologies

    monkeypatch.setattr(session, "place_population", remember)
    monkeypatch.setattr(session, "make_runtime", lambda config, needs: Shared(runtime, topologies))
    return topologies


def make_sweep(path, steps, **changes):
    base = dataclasses.replace(change(load_preset("cartpole"), SETTINGS | changes), steps=steps, run_dir=path)
    pbt = PbtConfig(rule="truncation", burn_in=200, interval=200)
    return SweepConfig(base, GRID, SweepOptions(share_replay=True, pbt=True), pbt)


def when_saved(topologies, path, do):
    """Begin a thread that does something to the newest topologies as soon as member 2 has a checkpoint."""

    def wait_for_it():
        deadline = time.monotonic() + 200.0
        while not list(path.glob("members/2/checkpoints/*/")):
            assert time.monotonic() < deadline, "member 2 was never saved"
            time.sleep(0.05)
        do(topologies)

    thread = threading.Thread(target=wait_for_it)
    thread.start()
    return thread


@pytest.mark.long
@pytest.mark.parametrize("max_failures", [0, 3])
def test_a_population_on_ray_outlasts_a_killed_learner(tmp_path, topologies, max_failures):
    path = tmp_path / "run"
    killer = when_saved(topologies, path, lambda topologies: os.kill(topologies[2].learner.pid, signal.SIGKILL))
    result = sweep(make_sweep(path, 6000, max_failures=max_failures))
    killer.join()
    if max_failures:
        assert [member.result.finished for member in result.members] == ["steps"] * 3
        log = (path / "members" / "2" / "log.txt").read_text()
        assert re.search(r"learner/2 died: another one continues from (update \d|0)", log), log
        assert [topology.learner.incarnation for topology in topologies] == [0, 0, 1]
        return
    assert [member.result.finished for member in result.members] == ["steps", "steps", "failed"]
    assert "learner" in result.members[2].error
    assert "has ended" in result.members[2].error
    decisions = Lineage(path / "lineage.jsonl").decisions
    assert any(decision.copied is not None for decision in decisions), "no weights went from process to process"
    for number in (0, 1):
        metrics = path / "members" / str(number) / "metrics.db"
        assert max(value for _, value in read_series(metrics, "num_steps_foreign_replay")) > 0
        assert result.members[number].result.env_steps >= 6000

    again = sweep(make_sweep(path, 7000, resume=True))
    assert [member.result.finished for member in again.members] == ["steps"] * 3
    assert again.members[2].result.env_steps >= 7000


@pytest.mark.long
def test_whatever_dies_of_one_member_is_replaced_and_the_others_do_not_notice(tmp_path, topologies):
    """The members have a replay each; one after the other an actor, its shard, its store and its evaluator die."""
    path = tmp_path / "run"

    def kill_parts(topologies):
        killed = topologies[2]
        for part in (killed.actors[0], killed.shards[0], killed.parameters, killed.evaluator):
            os.kill(part.pid, signal.SIGKILL)
            time.sleep(3.0)

    killer = when_saved(topologies, path, kill_parts)
    values = {"max_failures": 5, "replay.num-shards": 1, "evaluation.interval": 200, "evaluation.episodes": 2}
    config = dataclasses.replace(make_sweep(path, 20_000, **values), options=SweepOptions(share_replay=False))
    result = sweep(config)
    killer.join()
    assert [member.result.finished for member in result.members] == ["steps"] * 3
    assert not any(any(member.result.ledger["imbalance"].values()) for member in result.members)
    restarts = []
    for number in range(3):
        totals = newest_totals(path / "members" / str(number))
        restarts.append({name for name, value in totals.items() if name.startswith("restarts/") and value})
    assert restarts[:2] == [set(), set()]
    assert {"restarts/died", "restarts/shard_died", "restarts/store_died"} <= restarts[2]


def is_alive(pid):
    """Return whether a process runs; Ray's own process collects those that have ended."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@pytest.mark.parametrize("share_replay", [True, pytest.param(False, marks=pytest.mark.long)])
def test_members_on_ray_take_turns(tmp_path, topologies, monkeypatch, share_replay):
    pids = []
    place_later = places.place_later

    def watched(member, *arguments):
        deadline = time.monotonic() + 20.0
        while any(map(is_alive, pids)):
            assert time.monotonic() < deadline, "processes of a member that has ended still run"
            time.sleep(0.1)
        topologies[:] = [place_later(member, *arguments)]
        pids[:] = [worker.pid for worker in topologies[0].workers]
        pids.extend(port.pid for port in topologies[0].shards if not share_replay)
        return topologies[0]

    monkeypatch.setattr(places, "place_later", watched)
    config = make_sweep(tmp_path / "run", 600, **{"replay.num-shards": 1})
    options = SweepOptions(share_replay=share_replay, concurrent=1)
    result = sweep(dataclasses.replace(config, options=options))
    assert [member.result.finished for member in result.members] == ["steps"] * 3
    late = result.members[2].result.run_dir / "metrics.db"
    drawn = [value for _, value in read_series(late, "num_steps_foreign_replay")]
    assert (max(drawn, default=0.0) > 0.0) is share_replay


@pytest.mark.long
def test_a_pruned_member_on_ray_gives_its_place_to_the_next(tmp_path, topologies, monkeypatch):
    falling = itertools.count(0, -1)
    monkeypatch.setattr("launch.sweeps.pruning.read_score", lambda *arguments: float(next(falling)))
    steps = 8000  # so many that a slow main process, too, prunes a member before its end
    config = make_sweep(tmp_path / "run", steps, **{"replay.num-shards": 1})
    options = SweepOptions(concurrent=1, pruner="asha")
    result = sweep(dataclasses.replace(config, options=options, pruner=PrunerConfig(first_rung=300)))
    assert [member.result.finished for member in result.members] == ["steps", "pruned", "pruned"]
    assert all(300 <= member.result.env_steps < steps for member in result.members[1:])


@pytest.mark.long
def test_a_shared_replay_on_ray_outlasts_its_first_owner_a_dead_shard_and_a_resume(tmp_path, topologies, monkeypatch):
    path, save, killed = tmp_path / "run", SharedReplay.save, []

    def watched(self, shards, env_steps, supervisors):
        save(self, shards, env_steps, supervisors)
        if [each.number for each in supervisors] == [1] and not killed:
            killed.append(shards[0].pid)
            os.kill(shards[0].pid, signal.SIGKILL)

    monkeypatch.setattr(SharedReplay, "save", watched)
    config = make_sweep(path, 4000, max_failures=3, checkpoint_replay=True, **{"replay.num-shards": 1})
    config = dataclasses.replace(
        config, grid={"algorithm.learning-rate": [1e-3, 2e-3]}, options=SweepOptions(concurrent=1)
    )
    result = sweep(config)
    assert killed
    assert [member.result.finished for member in result.members] == ["steps"] * 2
    log = path / "members" / "1" / "log.txt"
    assert "shard 0 of the replay died: another one continues from 0" in log.read_text()

    values = {"steps": 4400, "resume": True, "replay.num-shards": 2, "num_actors": 2}
    again = sweep(dataclasses.replace(config, base=change(config.base, values)))
    assert [member.result.finished for member in again.members] == ["steps"] * 2
    assert "starts empty" not in log.read_text()
    ledger = again.members[1].result.ledger
    assert ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}
    made = sum(member.result.env_steps for member in again.members) - sum(
        member.result.env_steps for member in result.members
    )
    assert ledger["stages"]["stored"] > made / 20, "it holds more than what was made since"
