"""The directory of a run's files: made once, locked during training, and found again by `--resume`."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, BinaryIO

from laser.config import Problem
from launch.commands import resume_command
from launch.errors import (
    CannotCreateError,
    Interrupted,
    LimitError,
    NothingToResumeError,
    OutputError,
    RuntimeFailedError,
    StoppedError,
)
from launch.records.atomic_files import output_error, replace_file
from launch.records.log_file import append_to_log
from launch.records.run_lock import locked
from launch.records.run_names import run_name
from launch.records.run_record import RUNS_ROOT, config_from_record, newest_run, read_record, write_record
from launch.records.trust import remember
from launch.settings.json_form import config_to_json
from launch.settings.train_config import TrainConfig
from launch.settings.values import find_leaves, show
from launch.start_directory import as_typed, located
from learner.checkpoint_names import checkpoint_names

if TYPE_CHECKING:
    from launch.records.replay_segments import ReplaySegments

_THEN = ", then "
"""Between the two parts of what to do about a file that cannot be written: the cure, and how the run goes on."""
_START_AGAIN = f"free space or repair the disk{_THEN}start again"


class RunDirectory:
    """One run's files. `open_run` makes it and holds its lock. Used from any thread.

    Args:
        path: the directory, as the user typed it.
        resumed: whether it held a run before.
        lock: the open lock file; None for a directory that is only read.
    """

    def __init__(self, path: Path, resumed: bool, lock: BinaryIO | None = None):
        self.path = path
        self.place = place = located(path)
        """The directory's own path, absolute during a run."""
        self._lock = lock
        self._metrics_id: tuple[int, int] | None = None
        self.resumed = resumed
        self.config_path = place / "config.json"
        self.metrics_path = place / "metrics.db"
        self.events_path = place  # TensorBoard shows the directory's name
        self.checkpoints_path = place / "checkpoints"
        self.videos_path = place / "videos"
        self.log_path = place / "log.txt"
        self._record_version: tuple[int, int, int] | None = None
        self.goes_on = False
        """Set once the saved state is restored; until then an error undoes the settings of the resumption."""

    def find_gone(self) -> Problem | None:
        """Return what has been deleted or moved away under the running run, and what is safe; None if nothing has.

        The first call notes which file `metrics.db` is, so call it once this file is open.
        """
        if not self.is_in_place:
            moved = None if self._lock is None else _path_of(self._lock)
            if moved is None:
                wrong = (
                    "its lock was deleted, so another process may train in it"
                    if self.place.is_dir()
                    else "it was deleted"
                )
                return Problem("run-dir", f"{self.path}: {wrong}", _safe(self.path))
            return Problem("run-dir", f"{self.path} was moved to {moved.parent}", _safe(moved.parent))
        metrics = _file_id(self.metrics_path)
        self._metrics_id = self._metrics_id or metrics
        for path, is_there in (
            (self.config_path, self._has_record()),
            (self.metrics_path, metrics == self._metrics_id),
        ):
            if not is_there:
                return Problem("run-dir", f"{path} was deleted or replaced", _safe(self.path))
        return None

    def _has_record(self) -> bool:
        """Return whether `config.json` is one with which the run can be resumed; it is read if it has changed."""
        version = _version_of(self.config_path)
        if version is not None and version != self._record_version and _is_record(self.place):
            self._record_version = version
        return version is not None and version == self._record_version

    @cached_property
    def replay(self) -> ReplaySegments:
        """The files of the saved replay."""
        from launch.records.replay_segments import ReplaySegments  # slow to import, and only needed to save

        return ReplaySegments(self.place / "replay", self.checkpoints_path)

    @property
    def is_in_place(self) -> bool:
        """Whether the directory still has its path, and its lock is the one that this process holds."""
        return self._lock is None or _file_id(self.place / "lock") == _file_id(self._lock.fileno())

    @property
    def has_checkpoint(self) -> bool:
        """Whether a finished checkpoint is there, valid or not."""
        return bool(checkpoint_names(self.checkpoints_path))

    def log(self, text: str) -> None:
        """Append lines with the time to `log.txt`.

        Raises:
            OutputError: the file cannot be written.
        """
        try:
            append_to_log(self.log_path, as_typed(text))
        except OSError as error:
            raise output_error(self.log_path, error) from error


