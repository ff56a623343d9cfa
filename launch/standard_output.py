"""Standard output and standard error: results, messages, and files that fail while a command writes to them."""

from __future__ import annotations

import json
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TextIO

from launch.start_directory import as_typed

_END_S = 1.0
_LONG_S = 5.0
_RARELY = 3.0  # 5 s, 15 s, 45 s, ...

# Threads whose waits are named already: a command's, of whom a function asks it once more.
_WATCHED: set[int] = set()


class FailingStream:
    """A text stream that keeps its first error and discards all text after it.

    Args:
        stream: destination of the text.
        is_lossy: discard text that cannot be written instead of raising: a run of days must not end because its
            messages have no reader any more.

    Used from any thread.
    """

    def __init__(self, stream: TextIO, is_lossy: bool):
        self._stream = stream
        self._is_lossy = is_lossy
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write a text, and return its number of characters.

        Raises:
            OSError: writing fails and the stream is not lossy.
        """
        try:
            return self._stream.write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """Flush; raise the same errors as `write`."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fail(error)

    def __getattr__(self, name: str) -> Any:
        """Return every other attribute from the stream itself."""
        return getattr(self._stream, name)

    def _fail(self, error: OSError) -> None:
        self.error = error
        try:
            # At its end Python flushes the stream's buffer, which would fail once more.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        finally:
            if not self._is_lossy:
                raise error


class Result(Protocol):
    """A command's result, which it prints with `--json`."""

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object."""


def prepare_streams() -> None:
    """Replace closed standard streams by /dev/null, and let every stream write every character.

    A stream that was closed at the start is None in Python, and the next file to be opened would get its number, into
    which child processes then print. A character that a stream's encoding lacks becomes an escape sequence.
    """
    for number, (name, mode) in enumerate((("stdin", "r"), ("stdout", "w"), ("stderr", "w"))):
        stream: Any = getattr(sys, name)
        if stream is None:
            _open_nowhere(number)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - as long as the process
            setattr(sys, name, stream)
            setattr(sys, f"__{name}__", stream)
        elif mode == "w" and getattr(stream, "errors", "") == "strict" and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def _open_nowhere(number: int) -> None:
    nowhere = os.open(os.devnull, os.O_RDWR)
    if nowhere != number:  # os.open takes the lowest free number, and makes it private to this process
        os.dup2(nowhere, number)
        os.close(nowhere)
    os.set_inheritable(number, True)


_receiver: Callable[[str], None] | None = None


def say(text: str) -> None:
    """Print a message to standard error, above a live display if there is one. Standard output is for results."""
    text = as_typed(text)
    if _receiver is not None:
        _receiver(text)
    else:
        print(text, file=sys.stderr, flush=True)


def divert(receiver: Callable[[str], None] | None) -> None:
    """Give all messages to a display, which prints them where they do not disturb it; None: print them again."""
    global _receiver
    _receiver = receiver


@contextmanager
def name_long_waits(quiet: bool = False, after_s: float = _LONG_S) -> Iterator[None]:
    """Say what this thread waits for inside the block, when it has waited for 5 seconds and then ever more rarely.

    Args:
        quiet: say nothing.
        after_s: seconds after which a wait is named for the first time.
    """
    thread = threading.get_ident()
    if quiet or thread in _WATCHED:
        yield
        return
    over = threading.Event()
    watcher = threading.Thread(target=_name_waits, args=(thread, over, after_s), name="long waits", daemon=True)
    _WATCHED.add(thread)
    watcher.start()
    try:
        yield
    finally:
        _WATCHED.discard(thread)
        over.set()
        # A daemon thread that wakes up while Python ends is torn down in the middle of its work, which can abort the
        # process. It may also be held up by a terminal that takes no text.
        watcher.join(_END_S)


def _name_waits(thread: int, over: threading.Event, after_s: float) -> None:
    from laser.waiting import current_wait  # `laser` may be another package until `check_packages` has looked

    named, next_s = None, after_s
    while not over.wait(after_s / 10):
        wait = current_wait(thread)
        if wait is not named:
            named, next_s = wait, after_s
        if wait is None:
            continue
        waited_s = time.monotonic() - wait.begun_at
        if waited_s >= next_s and (what := wait.what()):
            say(f"waiting for {what} ({waited_s:.0f} s so far)")
            next_s = max(_RARELY * waited_s, next_s)


def print_json(result: Result) -> None:
    """Print a result as one JSON object on the last line of standard output; non-finite numbers become null."""
    sys.stdout.flush()
    print(json.dumps(finite(result.to_json())), flush=True)


def finite(value: Any) -> Any:
    """Return a JSON value with null in place of NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
