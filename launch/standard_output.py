"""Standard output and standard error: results, messages, and what happens where the other end fails."""

from __future__ import annotations

import json
import math
import os
import sys
from typing import Any, Protocol, TextIO


class FailingStream:
    """A text stream that remembers why it failed, and is silent from then on.

    Args:
        stream: where the text goes.
        is_lossy: what cannot be written is lost, and whoever writes goes on: a run of days must not end because nobody
            reads its messages any more.

    Used from any thread.
    """

    def __init__(self, stream: TextIO, is_lossy: bool):
        self._stream = stream
        self._is_lossy = is_lossy
        self.error: OSError | None = None

    def write(self, text: str) -> int:
        """Write; return the number of characters.

        Raises:
            OSError: it fails, unless it is lossy.
        """
        try:
            return self._stream.write(text)
        except OSError as error:
            self._fail(error)
            return len(text)

    def flush(self) -> None:
        """Flush; raises as `write` does."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fail(error)

    def __getattr__(self, name: str) -> Any:
        """Be in all else the stream itself."""
        return getattr(self._stream, name)

    def _fail(self, error: OSError) -> None:
        self.error = error
        try:
            # Python would complain of what it still holds as it ends.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._stream.fileno())
            os.close(nowhere)
        finally:
            if not self._is_lossy:
                raise error


class Result(Protocol):
    """What a command prints with `--json`."""

    def to_json(self) -> dict[str, Any]:
        """Return the object."""


def say(text: str) -> None:
    """Print a message, which is no result, to standard error."""
    print(text, file=sys.stderr, flush=True)


def print_json(result: Result) -> None:
    """Print a result as one JSON object, the last line of standard output; numbers that are not finite become null."""
    sys.stdout.flush()
    print(json.dumps(finite(result.to_json())), flush=True)


def finite(value: Any) -> Any:
    """Return a JSON value without NaN and infinities, which JSON does not have."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
