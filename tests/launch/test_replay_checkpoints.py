"""Runs whose checkpoints hold the replay: small further saves, moved directories, damaged files, agents of others."""

from __future__ import annotations

import dataclasses
import shutil
import time

import pytest

from launch.errors import OutputError
from launch.presets import change, load_preset
from launch.records import replay_segments
from launch.records.metrics_db import read_series
from launch.supervision import checkpointing, session
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


def flip_a_byte(path):
    path.write_bytes(path.read_bytes()[:-1] + b"?")


DAMAGES = {
    "damaged": (flip_a_byte, "{} is damaged (its hash differs)"),
    "missing": (lambda path: path.unlink(), "{} cannot be read (No such file or directory)"),
    "all missing": (lambda path: shutil.rmtree(path.parent), "{.parent} is missing"),
}


@pytest.mark.parametrize("saves_further", [True, False])
@pytest.mark.parametrize(("damage", "says"), DAMAGES.values(), ids=DAMAGES)
def test_where_only_the_replay_is_damaged_the_newest_state_goes_on_with_an_empty_one(
    tmp_path, damage, says, saves_further, capsys
):
    """All kept checkpoints share the file."""
    run = tmp_path / "run"
    train(small(run, 1000))
    train(small(run, 1200, resume=True))
    saved, before = load_newest_checkpoint(run / "checkpoints")[0], newest_values(run)
    path = run / "replay" / min(files(run))
    damage(path)
    result = train(small(run, 1400, resume=True, quiet=False, checkpoint_replay=saves_further))
    why = f"warning: the saved replay cannot be used: {says.format(path)}; the replay starts empty"
    assert capsys.readouterr().err.splitlines().count(why) == 1
    assert (run / "log.txt").read_text().count("the replay starts empty") == 1
    after = newest_values(run)
    assert saved.step >= 1200, "the newest checkpoint goes on"
    assert saved.step < result.env_steps < saved.step + 400
    assert after["ledger/not_saved"] == before["ledger/stored"] > 0
    assert result.ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}
    assert after["ledger/inserted"] == after["ledger/stored"] + after["ledger/removed"] + after["ledger/not_saved"]
    assert result.ledger["reasons"]["lost"] == 0
    again = train(small(run, 1600, resume=True))
    assert again.ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}
    log = (run / "log.txt").read_text()
    assert (log.count("the replay starts empty"), log.count("cannot be used")) == (1 + (not saves_further), 1)


def newest_values(run):
    names = ("ledger/stored", "ledger/inserted", "ledger/removed", "ledger/not_saved")
    return {name: newest(run, name) for name in names}


def test_files_that_are_deleted_while_the_run_trains_are_written_anew(tmp_path, monkeypatch):
    run, save = tmp_path / "run", checkpointing.save_checkpoint

    def save_then_delete(*args, **named):
        path = save(*args, **named)
        shutil.rmtree(run / "replay")
        monkeypatch.setattr(checkpointing, "save_checkpoint", save)
        return path

    monkeypatch.setattr(checkpointing, "save_checkpoint", save_then_delete)
    train(change(small(run, 1000), {"learner.checkpoint-interval-s": 0.01, "learner.keep-checkpoints": 1}))
    for path in list_checkpoints(run / "checkpoints"):
        checkpointing.check_saved_run(load_checkpoint(path))
    train(small(run, 1200, resume=True))
    assert "starts empty" not in (run / "log.txt").read_text()


def nest_deeply(checkpoint):
    (checkpoint / "state.json").write_text("[" * 100_000)


@pytest.mark.parametrize("damage", [lambda checkpoint: (checkpoint / "state.json").unlink(), nest_deeply])
def test_a_damaged_checkpoint_does_not_prevent_the_next_save(tmp_path, damage):
    run = tmp_path / "run"
    train(small(run, 400))
    train(small(run, 600, resume=True))
    damaged, good = list_checkpoints(run / "checkpoints")
    damage(damaged)
    train(change(small(run, 800, resume=True), {"learner.keep-checkpoints": 5}))
    newest, *others = list_checkpoints(run / "checkpoints")
    assert others == [damaged, good]
    checkpointing.check_saved_run(load_checkpoint(newest))


def test_files_stay_while_a_checkpoint_that_may_need_them_cannot_be_read(tmp_path, monkeypatch):
    run = tmp_path / "run"
    train(small(run, 400))
    before = files(run)

    def unreadable(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(replay_segments, "_names_in", unreadable)
    replay_segments.ReplaySegments(run / "replay", run / "checkpoints").remove_unused()
    assert files(run) == before


def test_a_replay_that_was_saved_before_it_held_anything_is_no_missing_one(tmp_path, monkeypatch):
    """As a run with --restart saves it, whose first checkpoint comes before its first step."""
    run, save = tmp_path / "run", checkpointing.save_checkpoint

    def fail_later(*args, **named):
        path = save(*args, **named)
        monkeypatch.setattr(checkpointing, "save_checkpoint", fail)
        return path

    def fail(*args, **named):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpointing, "save_checkpoint", fail_later)
    monkeypatch.setattr(session, "is_connected", lambda: True)
    with pytest.raises(OutputError):
        train(small(run, 400))
    monkeypatch.setattr(checkpointing, "save_checkpoint", save)
    shutil.rmtree(run / "replay")
    train(small(run, 800, resume=True))
    assert "starts empty" not in (run / "log.txt").read_text()


@pytest.mark.parametrize(("saves_now", "advice"), [(True, " before"), (False, "; --checkpoint-replay saves it")])
def test_the_flag_is_advised_only_without_it(tmp_path, saves_now, advice):
    train(small(tmp_path / "run", 400, checkpoint_replay=False))
    train(small(tmp_path / "run", 500, resume=True, checkpoint_replay=saves_now))
    words = (tmp_path / "run" / "log.txt").read_text().splitlines()
    assert [line.partition("the replay starts empty")[2] for line in words if "starts empty" in line] == [
        f", since it was not saved{advice}"
    ]


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
