"""Sweeps that save the replay their members share: over stops, deaths, moves and other numbers of shards."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path

import pytest
from small_sweeps import SMALL, newest_counts
from stopped_sweeps import stopped

from launch.errors import NothingToResumeError
from launch.presets import change, load_preset
from launch.records.exchange_reader import read_exchange_sums
from launch.supervision.shared_replay import SharedReplay
from launch.sweeps import sweep as sweeps
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from learner.checkpoint import list_checkpoints, load_checkpoint, load_newest_checkpoint


def small(path: Path, concurrent: int = 1, **changes: object) -> SweepConfig:
    values = SMALL | {"replay.capacity-steps": 8000, "checkpoint-replay": True} | changes
    base = dataclasses.replace(change(load_preset("cartpole"), values), run_dir=path)
    grid = {"algorithm.learning-rate": [3e-3, 1e-3, 3e-4]}
    return SweepConfig(base, grid, SweepOptions(share_replay=True, concurrent=concurrent))


def stored_steps(path: Path) -> int:
    """Return the steps of the unrolls in the sweep's newest saved replay."""
    states = load_newest_checkpoint(path / "checkpoints")[0].state["tree"]["replay"]
    return sum(sum(each["num"] for each in state["segments"]) for state in states) * 20


def check_balance(path: Path) -> dict[str, float]:
    """Check that all that the members made arrived or has a reason; return the newest ledger."""
    values = max((newest_counts(path, number) for number in range(3)), key=lambda each: each["ledger/received"])
    assert {name: n for name, n in values.items() if name.startswith("ledger/imbalance/") and n} == {}
    assert values["ledger/duplicates"] == 0.0
    made = 0.0
    for number in range(3):
        for name, n in newest_counts(path, number).items():
            made += n if name == "totals/unrolls" or name.startswith("totals/unrolls_unreported/") else 0.0
            made -= n if name.startswith("totals/unrolls_lost/") else 0.0
    assert values["ledger/received"] == made
    return values


@pytest.mark.parametrize(("schedule", "num_shards"), [("lockstep", 1), ("free", 3)])
def test_a_member_that_begins_after_a_resume_draws_from_all_that_was_there(tmp_path, monkeypatch, schedule, num_shards):
    path, moved, steps = tmp_path / "run", tmp_path / "elsewhere", 384 if schedule == "lockstep" else 1500
    values = {"schedule": schedule, "steps": steps, "num_actors": 3, "num_envs": 2}
    stopped(small(path, **values), monkeypatch, member=1, env_steps=100)
    before = stored_steps(path)
    assert before >= steps + 100, "member 0 has ended, and its experience was saved"
    assert not list(path.glob("members/*/replay"))
    assert not (path / "members" / "2").exists()
    path.rename(moved)
    result = sweep(small(moved, **values, resume=True, **{"replay.num-shards": num_shards}))
    assert [member.result.finished for member in result.members] == ["steps"] * 3
    assert "starts empty" not in "".join(log.read_text() for log in moved.glob("members/*/log.txt"))
    last = check_balance(moved)
    assert last["ledger/lost"] == 0.0
    drawn = read_exchange_sums(moved / "members" / "2" / "metrics.db")
    assert drawn[0]["steps"] > 0.0, "member 2 learned from a member that ended before the stop"
    assert stored_steps(moved) == last["ledger/stored"] * 20 > before


def test_a_sweep_whose_driver_died_goes_on_from_its_last_saves(tmp_path, monkeypatch):
    """A copy of the directory, made between two saves, is what a killed driver leaves."""
    path, left, save, when = tmp_path / "run", tmp_path / "left", SharedReplay.save, []

    def watched(self, shards, env_steps, supervisors):
        save(self, shards, env_steps, supervisors)
        when.append([supervisor.number for supervisor in supervisors])
        if when[-1] == [2] and not left.exists():
            shutil.copytree(path, left)

    values = {"schedule": "free", "steps": 1500, "learner.checkpoint-interval-s": 0.05, "num_actors": 2}
    with monkeypatch.context() as patch:
        patch.setattr(SharedReplay, "save", watched)
        sweep(small(path, **values))
    before = stored_steps(left)
    result = sweep(small(left, **values, resume=True, **{"replay.num-shards": 2}))
    assert [member.result.finished for member in result.members] == ["steps"] * 3
    last = check_balance(left)
    assert last["ledger/stored"] * 20 > before >= 2 * 1500


def test_files_are_kept_as_long_as_a_checkpoint_needs_them(tmp_path):
    path = tmp_path / "run"
    values = {"learner.checkpoint-interval-s": 1e-6, "learner.keep-checkpoints": 4, "replay.capacity-steps": 640}
    sweep(small(path, **values))
    kept = list_checkpoints(path / "checkpoints")
    needs = [
        {each["name"] for state in load_checkpoint(each).state["tree"]["replay"] for each in state["segments"]}
        for each in kept
    ]
    needed = set.union(*needs)
    assert len(kept) == 4
    assert needed > needs[0], "only the checkpoints before need some of them"
    there = {file.name for file in (path / "replay").iterdir()}
    assert there == needed
    numbers = [int(name.split("-")[1]) for name in there]
    assert min(numbers) > 0, "experience that was replaced is on disk no more"


def test_a_damaged_file_is_named_and_the_checkpoint_before_it_is_used(tmp_path, capsys):
    path = tmp_path / "run"
    sweep(small(path))
    first = set((path / "replay").iterdir())
    sweep(small(path, steps=768, resume=True))
    added = sorted(set((path / "replay").iterdir()) - first)
    sizes = [sum(file.stat().st_size for file in files) for files in (first, added)]
    assert sizes[1] < 1.4 * sizes[0], "the resumed sweep wrote only what was new, as much again"
    for file in added:
        file.write_bytes(file.read_bytes()[:-1] + b"?")
    result = sweep(small(path, steps=800, resume=True, quiet=False))
    said = capsys.readouterr().err
    assert "is damaged (its hash differs)" in said
    assert "of the replay is used" in said
    assert [member.result.finished for member in result.members] == ["steps"] * 3
    check_balance(path)
    shutil.rmtree(path / "replay")
    (path / "replay").mkdir()
    with pytest.raises(NothingToResumeError, match=r"the replay: no checkpoint .* verifies: .*; remove .*checkpoints"):
        sweep(small(path, steps=900, resume=True))
    shutil.rmtree(path / "checkpoints")
    result = sweep(small(path, steps=900, resume=True))
    assert min(member.result.env_steps for member in result.members) >= 900
    assert "the replay starts empty" in (path / "members" / "0" / "log.txt").read_text()


def test_a_sweep_whose_replay_was_saved_with_member_0_goes_on(tmp_path, monkeypatch):
    """As versions before did it, which let no member wait."""
    path, run_session = tmp_path / "run", sweeps.run_session
    with monkeypatch.context() as patch:
        patch.setattr(sweeps, "run_session", lambda *args, sweep_run, **named: run_session(*args, **named))
        sweep(small(path, concurrent=0))
    assert list(path.glob("members/0/replay/*.npz"))
    assert not (path / "replay").exists()
    sweep(small(path, concurrent=0, steps=500, resume=True))
    assert "starts empty" not in "".join(log.read_text() for log in path.glob("members/*/log.txt"))
    assert stored_steps(path) >= 3 * 500
    check_balance(path)
