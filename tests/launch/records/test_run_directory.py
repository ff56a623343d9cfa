import dataclasses
import json
import os
import resource
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from launch.__main__ import main
from launch.commands import resume_command
from launch.errors import CannotCreateError, NothingToResumeError, OutputError, RunInUseError, RuntimeFailedError
from launch.records.atomic_files import output_error
from launch.records.run_directory import RunDirectory, open_run
from launch.records.run_record import read_record, saved_config


def test_a_run_gets_a_directory_a_record_and_a_log(tmp_path, config):
    with open_run(config, ["laser", "train", "cart pole"], tmp_path) as run:
        assert run.path.parent == tmp_path
        assert run.path.name.startswith("cartpole-v1-seed3-") or run.path.name.startswith("cartpole-")
        run.log("two\nlines")
        run.log("<b>odd</b> \N{SNOWMAN}")
    record = json.loads((run.path / "config.json").read_text())
    assert record["schema_version"] == 1
    assert record["command"] == "laser train 'cart pole'"
    assert record["versions"]["python"]
    assert record["versions"]["torch"]
    assert "commit" in record
    assert record["config"]["algorithm"]["name"] == "impala"
    assert saved_config(run.path) == dataclasses.replace(config, run_dir=run.path)
    lines = (run.path / "log.txt").read_text().splitlines()
    assert [line[20:] for line in lines] == ["started", "two", "lines", "<b>odd</b> \N{SNOWMAN}"]


def test_runs_of_the_same_second_do_not_collide(tmp_path, config):
    paths = set()
    for _ in range(3):
        with open_run(config, [], tmp_path) as run:
            paths.add(run.path)
    assert len(paths) == 3


def test_a_run_dir_may_be_beside_the_working_directory(config, tmp_path, monkeypatch):
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with open_run(dataclasses.replace(config, run_dir=Path("../x")), []):
        pass
    assert (tmp_path / "x" / "config.json").exists()


def refused(config, path, error, says):
    with pytest.raises(error, match=says), open_run(dataclasses.replace(config, run_dir=path), []):
        pass


def test_existing_directories(tmp_path, config):
    empty = tmp_path / "empty"
    empty.mkdir()
    with open_run(dataclasses.replace(config, run_dir=empty), []):
        pass
    refused(config, empty, CannotCreateError, "holds a run already; --resume continues it")
    (empty / "lock").unlink()
    refused(config, empty, CannotCreateError, "holds a run already; --resume continues it")
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("x")
    refused(config, other, CannotCreateError, "holds other files already")
    refused(config, other / "thesis.tex", CannotCreateError, "is not a directory")
    refused(config, other / "thesis.tex" / "run", CannotCreateError, "choose another")
    assert (other / "thesis.tex").read_text() == "x"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_unwritable_directories(tmp_path, config):
    locked = tmp_path / "locked"
    locked.mkdir(mode=0o555)
    refused(config, locked / "run", CannotCreateError, "Permission denied")
    refused(config, locked, CannotCreateError, "Permission denied")


def test_a_directory_that_cannot_be_made(tmp_path, config, monkeypatch):
    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    refused(config, tmp_path / "run", CannotCreateError, "Permission denied; choose another --run-dir")


def test_a_run_in_use_is_refused_and_its_process_named(tmp_path, config):
    here = dataclasses.replace(config, run_dir=tmp_path / "run")
    with open_run(here, []):
        refused(config, tmp_path / "run", RunInUseError, f"in use by process {os.getpid()}")
        refused(dataclasses.replace(config, resume=True), tmp_path / "run", RunInUseError, "in use")
    with open_run(dataclasses.replace(here, resume=True), []):
        pass  # the lock went with the block