@contextmanager
def open_run(
    config: TrainConfig,
    command: Sequence[str] | None = None,
    runs_root: Path = RUNS_ROOT,
    facts: Mapping[str, Any] = MappingProxyType({}),
) -> Iterator[RunDirectory]:
    """Make the run's directory, or take the one to resume, and hold its lock until the block ends.

    Args:
        config: `run_dir` and `resume` decide which directory; a resumed run keeps environment, seed, algorithm and
            network.
        command: the command line that the user typed, for the record; default: this process's arguments.
        runs_root: parent of the directory if the config names none.
        facts: further entries of the record: "sweep" makes it the directory of a sweep, "member" states which member
            of a sweep it is.

    Raises:
        NothingToResumeError: there is no run to resume, or it has another environment, algorithm or network.
        UntrustedError: the run to resume names code that this user has not named before.
        CannotCreateError: the directory exists or cannot be written.
        RunInUseError: another process trains in the directory.
    """
    remember([config_to_json(config), facts.get("sweep")])  # who starts a run has named what it consists of
    if config.resume:
        path = config.run_dir or _newest_run(config, runs_root, "sweep" in facts)
        _check_same_run(config, path)
    else:
        path = _make(config, runs_root, "sweep-" if "sweep" in facts else "")
    place = located(path)
    found = set() if config.resume else {item.name for item in place.iterdir()}
    with locked(place, _START_AGAIN) as lock:
        if not config.resume and (place / "config.json").exists():
            raise CannotCreateError(
                "run-dir", f"{path} holds a run already", "--resume continues it, another --run-dir starts afresh"
            )
        record = place / "config.json"
        before = record.read_bytes() if config.resume else b""
        run = RunDirectory(path, config.resume, lock)
        try:
            write_record(place, config, sys.argv if command is None else command, facts)
            run.log("resumed" if config.resume else "started")
            yield run
        except BaseException as error:
            if run.goes_on:
                saved = run.has_checkpoint or _have_members_checkpoints(place)
                is_first = not config.resume and run.is_in_place and not saved
                if isinstance(error, OutputError) and is_first:
                    raise _at_the_start(error, ": there is no checkpoint yet") from error
                if isinstance(error, OutputError) and run.is_in_place and _THEN in error.problem.remedy:
                    raise _with_what_is_safe(error, path) from error
                raise
            if before:
                # The run did not continue with the new settings, and they would prevent the next attempt.
                replace_file(record, before)
            elif isinstance(error, OutputError):
                _remove_all_but(found, place)  # it holds nothing to continue from
                raise _at_the_start(error) from error
            elif isinstance(error, (RuntimeFailedError, LimitError, StoppedError, Interrupted)):
                _remove_all_but(found, place)
            raise


def _at_the_start(error: OutputError, why: str = "") -> OutputError:
    """Return the error of a run that holds nothing to continue from."""
    remedy = error.problem.remedy.partition(_THEN)[0]
    return OutputError(error.problem.key, error.problem.wrong, f"{remedy}{_THEN}start again{why}")


def _with_what_is_safe(error: OutputError, path: Path) -> OutputError:
    """Return the error of a run that can be continued, with its newest checkpoint and the whole command."""
    remedy = error.problem.remedy.partition(_THEN)[0]
    return OutputError(error.problem.key, error.problem.wrong, f"{remedy}; {_safe(path)}")


def _newest_run(config: TrainConfig, runs_root: Path, of_sweeps: bool) -> Path:
    return runs_root / newest_run(config.preset, config.env, located(runs_root), of_sweeps=of_sweeps).name


def _make(config: TrainConfig, runs_root: Path, prefix: str) -> Path:
    name = prefix + run_name(config)
    candidates = [config.run_dir] if config.run_dir else [runs_root / f"{name}{end}" for end in ("", "-2", "-3", "-4")]
    for path in candidates:
        try:
            located(path).parent.mkdir(parents=True, exist_ok=True)
            located(path).mkdir()
        except FileExistsError:
            if path is not candidates[-1]:
                continue
            _check_usable(located(path))
        except OSError as error:
            raise CannotCreateError("run-dir", f"{path}: {error.strerror}", "choose another --run-dir") from error
        return path
    raise AssertionError("unreachable")


