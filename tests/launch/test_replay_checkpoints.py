"""Runs whose checkpoints hold the replay: small further saves, moved directories, damaged files, agents of others."""

from __future__ import annotations

import dataclasses
import shutil
import time

import pytest

from launch.errors import NothingToResumeError
from launch.presets import change, load_preset
from launch.records.metrics_db import read_series
from launch.supervision import checkpointing
from launch.train import train
from learner.checkpoint import list_checkpoints, load_checkpoint, load_newest_checkpoint
from learner.learner import Learner
from replay_server.saving import segments


def small(path, steps, **changes):
    values = {
        "runtime": "lockstep",
        "num_envs": 4,
        "replay.capacity-steps": 4000,
        "replay.min-steps": 128,
        "quiet": True,
    }
    values |= {"learner.compile": "off", "learner.keep-checkpoints": 2, "checkpoint-replay": True}
    values |= {"stop_at_return": float("inf"), "steps": steps}
    return dataclasses.replace(change(load_preset("cartpole"), values), run_dir=path, **changes)


def files(path):
    return {file.name: file.stat().st_size for file in (path / "replay").iterdir()}


def unrolls_in(path):
    return load_newest_checkpoint(path / "checkpoints")[0].state["tree"]["replay"][0]["ledger"]["inserted"]


def test_a_further_checkpoint_writes_only_the_new_unrolls(tmp_path):
    train(small(tmp_path / "run", 2000))
    before = files(tmp_path / "run")
    train(small(tmp_path / "run", 2400, resume=True))
    after = files(tmp_path / "run")
    assert set(before) < set(after)
    new = sum(size for name, size in after.items() if name not in before)
    assert new < 0.4 * sum(before.values())


def test_files_that_no_checkpoint_needs_are_removed(tmp_path):
    for steps in (2000, 4000, 6000, 9000):
        train(small(tmp_path / "run", steps, resume=steps > 2000))
        (tmp_path / "run" / "replay" / ".writing-0").write_bytes(b"half")
    train(small(tmp_path / "run", 9100, resume=True))
    needed = set()
    for path in list_checkpoints(tmp_path / "run" / "checkpoints"):
        states = load_checkpoint(path).state["tree"]["replay"]
        needed |= {each["name"] for state in states for each in state["segments"]}
    assert needed == set(files(tmp_path / "run"))
    assert len(needed) < 5


def test_the_learner_updates_and_actors_insert_while_the_replay_is_written(tmp_path, monkeypatch):
    written, learners = [], []
    write_segment, tick = segments.write_segment, Learner.tick

    def remembered(learner):
        learners[:] = [learner]
        return tick(learner)

    def held_up(root, shard, contents):
        """Write once the learner has made more updates than the batches that were ready before could give it."""
        if learners and not written:
            goal, deadline = learners[0].num_updates + 200, time.monotonic() + 60.0
            while learners[0].num_updates < goal and time.monotonic() < deadline:
                time.sleep(0.01)
            written.append(goal - learners[0].num_updates)
        return write_segment(root, shard, contents)

    monkeypatch.setattr(Learner, "tick", remembered)
    monkeypatch.setattr(segments, "write_segment", held_up)
    config = change(small(tmp_path / "run", 20_000), {"learner.checkpoint-interval-s": 0.5})
    train(dataclasses.replace(config, runtime="local", schedule="free"))
    (missing,) = written
    assert missing <= 0, "the learner stood still until the save gave up"


def test_a_directory_that_was_moved_continues(tmp_path):
    train(small(tmp_path / "run", 1000))
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").rename(tmp_path / "elsewhere" / "run")
    before = unrolls_in(tmp_path / "elsewhere" / "run")
    train(small(tmp_path / "elsewhere" / "run", 1200, resume=True))
    assert unrolls_in(tmp_path / "elsewhere" / "run") > before
    assert "starts empty" not in (tmp_path / "elsewhere" / "run" / "log.txt").read_text()


def test_a_damaged_file_is_named_and_the_checkpoint_before_it_is_used(tmp_path):
    train(small(tmp_path / "run", 1000))
    first = set(files(tmp_path / "run"))
    train(small(tmp_path / "run", 2000, resume=True))
    (newest,) = set(files(tmp_path / "run")) - first
    path = tmp_path / "run" / "replay" / newest
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    train(small(tmp_path / "run", 2200, resume=True))
    log = (tmp_path / "run" / "log.txt").read_text()
    assert f"{path} is damaged (its hash differs)" in log
    shutil.rmtree(tmp_path / "run" / "replay")
    (tmp_path / "run" / "replay").mkdir()
    with pytest.raises(NothingToResumeError, match=r"no checkpoint .* verifies: .*shard0-.*cannot be read"):
        train(small(tmp_path / "run", 2400, resume=True))


def test_an_agent_without_its_replay_begins_with_an_empty_one(tmp_path, capsys):
    train(small(tmp_path / "run", 1000))
    shutil.rmtree(tmp_path / "run" / "replay")
    result = train(small(tmp_path / "run", 1400, resume=True))
    assert result.env_steps >= 1400
    assert "the replay starts empty" in (tmp_path / "run" / "log.txt").read_text()
    assert result.ledger["reasons"]["lost"] == 0


def test_checkpoints_that_hold_the_replay_themselves_continue(tmp_path, monkeypatch):
    """As versions before wrote them."""
    with monkeypatch.context() as patch:
        patch.setattr(checkpointing, "_save_replay", lambda run, topology: [s.state_dict() for s in topology.shards])
        train(small(tmp_path / "run", 1000))
    assert not (tmp_path / "run" / "replay").exists()
    before = unrolls_in(tmp_path / "run")
    train(small(tmp_path / "run", 1200, resume=True))
    assert unrolls_in(tmp_path / "run") > before
    assert "starts empty" not in (tmp_path / "run" / "log.txt").read_text()
    assert len(files(tmp_path / "run")) == 1, "all of it, now in a file of its own"


@pytest.mark.parametrize(("before", "after", "schedule"), [(1, 3, "free"), (3, 2, "lockstep")])
def test_a_replay_continues_on_another_number_of_shards(tmp_path, before, after, schedule):
    path, values = tmp_path / "run", {"runtime": "local", "schedule": schedule, "num_actors": 6}
    train(small(path, 1500, **values, replay=sharded(before)))
    stored = newest(path, "ledger/stored")
    result = train(small(path, 1800, **values, replay=sharded(after), resume=True))
    log = (path / "log.txt").read_text()
    assert "starts empty" not in log
    assert f"'shards': {after}" in log
    assert result.ledger["stages"]["stored"] > 0.9 * stored
    assert result.ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}
    assert result.ledger["reasons"]["lost"] == result.ledger["reasons"]["duplicates"] == 0
    again = train(small(path, 2000, **values, replay=sharded(after), resume=True))
    assert again.ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}
    assert (path / "log.txt").read_text().count("damaged") == 0


def sharded(num_shards):
    return dataclasses.replace(
        load_preset("cartpole").replay, capacity_steps=4000, min_steps=128, num_shards=num_shards
    )


def newest(path, name):
    return read_series(path / "metrics.db", name)[-1][1]
