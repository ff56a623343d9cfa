"""The config of the replay: capacity, shards, limiter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds
from laser.prioritization.config import SamplingConfig


@dataclass(frozen=True)
class ReplayConfig(SamplingConfig):
    """How much experience is kept, and when and how it is drawn."""

    capacity_steps: Annotated[int, Bounds(least=1), "env steps kept, over all shards"] = 1_000_000
    capacity_bytes: Annotated[
        int, Bounds(least=0), "bytes for compressed frames, over all shards; 0 derives it from capacity-steps"
    ] = 0
    num_shards: Annotated[int, Bounds(least=1, most=1024), "shards the replay is split over"] = 1
    min_steps: Annotated[int, Bounds(least=0), "env steps stored before replayed experience is drawn"] = 1_000
    samples_per_insert: Annotated[
        float,
        Bounds(above=0.0, allow_infinite=True),
        "replayed steps drawn per step inserted, for learners that draw no fresh experience; inf: as fast as possible",
    ] = float("inf")
    stream_weight: Annotated[
        Literal["episode", "length"],
        "recurrent agents' replay streams: every finished episode is equally likely, or every step of one",
    ] = "episode"
    lease_s: Annotated[
        float,
        Bounds(above=0.0, most=1e6),
        "seconds without a request after which a learner no longer holds up anything",
    ] = 300.0
    remover: Annotated[str, "which episode is forgotten when the replay is full"] = "fifo"
