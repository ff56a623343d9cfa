"""The accounts of a shared replay over a stop: they continue from the newest checkpoint of any member."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from small_sweeps import SMALL, newest_counts
from stopped_sweeps import stopped

from launch.presets import change, load_preset
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions


def small(path: Path, schedule: str, concurrent: int, resume: bool = False, **changes: object) -> SweepConfig:
    values = SMALL | {"schedule": schedule, "steps": 384 if schedule == "lockstep" else 2000} | changes
    base = dataclasses.replace(change(load_preset("cartpole"), values), run_dir=path, resume=resume)
    grid = {"algorithm.learning-rate": [3e-3, 1e-3, 3e-4]}
    return SweepConfig(base, grid, SweepOptions(share_replay=True, concurrent=concurrent))


@pytest.mark.parametrize(("schedule", "concurrent"), [("lockstep", 1), ("lockstep", 2), ("free", 1)])
def test_nothing_counts_as_lost_after_member_0_ended_long_before_the_stop(tmp_path, monkeypatch, schedule, concurrent):
    path = tmp_path / "run"
    stopped(small(path, schedule, concurrent), monkeypatch, member=2, env_steps=100)
    received = newest_counts(path, 2)["ledger/received"]
    result = sweep(small(path, schedule, concurrent, resume=True))
    assert [member.result.finished for member in result.members] == ["steps"] * 3
    values = newest_counts(path, 2)
    assert values["ledger/lost"] == values["ledger/duplicates"] == 0.0
    assert {name: n for name, n in values.items() if name.startswith("ledger/imbalance/") and n} == {}
    assert values["ledger/received"] > received, "the ledger goes on over the stop"
    made = sum(newest_counts(path, number)["totals/unrolls"] for number in range(3))
    assert values["ledger/received"] == made
