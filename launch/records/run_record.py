"""The record of a run, `config.json`: written when it starts or goes on, and read by whoever looks at it."""

from __future__ import annotations

import dataclasses
import json
import platform
import shlex
import subprocess
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from laser.config import ConfigError
from launch.errors import NothingToResumeError
from launch.records.atomic_files import replace_file
from launch.records.forms import Either, check_form
from launch.records.preset_changes import changes_from_preset
from launch.records.record import load_record
from launch.records.trust import check_trusted
from launch.settings.json_form import config_from_json, config_to_json
from launch.settings.train_config import TrainConfig, is_utf8

SCHEMA_VERSION = 1
RUNS_ROOT = Path("runs")
_SWEEP = {
    "grid": {...: [str]},
    "zip?": {...: [str]},
    "space?": {...: str},
    "options": dict,
    "pbt": dict,
    "pruner?": dict,
}
_FORM = {
    "schema_version?": int,
    "created?": str,
    "command?": str,
    "history?": [{"command": str}],
    "versions?": {...: str},
    "commit?": Either(str, type(None)),
    "config": {"env": str},
    "changes?": {...: {"preset": str, "run": str}},
    "sweep?": _SWEEP,
    "member?": {"index": int, "overrides": dict},
}
_VERSIONED = ("laser-rl", "torch", "numpy", "gymnasium", "ale-py", "mujoco", "ray")


def read_record(run_dir: Path) -> dict[str, Any]:
    """Return a run's `config.json`: `config`, `versions`, `commit`, `command`, `created`, `schema_version`, `changes`.

    A sweep's record also has `sweep` (see `SweepConfig.to_json`). Each member's has `member` with `index` and
    `overrides`.

    Raises:
        NothingToResumeError: there is no such run, or its record cannot be read or has another form.
    """
    path = run_dir / "config.json"
    if not is_utf8(run_dir):
        raise NothingToResumeError("run-dir", f"the name {str(run_dir)!a} is not UTF-8", "rename the directory")
    try:
        if not path.is_file():
            raise NothingToResumeError("run-dir", f"{run_dir} holds no run: {path.name} is missing", "check the path")
        record = load_record(path)
        check_form({"schema_version": record.get("schema_version", 0)}, {"schema_version": int}, path.name)
        if record.get("schema_version", 0) > SCHEMA_VERSION:
            raise ValueError(f"it was written by a newer LASER (schema {record['schema_version']})")
        check_form(record, _FORM, path.name)
    except (OSError, ValueError) as error:
        raise NothingToResumeError("run-dir", f"{path} cannot be read: {error}", "choose another run") from error
    return record


def saved_config(run_dir: Path) -> TrainConfig:
    """Return the config that a run directory was trained with.

    A user's own classes are imported from the modules that the record names (see `launch.records.trust`).

    Raises:
        NothingToResumeError: there is no such run, or its `config.json` cannot be read.
        UntrustedError: it names code that this user has not named before.
    """
    record = read_record(run_dir)
    if "sweep" in record:
        member = shlex.quote(str(run_dir / "members" / "0"))
        raise NothingToResumeError("run-dir", f"{run_dir} holds a sweep", f"choose a member, e.g. {member}")
    return config_from_record(record, run_dir)


def config_from_record(record: dict[str, Any], run_dir: Path) -> TrainConfig:
    """Return the config of a record from `read_record`, with `run_dir` as its directory.

    Raises:
        NothingToResumeError: the record's values cannot be read.
        UntrustedError: the record names code that this user has not named before (see `launch.records.trust`).
    """
    check_trusted(record, run_dir)
    try:
        config = config_from_json(record["config"])
    except ConfigError as error:
        first = error.problems[0]
        raise NothingToResumeError(
            "run-dir", f"{run_dir}/config.json: {first.key} {first.wrong}", first.remedy
        ) from error
    return dataclasses.replace(config, run_dir=run_dir)


def newest_run(preset: str, env: str | None, runs_root: Path = RUNS_ROOT, of_sweeps: bool = False) -> Path:
    """Return the newest run (or sweep) of a preset (and environment, unless None), by its start.

    Raises:
        NothingToResumeError: there is no such run.
    """
    found: list[tuple[str, Path]] = []
    for path in sorted(runs_root.glob("*/config.json")):
        try:
            record = read_record(path.parent)
        except NothingToResumeError:
            continue
        config = record["config"]
        if (
            ("sweep" in record) is of_sweeps
            and isinstance(config, dict)
            and config.get("preset") == preset
            and env in (None, config.get("env"))
        ):
            found.append((str(record.get("created", "")), path.parent))
    if not found:
        wanted = f"preset {preset}" + (f" on {env}" if env else "")
        kind = "sweep" if of_sweeps else "run"
        raise NothingToResumeError(
            "resume", f"no {kind} of {wanted} under {runs_root}", "leave out --resume to start one"
        )
    return max(found)[1]


def write_record(path: Path, config: TrainConfig, command: Sequence[str], facts: Mapping[str, Any]) -> None:
    """Write a run's record; that of a run that goes on keeps its beginning and its history.

    Args:
        path: the run's directory.
        config: of the run from now on.
        command: the command line that the user typed.
        facts: further entries, such as "sweep" or "member".

    Raises:
        OutputError: the file cannot be written.
    """
    target, line = path / "config.json", shlex.join(command)
    now = time.strftime("%Y-%m-%dT%H:%M:%S%z")
    created, history, member = now, [], {}
    if target.exists():
        before = read_record(path)
        created, history = before.get("created", now), before.get("history", [])
        member = {"member": before["member"]} if "member" in before else {}  # also if it is resumed by itself
    record = {
        "schema_version": SCHEMA_VERSION,
        "created": created,
        "command": line,
        "history": [*history, {"time": now, "command": line}],
        "versions": _versions(),
        "commit": commit_of_sources(),
        "config": config_to_json(config),
        "changes": changes_from_preset(config),
        **member,
        **facts,
    }
    replace_file(target, json.dumps(record, indent=2).encode())


def commit_of_sources() -> str | None:
    """Return the commit of the running sources, with "+changes" if they differ from it; None outside a checkout."""
    here = str(Path(__file__).resolve().parent)
    try:
        head = _git(here, "rev-parse", "HEAD")
        changes = _git(here, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.SubprocessError):
        return None
    return head + ("+changes" if changes else "")


def _versions() -> dict[str, str]:
    versions = {"python": platform.python_version()}
    for package in _VERSIONED:
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions


def _git(directory: str, *arguments: str) -> str:
    result = subprocess.run(
        ["git", "-C", directory, *arguments],
        capture_output=True,
        text=True,
        timeout=5,
        check=True,
        stdin=subprocess.DEVNULL,
    )
    return result.stdout.strip()
