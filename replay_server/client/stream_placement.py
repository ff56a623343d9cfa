"""Placement of episode streams: assigns each stream of a set to a shard."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laser.ports import SampleRequest


def place_streams(homes: np.ndarray | None, num_streams: int, usable: np.ndarray) -> np.ndarray:
    """Return the shard of each stream, int64 [num_streams]: spread evenly over usable shards, moving few streams.

    Args:
        homes: the shards of the streams so far, or None.
        num_streams: streams of the set.
        usable: bool [K], at least one True.
    """
    if homes is None or len(homes) != num_streams:
        homes = np.full(num_streams, -1)
    # The shards with most streams get one more, so that fewer streams move.
    shards = sorted(np.flatnonzero(usable).tolist(), key=lambda k: (-int((homes == k).sum()), k))
    each, left_over = divmod(num_streams, len(shards))
    room = {k: each + (place < left_over) for place, k in enumerate(shards)}
    settled = np.full(num_streams, -1)
    for stream, home in enumerate(homes.tolist()):
        if room.get(home, 0) > 0:
            room[home] -= 1
            settled[stream] = home
    settled[settled < 0] = [k for k, num in room.items() for _ in range(num)]
    return settled


def requests_by_home(
    request: SampleRequest, homes: np.ndarray, num_shards: int, timeout_s: float
) -> list[SampleRequest | None]:
    """Return the request to each shard for the streams placed there; None for a shard without streams."""
    asked: list[SampleRequest | None] = []
    for k in range(num_shards):
        here = tuple(np.flatnonzero(homes == k).tolist())
        own = replace(request, num_items=len(here), streams=here, timeout_s=timeout_s)
        asked.append(own if here else None)
    return asked
