"""Standard output and standard error whose other end may fail: a reader that has gone, a disk that is full."""

from __future__ import annotations

import os
from typing import Any, TextIO


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
