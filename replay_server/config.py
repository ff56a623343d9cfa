"""The config of the replay: capacity, shards, limiter."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from laser.config import Bounds


@dataclass(frozen=True)
class ReplayConfig:
    """How much experience is kept and when it may be drawn."""

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
        float, Bounds(above=0.0), "seconds without a request after which a learner no longer holds up anything"
    ] = 300.0
    sampler: Annotated[str, "how unrolls, steps or episodes are drawn"] = "uniform"
    priority_exponent: Annotated[
        float, Bounds(least=0.0), "prioritized: exponent of priorities, or of ranks; 0 draws uniformly, 1 in proportion"
    ] = 0.6
    priority_uniform: Annotated[
        float, Bounds(least=0.0, most=1.0), "prioritized: share of the draws that is uniform whatever the priorities"
    ] = 0.1
    remover: Annotated[str, "which episode is forgotten when the replay is full"] = "fifo"
