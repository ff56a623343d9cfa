"""A run or a sweep whose directory or files go away while it trains stops soon, with 74 and what is safe where."""

from __future__ import annotations

import dataclasses
import re
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_sweeps import SMALL

from launch.commands import resume_command
from launch.errors import OutputError
from launch.presets import change, load_preset
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.train import train
from learner.checkpoint import list_checkpoints


def delete(run: Path) -> None:
    for _ in range(20):  # a checkpoint may be written into it meanwhile
        shutil.rmtree(run, ignore_errors=True)


def move(run: Path) -> None:
    run.rename(run.parent / "moved")


def unlink(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).unlink()


def overwrite(name: str) -> Callable[[Path], None]:
    return lambda run: (run / name).write_text("{") and None


@contextmanager
def removed_after_a_checkpoint_in(checkpoints: Path, path: Path, remove: Callable[[Path], None]) -> Iterator[None]:
    """Remove something of a run or a sweep, in a thread, as soon as there is a checkpoint."""

    def remove_soon() -> None:
        deadline = time.monotonic() + 60.0
        while not list_checkpoints(checkpoints) and time.monotonic() < deadline:
            time.sleep(0.05)
        remove(path)

    thread = threading.Thread(target=remove_soon)
    thread.start()
    yield
    thread.join()


@pytest.mark.parametrize("schedule", ["free", "lockstep"])
@pytest.mark.parametrize(
    ("remove", "wrong", "safe"),
    [
        (delete, "run: it was deleted", ""),
        (move, "was moved to .*/moved", "moved"),
        (unlink("metrics.db"), "metrics.db was deleted", "run"),
        (unlink("lock"), "its lock was deleted", "run"),
        (unlink("config.json"), "config.json was deleted", "run"),
        (overwrite("config.json"), "config.json was deleted or replaced; .* once its config.json is back", "run"),
    ],
)
def test_a_run_that_loses_its_files_says_so(
    tmp_path: Path, schedule: str, remove: Callable[[Path], None], wrong: str, safe: str
) -> None:
    path = tmp_path / "run"
    config = load_preset("cartpole")
    config = dataclasses.replace(
        config,
        learner=dataclasses.replace(config.learner, compile="off", checkpoint_interval_s=0.3),
        run_dir=path,
        steps=60_000,
        stop_at_return=float("inf"),
        schedule=schedule,
        quiet=True,
    )

    with removed_after_a_checkpoint_in(path / "checkpoints", path, remove), pytest.raises(OutputError) as caught:
        train(config)
    assert re.search(wrong, str(caught.value))
    assert caught.value.exit_code == 74
    assert caught.value.problem.key == "run-dir"
    if not safe:
        assert "no checkpoint is left" in caught.value.problem.remedy
        assert not path.exists(), "it was made anew"
        return
    newest = list_checkpoints(tmp_path / safe / "checkpoints")[0]
    assert f"{newest} is safe; to continue from it" in caught.value.problem.remedy
    assert caught.value.problem.remedy.endswith(resume_command(tmp_path / safe))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("remove", "wrong", "safe", "share_replay"),
    [
        (move, "sweep was moved to .*/moved; the checkpoints", "moved", True),
        (unlink("lock"), "sweep: its lock was deleted", "sweep", False),
        (unlink("config.json"), "sweep/config.json was deleted .* once its config.json is back", "sweep", True),
    ],
)
def test_a_sweep_that_loses_its_own_files_says_so(
    tmp_path: Path, remove: Callable[[Path], None], wrong: str, safe: str, share_replay: bool
) -> None:
    path = tmp_path / "sweep"
    more = {"steps": 60_000, "learner.compile": "off", "learner.checkpoint-interval-s": 0.3}
    base = dataclasses.replace(change(load_preset("cartpole"), SMALL | more), run_dir=path)
    config = SweepConfig(base, {"seed": [0, 1]}, SweepOptions(share_replay=share_replay))
    first = path / "members" / "0" / "checkpoints"
    with removed_after_a_checkpoint_in(first, path, remove), pytest.raises(OutputError) as caught:
        sweep(config)
    assert re.search(wrong, str(caught.value)), caught.value
    assert caught.value.exit_code == 74
    assert caught.value.problem.key == "run-dir"
    assert caught.value.problem.remedy.endswith(resume_command(tmp_path / safe))
    assert " sweep --resume " in caught.value.problem.remedy
