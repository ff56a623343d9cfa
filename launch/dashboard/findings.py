"""Descriptions of a run's present and coming problems in words. Pure functions from numbers to sentences."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from launch.formats import short
from launch.recording.metric_table import FIELDS, known_key, rows_of, values_by_field

STALLED_S = 60.0
"""Age of a running run's newest numbers from which it counts as stalled; runs write about once a second."""

_NO_CHECKPOINT = "it had no checkpoint yet, so it can only be begun again"
_WAITING = 0.5
_REJECTED = 0.8
_LONG_WITHOUT_EPISODE = 5_000
_EARLY_S = 30.0
_SOURCES = {"online": "fresh", "own_replay": "own replayed", "foreign_replay": "foreign"}

# Every key that a sentence depends on must be in the table of metrics.
_APPLIED, _ENTROPY, _GRADIENT = map(known_key, ("updates_applied", "entropy", "gradient_norm"))
_EPISODES, _SHARDS_LOST, _FILL = map(known_key, ("totals/episodes", "totals/shards_lost", "replay/num_steps"))
_SECONDS = {stage: known_key(f"totals/time/{stage}") for stage in FIELDS["stage"].values}
_RESTARTS, _EVALUATIONS = map(known_key, ("totals/restarts/{reason}", "totals/evaluations_failed/{reason}"))
_SAID_APART = {_RESTARTS, _EVALUATIONS, _SHARDS_LOST}
_COUNTED_TWICE = {
    known_key("totals/rejected/{reason}"): known_key("ledger/rejected"),
    known_key("ledger/died"): known_key("totals/unrolls_lost/shard"),
}
"""Counts by name of the row, each with another count of the same unrolls, which is the one that is said."""
_ACCEPTED, _NUM_STEPS = map(known_key, ("accept_fraction_{source}", "num_steps_{source}"))
_IMBALANCES = known_key("ledger/imbalance/{balance}")


@dataclass(frozen=True)
class Facts:
    """Facts about a run.

    Args:
        status: "running", "finished", "pruned", "stopped", "failed" or "interrupted".
        age_s: seconds since its newest numbers; None: it has none.
        env_steps: so far.
        seconds: of training so far.
        values: newest value by name.
        growth: growth of counters over about the last minute, by name.
        growth_s: seconds of training over which they grew.
        notes: newest text by name.
        config: as JSON values.
        problem: why its files cannot be read, or "".
        log: the last line of its log about its state.
        resume: the command that continues it from a checkpoint, or "".
        saved: what it left, in words, or "".
    """

    status: str
    age_s: float | None = None
    env_steps: int = 0
    seconds: float = 0.0
    values: Mapping[str, float] = field(default_factory=dict)
    growth: Mapping[str, float] = field(default_factory=dict)
    growth_s: float = 0.0
    notes: Mapping[str, str] = field(default_factory=dict)
    config: Mapping[str, Any] = field(default_factory=dict)
    problem: str = ""
    log: str = ""
    resume: str = ""
    saved: str = ""


def findings(facts: Facts) -> list[str]:
    """Return a sentence for every problem, the worst first."""
    found = [
        _unreadable(facts),
        _failed(facts),
        _stalled(facts),
        *_lost(facts),
        _no_numbers(facts),
        _not_finite(facts),
        _imbalance(facts),
        _limiter(facts),
        *_rejected(facts),
        _no_episode(facts),
        _learner_idle(facts),
        _entropy(facts),
        _gradient(facts),
    ]
    return [sentence for sentence in found if sentence]


def _unreadable(facts: Facts) -> str:
    return facts.problem


def _failed(facts: Facts) -> str:
    if facts.status not in ("failed", "interrupted", "stopped"):
        return ""
    further = f"continue from its last checkpoint: {facts.resume}" if facts.resume else _NO_CHECKPOINT
    if facts.saved:
        further = f"saved: {facts.saved}; {further}"
    if facts.status == "failed":
        why = facts.log.removeprefix("failed: ").removeprefix("finished: ") or "see its log"
        return f"the run failed: {why}; {further}"
    if facts.status == "stopped":
        return f"the run was {facts.log.removeprefix('finished: ') or 'stopped'}; {further}"
    return f"the run recorded no end, as after a kill; {further}"


def _stalled(facts: Facts) -> str:
    if facts.status == "running" and facts.age_s is not None and facts.age_s > STALLED_S:
        return f"nothing has been recorded for {facts.age_s:,.0f} s although the run holds its lock: it has stalled"
    return ""


def _lost(facts: Facts) -> list[str]:
    found = []
    for what, happened in ((_RESTARTS, "workers had to be replaced"), (_EVALUATIONS, "evaluations failed")):
        reasons = _by_reason(facts, what)
        if reasons:
            why = ", ".join(f"{n:,.0f} {reason}" for reason, n in reasons.items())
            found.append(f"{sum(reasons.values()):,.0f} {happened} ({why})")
    if facts.values.get(_SHARDS_LOST, 0.0) > 0:
        found.append(f"{facts.values[_SHARDS_LOST]:,.0f} replay shards are lost with their contents")
    losses = _losses(facts)
    if losses and facts.status != "running":  # in a running run, unrolls are in transit between two counters
        found.append(f"the run ended with losses: {'; '.join(losses)}")
    return found