def _remove_all_but(kept: Collection[str], path: Path) -> None:
    """Remove a directory's content except these names, and the directory itself if it is then empty."""
    with suppress(OSError):  # remaining files do no harm, and another error is being reported
        for item in path.iterdir():
            if item.name not in kept:
                shutil.rmtree(item) if item.is_dir() else item.unlink()
        path.rmdir()


def _check_usable(path: Path) -> None:
    """Raise `CannotCreateError` unless the directory is empty or has a lock, in which case the lock decides."""
    if not path.is_dir():
        raise CannotCreateError("run-dir", f"{path} is not a directory", "choose another --run-dir")
    if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
        raise CannotCreateError("run-dir", f"{path}: Permission denied", "choose another --run-dir")
    names = {item.name for item in path.iterdir()}
    if names and "lock" not in names:
        held = "a run" if "config.json" in names else "other files"
        remedy = "--resume continues it, another --run-dir starts afresh" if held == "a run" else "choose a new one"
        raise CannotCreateError("run-dir", f"{path} exists and holds {held} already", remedy)


def _file_id(file: Path | int) -> tuple[int, int] | None:
    """Return the device and inode of a path or an open file; None if there is none."""
    try:
        found = os.stat(file)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _version_of(path: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file: inode, nanoseconds of its modification and bytes; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _is_record(place: Path) -> bool:
    try:
        read_record(place)
    except NothingToResumeError:
        return False
    return True


def _path_of(file: BinaryIO) -> Path | None:
    """Return the present path of an open file, where the system tells it; None if the file was deleted."""
    try:
        path = Path(os.readlink(f"/proc/self/fd/{file.fileno()}"))
    except OSError:  # not Linux
        return None
    return path if _file_id(path) == _file_id(file.fileno()) else None


def _have_members_checkpoints(sweep: Path) -> bool:
    with suppress(OSError):  # they may be going away at this moment
        return any(checkpoint_names(path) for path in sweep.glob("members/*/checkpoints"))
    return False


def _safe(path: Path) -> str:
    """Return what is left of a run or a sweep in a directory, and how to continue with it."""
    place = located(path)
    remedy = "" if _is_record(place) else " once its config.json is back"
    if _have_members_checkpoints(place):
        return f"the checkpoints of its members are safe; to continue from them{remedy}: {resume_command(path)}"
    try:
        newest = next(iter(checkpoint_names(place / "checkpoints")), "")
    except OSError:
        newest = ""
    if not newest:
        return "no checkpoint is left; start again"
    return f"{path}/checkpoints/{newest} is safe; to continue from it{remedy}: {resume_command(path)}"


def _check_same_run(config: TrainConfig, path: Path) -> None:
    saved = config_from_record(read_record(located(path)), path)
    kept: list[tuple[str, object, object]] = [("env", saved.env, config.env), ("seed", saved.seed, config.seed)]
    kept.append(("algorithm", saved.algorithm.name, config.algorithm.name))
    kept.append(("algorithm.optimizer", saved.algorithm.optimizer, config.algorithm.optimizer))
    if type(saved.network) is type(config.network):
        leaves = (find_leaves(network, "network.") for network in (saved.network, config.network))
        kept += [(then.key, show(then.value), show(now.value)) for then, now in zip(*leaves, strict=True)]
    else:
        kept.append(("network", type(saved.network).__name__, type(config.network).__name__))
    kept += [("offline", saved.offline or "none", config.offline or "none")]
    if config.init_replay:  # without one, a resume takes what is saved of the replay
        kept.append(("init-replay", saved.init_replay or "none", config.init_replay))
    for key, then, now in kept:
        if then != now:
            raise NothingToResumeError(
                key, f"{path} was trained with {then}, not {now}", "resume with the same one, or start a new run"
            )
