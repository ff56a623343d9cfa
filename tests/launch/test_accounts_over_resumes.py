"""The accounts of unrolls after every stop: resumed ten times, every balance is 0 and every unroll has its place."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from launch.presets import load_preset
from launch.records.metrics_db import read_names, read_series
from launch.settings.train_config import TrainConfig
from launch.train import TrainResult, train

STEPS = 300
NUM_RESUMES = 10


def small(path: Path, schedule: str, saves_replay: bool, done: int) -> TrainConfig:
    config = load_preset("cartpole")
    return dataclasses.replace(
        config,
        replay=dataclasses.replace(config.replay, capacity_steps=2000, min_steps=128),
        learner=dataclasses.replace(config.learner, compile="off"),
        run_dir=path,
        steps=done + STEPS,
        num_envs=4,
        num_actors=2,
        runtime="local",
        schedule=schedule,
        checkpoint_replay=saves_replay,
        resume=done > 0,
        quiet=True,
    )


def newest(path: Path) -> dict[str, float]:
    metrics = path / "metrics.db"
    return {
        name: read_series(metrics, name)[-1][1] for name in read_names(metrics) if name[:7] in ("ledger/", "totals/")
    }


def assert_adds_up(path: Path, result: TrainResult) -> None:
    values = newest(path)
    part = {name.removeprefix("ledger/"): value for name, value in values.items()}
    assert [part[f"imbalance/{name}"] for name in ("received", "inserted", "online")] == [0.0] * 3
    assert part["waiting"] == 0.0, "nothing waits after the end"
    assert part["received"] == part["inserted"] + part["duplicates"] + part["rejected"] + part["failed"]
    assert part["inserted"] == part["stored"] + part["removed"] + part["not_saved"]
    assert part["failed"] == sum(n for name, n in part.items() if name.startswith("failed/"))
    assert values["totals/unrolls"] == part["received"], "all that actors made has arrived"
    assert not any(n for name, n in values.items() if name.startswith(("totals/unrolls_lost", "totals/unrolls_unrep")))
    assert part["lost"] == 0.0
    assert result.ledger["imbalance"] == {"received": 0, "inserted": 0, "online": 0}
    assert result.ledger["stages"]["received"] == result.ledger["stages"]["made"] == part["received"]
    assert result.ledger["reasons"].get("failed/stopped", 0) == part.get("failed/stopped", 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("saves_replay", [True, False])
@pytest.mark.parametrize("schedule", ["free", "lockstep"])
def test_ten_resumes_leave_every_balance_at_0(tmp_path: Path, schedule: str, saves_replay: bool) -> None:
    resume_ten_times(tmp_path / "run", schedule, saves_replay)


def resume_ten_times(path: Path, schedule: str, saves_replay: bool) -> None:
    received, done = 0.0, 0
    for _ in range(1 + NUM_RESUMES):
        result = train(small(path, schedule, saves_replay, done))
        assert_adds_up(path, result)
        assert newest(path)["ledger/received"] > received, "the ledger goes on over resumes"
        received, done = newest(path)["ledger/received"], result.env_steps
    assert (newest(path)["ledger/not_saved"] > 0) is not saves_replay


@pytest.mark.parametrize(("schedule", "saves_replay"), [("free", True), ("lockstep", False)])
def test_one_resume_leaves_every_balance_at_0(tmp_path: Path, schedule: str, saves_replay: bool) -> None:
    done = 0
    for _ in range(2):
        result = train(small(tmp_path / "run", schedule, saves_replay, done))
        assert_adds_up(tmp_path / "run", result)
        done = result.env_steps
