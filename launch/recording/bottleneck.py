"""Names what limits a run, in words, from where its threads spend their seconds."""

from __future__ import annotations

from collections.abc import Mapping

# Below this share of its time, waiting is jitter and not a sign of somebody slower.
_NOTICEABLE = 0.15


def name_bottleneck(seconds: Mapping[str, float], span_s: float) -> str:
    """Return what limits the run, e.g. "environment (71% of the actors' time)", or "" while nothing is known.

    The learner limits a run in which it hardly waits. If it waits, it is either for decoding, or the actors' time says
    why: they are busy with emulation or inference, or held by the replay's limiter while the learner lacks data.

    Args:
        seconds: growth of the `time/...` counters over the span, summed over all actors and the learner.
        span_s: length of the span, wall clock.
    """

    def of(name: str) -> float:
        return max(0.0, seconds.get(f"time/{name}", 0.0))

    working, waiting = of("learner_step") + of("publish"), of("learner_wait")
    acting = {name: of(name) for name in ("environment", "inference", "insert_wait")}
    learner_s, actors_s = working + waiting, sum(acting.values())
    if span_s <= 0.0 or learner_s + actors_s <= 0.0:
        return ""
    if learner_s > 0.0 and waiting < _NOTICEABLE * learner_s:
        part = "publishing" if of("publish") > of("learner_step") else "learner"
        return f"{part} ({_percent(working, learner_s)} of its time at work)"
    if of("decode") > (1.0 - _NOTICEABLE) * span_s:
        return f"transfer (decoding takes {_percent(of('decode'), span_s)} of the time)"
    if actors_s <= 0.0:
        return "actors (nothing has arrived yet)"
    worst = max(acting, key=lambda name: acting[name])
    share = _percent(acting[worst], actors_s)
    if worst == "insert_wait" and learner_s > 0.0:
        # Both sides wait for each other's data: it is somewhere in between.
        return f"replay (actors spend {share} of their time waiting for its limiter)"
    if worst == "insert_wait":
        return f"learner (actors spend {share} of their time waiting to insert)"
    return f"{worst} ({share} of the actors' time)"


def _percent(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.0f}%"
