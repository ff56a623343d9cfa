"""Rates of a run over its last seconds, computed from the growth of its counters."""

from __future__ import annotations

from collections.abc import Mapping


def rates(growth: Mapping[str, float], span_s: float) -> dict[str, float]:
    """Return the throughput of each stage, and the realised share of replayed experience.

    `throughput/acting` and `throughput/learning` are env steps/s. `busy/NAME` is the mean number of threads at work on
    NAME: growth of `time/NAME` per second. `replay/fraction` is the replayed share of the steps learned from.

    Args:
        growth: growth of the counters over the span, summed over all sources.
        span_s: length of the span in seconds, wall clock.
    """
    if span_s <= 0.0:
        return {}
    learned = {name: growth.get(f"steps_learned/{name}", 0.0) for name in ("online", "replayed")}
    values = {
        "throughput/acting": growth.get("env_steps", 0.0) / span_s,
        "throughput/learning": sum(learned.values()) / span_s,
    }
    values |= {f"busy/{name[5:]}": seconds / span_s for name, seconds in growth.items() if name.startswith("time/")}
    if sum(learned.values()) > 0.0:
        values["replay/fraction"] = learned["replayed"] / sum(learned.values())
    return values
