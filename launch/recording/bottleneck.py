"""The bottleneck of a run, in words, from the time that its threads spend in each stage."""

from __future__ import annotations

from collections.abc import Mapping

# Below this share of its time, waiting is jitter and not a sign of a slower component.
_NOTICEABLE = 0.15
_IN_TURNS = {
    "environment": "environment",
    "inference": "inference",
    "learner_step": "learner",
    "learner_wait": "drawing batches",
    "publish": "publishing",
    "insert_wait": "inserting",
}


def name_bottleneck(seconds: Mapping[str, float], span_s: float, in_turns: bool = False) -> str:
    """Return the bottleneck of the run, e.g. "environment (71% of the actors' time)", or "" while it is unknown.

    The learner is the bottleneck if it hardly waits. If it waits, the bottleneck is either decoding or visible in the
    actors' time: they are busy with emulation or inference, or the replay's limiter holds them while the learner lacks
    data. In lockstep no component waits for another, and the bottleneck is the stage that takes the most time.

    Args:
        seconds: growth of the `time/...` counters over the span, summed over all actors and the learner.
        span_s: length of the span, wall clock.
        in_turns: only one of actors and learner works at a time.
    """

    def of(name: str) -> float:
        return max(0.0, seconds.get(f"time/{name}", 0.0))

    if in_turns:
        parts = {word: of(name) for name, word in _IN_TURNS.items()}
        longest = max(parts, key=lambda word: parts[word])
        share = _percent(parts[longest], sum(parts.values()) or 1.0)
        return f"{longest} ({share} of the time at work)" if span_s > 0.0 and parts[longest] > 0.0 else ""
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
        # Both sides wait for each other's data: the bottleneck is the replay between them.
        return f"replay (actors spend {share} of their time waiting for its limiter)"
    if worst == "insert_wait":
        return f"learner (actors spend {share} of their time waiting to insert)"
    return f"{worst} ({share} of the actors' time)"


def _percent(part: float, whole: float) -> str:
    return f"{100.0 * part / whole:.0f}%"