def test_a_killed_process_leaves_no_lock(tmp_path, config):
    path = tmp_path / "run"
    with open_run(dataclasses.replace(config, run_dir=path), []):
        pass
    script = (
        f"import fcntl, os; f = open({str(path / 'lock')!r}); fcntl.flock(f, fcntl.LOCK_EX); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == -9
    with open_run(dataclasses.replace(config, run_dir=path, resume=True), []) as run:
        assert run.resumed


def test_resuming_keeps_the_history(tmp_path, config):
    path = tmp_path / "run"
    with open_run(dataclasses.replace(config, run_dir=path), ["first"]):
        pass
    with open_run(dataclasses.replace(config, run_dir=path, resume=True, steps=200), ["second"]) as run:
        assert run.resumed
    record = read_record(path)
    assert [item["command"] for item in record["history"]] == ["first", "second"]
    assert saved_config(path).steps == 200


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"env": "Acrobot-v1"}, "env: .* was trained with CartPole-v1, not Acrobot-v1;"),
        ({"seed": 77}, "seed: .* was trained with [0-9]+, not 77;"),
        ({"algorithm": LaserConfig()}, "algorithm: .* was trained with impala, not laser;"),
        (
            {"network": NetworkConfig(hidden_sizes=(8,))},
            "network.hidden-sizes: .* was trained with 64,64, not 8;",
        ),
    ],
)
def test_resuming_something_else_is_refused(tmp_path, config, changes, says):
    path = tmp_path / "run"
    with open_run(dataclasses.replace(config, run_dir=path), []):
        pass
    before = (path / "config.json").read_bytes()
    other = dataclasses.replace(config, run_dir=path, resume=True, **changes)
    with pytest.raises(NothingToResumeError, match=says), open_run(other, []):
        pass
    assert (path / "config.json").read_bytes() == before


@pytest.mark.parametrize("goes_on", [False, True])
def test_what_fails_before_it_goes_on_is_not_recorded(tmp_path, config, goes_on):
    path = tmp_path / "run"
    with open_run(dataclasses.replace(config, run_dir=path), []):
        pass
    before = (path / "config.json").read_bytes()

    def fail():
        with open_run(dataclasses.replace(config, run_dir=path, resume=True, num_envs=3), []) as run:
            run.goes_on = goes_on
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert ((path / "config.json").read_bytes() == before) is not goes_on


def test_a_log_that_cannot_be_written_is_an_output_error(tmp_path):
    run = RunDirectory(tmp_path / "missing", resumed=False)
    with pytest.raises(OutputError, match="No such file"):
        run.log("x")


