"""Changes that Ray makes to the process that starts it and does not undo."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import launch.runtimes.ray_settings  # noqa: F401 - Ray reads these settings at its import

# isort: split
import ray._private.utils as ray_utils


@contextmanager
def kept_as_it_was() -> Iterator[None]:
    """Keep the SIGTERM handler inside the block, and restore the import path of child processes after it.

    Ray's own handlers end the process: in the middle of Ray's start, and later without a checkpoint.
    """
    python_path = os.environ.get("PYTHONPATH")
    on_main_thread = threading.current_thread() is threading.main_thread()
    handler, set_handler = signal.getsignal(signal.SIGTERM), ray_utils.set_sigterm_handler
    ray_utils.set_sigterm_handler = _set_no_handler
    try:
        yield
    finally:
        ray_utils.set_sigterm_handler = set_handler
        if python_path is None:
            os.environ.pop("PYTHONPATH", None)
        else:
            os.environ["PYTHONPATH"] = python_path
        if on_main_thread:
            signal.signal(signal.SIGTERM, handler)  # of versions of Ray that set theirs in another way


def _set_no_handler(handler: Any) -> None:
    """Do nothing, in place of Ray's function of this signature."""
