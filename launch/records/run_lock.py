"""The lock of a run's directory, which one process holds while it trains there.

The kernel keeps the lock until every copy of the open file is closed, also in processes that the holder forked, such
as a simulator's. So a forked child closes its copy at once. Where a library forks in C, past Python, the lock is
recognised as stale: the file names the process that took it, and that process has ended.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from launch.errors import CannotCreateError, OutputError, RunInUseError

_MOST_TRIES = 10
_ENDED = ("Z", "X")  # of a process that has ended and whose parent has not noticed yet

_HELD: set[BinaryIO] = set()


@contextmanager
def locked(path: Path, start_again: str, option: str = "run-dir") -> Iterator[BinaryIO]:
    """Hold the lock of a directory inside the block; yield the open lock file.

    Args:
        path: the directory.
        start_again: what the user can do if the file cannot be written.
        option: of the command line, which names the directory.

    Raises:
        CannotCreateError: the file cannot be made.
        RunInUseError: another process holds the lock.
        OutputError: the file cannot be written.
    """
    with _take(path / "lock", option) as file:
        _HELD.add(file)
        try:
            try:
                file.truncate(0)
                file.write(f"{os.getpid()} {_start_of(os.getpid())} {_place()}\n".encode())
            except OSError as error:
                raise OutputError(option, f"{path}/lock: {error.strerror}", start_again) from error
            yield file
        finally:
            _HELD.discard(file)


def _take(lock: Path, option: str) -> BinaryIO:
    owner: list[str] = []
    for _ in range(_MOST_TRIES):
        try:
            file = lock.open("a+b", buffering=0)
        except OSError as error:
            raise CannotCreateError(option, f"{lock.parent}: {error.strerror}", f"choose another --{option}") from error
        # The kernel releases the lock when the process ends, so a killed run never blocks its own resumption.
        if _locks(file):
            if _is_at(file, lock):
                return file
            file.close()  # somebody removed it as stale before it was locked here
            continue
        owner = _owner_of(file)
        file.close()
        if not (_is_gone(owner, lock) and _remove_stale(lock)):
            break
    wrong = f"{lock.parent} is in use by process {owner[0] if owner else 'unknown'}"
    raise RunInUseError(option, wrong, f"wait for it, or choose another --{option}")


def _locks(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(file: BinaryIO, path: Path) -> bool:
    try:
        return os.path.samestat(os.stat(path), os.fstat(file.fileno()))
    except OSError:
        return False


def _owner_of(file: BinaryIO) -> list[str]:
    """Return what the holder wrote: its process id, its start, and the place where its process id is valid."""
    file.seek(0)
    return file.read().decode(errors="replace").split()


def _remove_stale(lock: Path) -> bool:
    """Remove a stale lock file, so that the next one to open it makes another; return whether nobody holds it now."""
    try:
        directory = os.open(lock.parent, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(directory, fcntl.LOCK_EX)  # of two who found it stale, the second must not remove the first's
        with lock.open("rb", buffering=0) as file:
            if not _locks(file):
                if not _is_gone(_owner_of(file), lock):
                    return False
                lock.unlink()
    except FileNotFoundError:
        return True
    except OSError:  # a disk that knows no such locks
        return False
    finally:
        os.close(directory)
    return True


def _is_gone(owner: list[str], lock: Path) -> bool:
    """Return whether the process that took a lock has certainly given it up; of older versions' locks none is."""
    if len(owner) != 3 or owner[2] != _place() or not owner[0].isdecimal():
        return False
    if int(owner[0]) == os.getpid():
        return not any(_is_at(file, lock) for file in _HELD)
    try:
        os.kill(int(owner[0]), 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # another user's
    start = _start_of(int(owner[0]))
    return start == "ended" or ("unknown" not in (start, owner[1]) and start != owner[1])


def _start_of(pid: int) -> str:
    """Return when a process started, in the kernel's ticks, which tells it from a later one with the same id."""
    try:
        state, *numbers = Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except (OSError, ValueError):
        return "unknown"
    return "ended" if state in _ENDED else numbers[18]


def _place() -> str:
    """Return what tells apart machines, their starts, and containers, each of which counts its processes anew."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.readlink('/proc/self/ns/pid')}"
    except OSError:  # not Linux
        return ""


def _let_go() -> None:
    while _HELD:
        with suppress(OSError):
            _HELD.pop().close()


os.register_at_fork(after_in_child=_let_go)