def _losses(facts: Facts) -> list[str]:
    """Return what was rejected, dropped or lost, each with its number and its reason, as the table of metrics says."""
    found = []
    for row in rows_of("lost"):
        if row.name in _SAID_APART or facts.values.get(_COUNTED_TWICE.get(row.name, ""), 0.0) > 0:
            continue
        for key in row.keys(facts.values):
            if facts.values[key] > 0:
                reason = (row.match(key) or {}).get("reason", "").replace("_", " ")
                why = f" ({reason})" if reason else ""
                found.append(f"{facts.values[key]:,.0f} {row.words.removesuffix(' for this reason')}{why}")
    return found


def _by_reason(facts: Facts, name: str) -> dict[str, float]:
    return {reason.replace("_", " "): n for reason, n in values_by_field(name, facts.values).items() if n > 0}


def _no_numbers(facts: Facts) -> str:
    if facts.age_s is None and not facts.problem:
        return "nothing has been recorded yet"
    return ""


def _not_finite(facts: Facts) -> str:
    bad = facts.values.get(_APPLIED)
    if bad is not None and bad < 0.999:
        return f"{short(100 * (1 - bad))} % of learner steps were skipped because their gradient was not finite"
    return ""


def _imbalance(facts: Facts) -> str:
    wrong = [name for name, n in values_by_field(_IMBALANCES, facts.values).items() if n]
    if wrong and facts.status != "running":  # in a running run, unrolls are in transit between two counters
        return f"the ledger of unrolls does not add up ({', '.join(wrong)}): experience was lost uncounted"
    return ""


def _limiter(facts: Facts) -> str:
    waited = _seconds(facts, "insert_wait")
    acting = _seconds(facts, "environment") + _seconds(facts, "inference") + waited
    if facts.status != "running" or acting <= 0 or waited < _WAITING * acting:
        return ""
    idle, busy = _seconds(facts, "learner_wait"), _seconds(facts, "learner_step")
    share = f"{100 * waited / acting:.0f} % of their time"
    if idle < 0.15 * (idle + busy):
        return f"actors wait for the replay's rate limiter ({share}): the learner is slower than the actors"
    return f"actors wait for the replay's rate limiter ({share}), and the learner waits too: the replay is slow"


def _seconds(facts: Facts, stage: str) -> float:
    return facts.growth.get(_SECONDS[stage], 0.0)


def _rejected(facts: Facts) -> list[str]:
    found = []
    threshold = _setting(facts.config, "trust_region_threshold")
    shares, counts = values_by_field(_ACCEPTED, facts.values), values_by_field(_NUM_STEPS, facts.values)
    for source, accepted in shares.items():
        word, num_steps = _SOURCES[source], counts.get(source, 1.0)
        if num_steps <= 0 or accepted > 1 - _REJECTED:
            continue
        tight = f": threshold {short(threshold)} is tight" if isinstance(threshold, (int, float)) else ""
        found.append(f"{100 * (1 - accepted):.0f} % of {word} steps are rejected{tight}")
    return found


def _no_episode(facts: Facts) -> str:
    if facts.values.get(_EPISODES, 0.0) > 0 or facts.age_s is None:
        return ""
    if facts.env_steps >= _LONG_WITHOUT_EPISODE or facts.seconds > _EARLY_S:
        return f"no episode has finished yet, after {facts.env_steps:,} env steps"
    return ""


def _learner_idle(facts: Facts) -> str:
    if facts.status != "running" or facts.seconds < _EARLY_S or facts.growth_s <= 0:
        return ""
    learned = facts.growth.get("learner_steps")
    if learned is not None and learned <= 0:
        fill = facts.values.get(_FILL)
        least = _setting(facts.config.get("replay", {}), "min_steps")
        if fill is not None and isinstance(least, (int, float)) and fill < least:
            return f"the learner waits for the replay to hold {least:,.0f} steps; it has {fill:,.0f}"
        return f"the learner made no step in the last {facts.growth_s:.0f} s"
    return ""


def _entropy(facts: Facts) -> str:
    entropy = facts.values.get(_ENTROPY)
    # A continuous policy has differential entropy, which may be negative.
    if entropy is not None and 0 <= entropy < 1e-3:
        return f"the policy is nearly deterministic (entropy {short(entropy)} nats): raise the entropy cost"
    return ""


def _gradient(facts: Facts) -> str:
    norm = facts.values.get(_GRADIENT)
    most = _setting(facts.config, "max_gradient_norm")
    if norm is not None and isinstance(most, (int, float)) and 0 < 10 * most < norm:
        return f"gradients are clipped hard: their norm is {short(norm)}, the limit {short(most)}"
    return ""


def _setting(config: Any, name: str) -> Any:
    """Return a setting of the config's algorithm, or of the config itself."""
    if not isinstance(config, Mapping):
        return None
    algorithm = config.get("algorithm")
    if isinstance(algorithm, Mapping) and name in algorithm:
        return algorithm[name]
    return config.get(name)
