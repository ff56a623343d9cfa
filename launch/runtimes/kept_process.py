"""Changes that Ray makes to the process that starts it and does not undo."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_as_it_was() -> Iterator[None]:
    """Restore, after the block, the import path of child processes and the SIGTERM handler, which Ray's start changes.

    With Ray's own handler a run could not save a checkpoint when SIGTERM asks it to end.
    """
    python_path = os.environ.get("PYTHONPATH")
    on_main_thread = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        if python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = python_path
        if on_main_thread:
            signal.signal(signal.SIGTERM, handler)
