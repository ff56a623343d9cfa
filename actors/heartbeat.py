"""Heartbeat of a component: what it waits for and since when, so that supervision detects a hang."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

ENVIRONMENT = "environment"
"""Wait for a step or a reset."""

CONSTRUCTION = "environment's construction"
"""Wait that may take far longer than a step: a level is compiled, or a process starts per environment."""

COMPILATION = "compilation of the policy"
"""Wait that keeps the interpreter's lock for seconds at a time: the process then answers nobody."""

CLOSING = "environment's close()"
"""Wait for an environment that is closed."""


class Heartbeat:
    """Base class of components that record what they wait for. One thread waits; others may read."""

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
