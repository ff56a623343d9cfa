"""What Ray changes in the process that starts it, and puts back nowhere."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def kept_as_it_was() -> Iterator[None]:
    """Restore what starting Ray changes here: the import path of children, and what the process does on SIGTERM.

    With Ray's own handler a run could not save any more when it is asked to end.
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
