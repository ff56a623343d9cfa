"""The options of `laser dashboard`."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated

from laser.config import Bounds, Problem

_LEAST_TOKEN = 16


@dataclass(frozen=True)
class DashboardOptions:
    """Options of `laser dashboard`."""

    port: Annotated[int, Bounds(least=0, most=65535), "TCP port; 0: any free port"] = 8050
    host: Annotated[str, "address to listen on; addresses that other machines can reach need a token"] = "127.0.0.1"
    token: Annotated[str, "token that other machines must present; by default every start makes a new one"] = ""
    read_only: Annotated[bool, "write nothing at all, not even notes about runs"] = False
    trust: Annotated[bool, "let the agents of all runs play live, whatever code of their own the runs name"] = False

    def single_problems(self) -> Iterator[Problem]:
        """Yield the mistakes of single fields that a range cannot express."""
        if not self.host.strip():
            yield Problem("host", "must be an address, got an empty text", "for example 127.0.0.1 or 0.0.0.0")
        if self.token and (len(self.token) < _LEAST_TOKEN or not self.token.isascii()):
            yield Problem("token", f"must have at least {_LEAST_TOKEN} ASCII characters", "leave it out to get one")