@contextmanager
def no_file_longer_than(num_bytes):
    """Let the system fail writes as a full disk does."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.parametrize(("num_bytes", "file"), [(0, "lock"), (20, "config.json")])
def test_a_full_disk_at_the_start_leaves_nothing(tmp_path, config, num_bytes, file):
    failing = pytest.raises(OutputError, match=rf"{file}: File too large; .* start again")
    with no_file_longer_than(num_bytes), failing, open_run(config, [], tmp_path):
        pass
    assert {path.name for path in tmp_path.glob("*/*")} <= {"lock"}
    with open_run(config, [], tmp_path) as run:
        assert run.config_path.exists()


def test_a_full_disk_before_it_goes_on_leaves_nothing_of_a_new_run(tmp_path, config):
    config = dataclasses.replace(config, run_dir=tmp_path / "run")
    with pytest.raises(OutputError, match=r"metrics.db: full; .* start again"), open_run(config, []) as run:
        raise output_error(run.metrics_path, OSError("full"))
    assert not run.path.exists()


@pytest.mark.parametrize("has_checkpoint", [False, True])
def test_a_full_disk_advises_to_resume_only_where_there_is_a_checkpoint(tmp_path, config, has_checkpoint):
    config = dataclasses.replace(config, run_dir=tmp_path / "run")

    def run_until_it_is_full():
        with open_run(config, []) as run:
            run.goes_on = True
            (run.checkpoints_path / ".writing-0").mkdir(parents=True)
            (run.checkpoints_path / "2026-11-backup").mkdir()
            if has_checkpoint:
                (run.checkpoints_path / "000000-step-100").mkdir()
            raise output_error(run.metrics_path, OSError("full"))

    with pytest.raises(OutputError) as caught:
        run_until_it_is_full()
    assert ("--resume" in caught.value.problem.remedy) is has_checkpoint
    assert ("start again" in caught.value.problem.remedy) is not has_checkpoint
    if has_checkpoint:
        safe = f"{config.run_dir}/checkpoints/000000-step-100 is safe; to continue from it: "
        whole = f"free space or repair the disk; {safe}{resume_command(config.run_dir)}"
        assert caught.value.problem.remedy == whole


def test_a_record_that_somebody_edits_while_the_run_trains_is_looked_at(tmp_path, config):
    with open_run(dataclasses.replace(config, run_dir=tmp_path / "run"), []) as run:
        run.metrics_path.touch()
        assert run.find_gone() is None
        record = json.loads(run.config_path.read_text())
        run.config_path.write_text(json.dumps({**record, "note": "mine"}))
        assert run.find_gone() is None
        run.config_path.write_text("{")
        for _ in range(2):
            assert "config.json was deleted or replaced" in str(run.find_gone())


def test_what_was_there_before_a_run_that_cannot_start_is_left_alone(tmp_path, config):
    path = tmp_path / "run"
    (path / "checkpoints").mkdir(parents=True)
    for name in ("lock", "checkpoints/precious"):
        (path / name).write_text("x")
    failing = pytest.raises(OutputError, match="start again")
    with failing, open_run(dataclasses.replace(config, run_dir=path), []) as run:
        run.metrics_path.write_text("half")
        raise output_error(run.metrics_path, OSError("full"))
    names = {str(item.relative_to(path)) for item in path.rglob("*")}
    assert names == {"lock", "checkpoints", "checkpoints/precious"}


def test_a_full_disk_leaves_an_older_run_as_it_was(tmp_path, config):
    config = dataclasses.replace(config, run_dir=tmp_path / "run")
    with open_run(config, []) as run:
        run.goes_on = True
    before = {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != "lock"}
    resumed = open_run(dataclasses.replace(config, resume=True, num_envs=3), [])
    with no_file_longer_than(20), pytest.raises(OutputError, match=r"config.json: File too large"), resumed:
        pass
    assert {path.name: path.read_bytes() for path in run.path.iterdir() if path.name != "lock"} == before


@pytest.mark.parametrize("command", [["train", "cartpole", "--run-dir"], ["eval"], ["report"]])
def test_a_name_that_is_not_utf8_is_refused_at_once_with_one_line(tmp_path, monkeypatch, capsys, command):
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9")
    if command[0] != "train":
        os.mkdir(name)
    assert main([*command, name]) in (2, 66)
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(r"error: run-dir: the name 'caf\udce9' is not UTF-8; ")
    assert command[0] != "train" or not os.path.exists(name)


def test_a_runtime_that_does_not_start_leaves_no_directory_and_one_that_ends_later_does(tmp_path, config):
    path = tmp_path / "run"
    here = dataclasses.replace(config, run_dir=path)

    def fail(goes_on):
        with open_run(here, []) as run:
            (path / "metrics.db").write_text("nothing yet")
            run.goes_on = goes_on
            raise RuntimeFailedError("runtime", "Ray did not start")

    with pytest.raises(RuntimeFailedError, match="Ray did not start"):
        fail(goes_on=False)
    assert not path.exists()
    path.mkdir()
    (path / "mine.txt").write_text("x")
    (path / "lock").write_text("")
    with pytest.raises(RuntimeFailedError, match="Ray did not start"):
        fail(goes_on=False)
    assert {item.name for item in path.iterdir()} == {"mine.txt", "lock"}
    with pytest.raises(RuntimeFailedError, match="Ray did not start"):
        fail(goes_on=True)
    assert (path / "config.json").exists()
