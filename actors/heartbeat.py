"""What a component waits for, and since when, so that whoever looks after it notices that it hangs."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

ENVIRONMENT = "environment"
"""A step or a reset."""

CONSTRUCTION = "environment's construction"
"""It may take far longer than a step: compiling a level, starting a process per environment."""


class Heartbeat:
    """Says what it waits for. One thread waits; others may read."""

    def __init__(self) -> None:
        self.heartbeat = time.monotonic()
        self.waiting_for = ""

    @contextmanager
    def _wait_for(self, what: str) -> Iterator[None]:
        self.waiting_for, self.heartbeat = what, time.monotonic()
        try:
            yield
        finally:
            self.waiting_for = ""
