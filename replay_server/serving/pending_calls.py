"""Pending calls: inserts and samples that a shard keeps until they can be served."""

from __future__ import annotations

import time
from collections.abc import Hashable
from concurrent.futures import Future

import numpy as np

from laser.futures import claim
from laser.ports import InsertReceipt, Sample, SampleRequest
from laser.unroll import Unrolls


class PendingCall:
    """A call that is not answered yet.

    Args:
        timeout_s: seconds from now after which it fails.
        lanes: calls that share a lane are served in order; other calls may overtake each other.
        what: the call in words, for error messages.
    """

    future: Future[InsertReceipt] | Future[Sample]

    def __init__(self, timeout_s: float, lanes: frozenset[Hashable], what: str):
        self.timeout_s = timeout_s
        self.deadline = time.monotonic() + timeout_s
        self.lanes = lanes
        self.what = what
        self.lacks = "its turn"  # the reason for waiting at the last attempt

    def claim(self) -> bool:
        """Return whether the call is not cancelled; from then on it can no longer be cancelled."""
        return claim(self.future)


class PendingInsert(PendingCall):
    """An insert whose contents have been checked.

    Args:
        unrolls: the message.
        bad: bool [N] by reason, unrolls that must not be stored.
        timeout_s: see `PendingCall`.
    """

    def __init__(self, unrolls: Unrolls, bad: dict[str, np.ndarray], timeout_s: float):
        self.members: frozenset[int] = frozenset(unrolls.headers["member"].tolist())
        super().__init__(timeout_s, self.members, f"insert of {len(unrolls)} unrolls")
        self.future: Future[InsertReceipt] = Future()
        self.unrolls = unrolls
        self.bad = bad
        self.good = ~np.logical_or.reduce(list(bad.values())) if bad else np.ones(len(unrolls), bool)


class PendingSample(PendingCall):
    """A sample whose request has been checked.

    Args:
        request: the checked request.
    """

    def __init__(self, request: SampleRequest):
        kind = f"fresh unrolls for member {request.member}" if request.table == "online" else request.view
        lane = frozenset({(request.member, "look" if request.is_look else request.table)})
        super().__init__(request.timeout_s, lane, f"sample of {request.num_items} {kind}")
        self.future: Future[Sample] = Future()
        self.request = request
