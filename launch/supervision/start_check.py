"""The check of a run's start: what its first updates learned from, and settings that had no effect on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from launch.recording.metric_table import FIELDS, known_key, values_by_field
from launch.recording.recorder import Recorder
from launch.settings.train_config import TrainConfig

_UPDATES = known_key("start/updates")
_SHARES, _AGES, _ACCEPTED = map(known_key, ("start/share/{source}", "start/age/{source}", "start/accepted/{source}"))
_APPLIED = known_key("updates_applied")
_NEARLY_NONE = 0.005  # is written as 0 %
_FAR_OFF = 0.15  # a Poisson number of replayed batches misses its mean by half of this at most


class StartCheck:
    """Says once, in one line, what a run's first updates learned from, and once that updates are refused.

    Used from one thread.

    Args:
        recorder: the member's recorder.
        config: the member's config.
        shares_replay: whether other members that train at the same time fill the same replay.
        say: receives the line, and one for each warning.
    """

    def __init__(self, recorder: Recorder, config: TrainConfig, shares_replay: bool, say: Callable[[str], None]):
        self._recorder, self._config, self._shares_replay, self._say = recorder, config, shares_replay, say
        self.summary: dict[str, Any] = {}
        """The measurement and the warnings as JSON values; empty before the last of the first updates."""
        self._has_refused = False

    def look(self) -> None:
        """Say what was learned from, if the learner has reported it and nothing was said yet."""
        if self.summary:
            self._look_for_refused()
            return
        if not self._recorder.has_gauge(_UPDATES):
            return
        values = self._recorder.snapshot().gauges
        warnings = list(start_warnings(values, self._config, self._shares_replay))
        self.summary = summarise_start(values) | {"warnings": warnings}
        for line in (describe_start(values), *(f"warning: {each}" for each in warnings)):
            self._say(line)
        self._look_for_refused()

    def _look_for_refused(self) -> None:
        """Say once that updates are refused, at the start or whenever it begins."""
        applied = self._recorder.gauge(_APPLIED)
        if self._has_refused or applied is None or applied >= 1.0:
            return
        self._has_refused = True
        warning = (
            f"{100 * (1.0 - applied):.0f}% of the newest updates were skipped, since their gradient was not finite; "
            "likely cause: a learning-rate, a reward-scale or a cost that is too large"
        )
        self.summary["warnings"].append(warning)
        self._say(f"warning: {warning}")


def summarise_start(values: Mapping[str, float]) -> dict[str, Any]:
    """Return the measurement of `learner.metrics.first_updates` as JSON values, by source of the steps."""
    return {
        "updates": int(values[_UPDATES]),
        "share": values_by_field(_SHARES, values),
        "age": values_by_field(_AGES, values),
        "accepted": values_by_field(_ACCEPTED, values),
    }


def describe_start(values: Mapping[str, float]) -> str:
    """Return one line about what the first updates learned from."""
    found = summarise_start(values)
    parts = []
    for source, words in FIELDS["source"].values.items():
        share, facts = found["share"].get(source, 0.0), []
        if source in found["age"]:
            facts.append(f"{found['age'][source]:,.1f} versions old")
        if source in found["accepted"]:
            facts.append(f"{100 * found['accepted'][source]:.0f}% accepted")
        if share:
            parts.append(f"{100 * share:.0f}% {words}" + (f" ({', '.join(facts)})" if facts else ""))
    return f"first {found['updates']} updates: learned from {', '.join(parts) or 'nothing'}"


def start_warnings(values: Mapping[str, float], config: TrainConfig, shares_replay: bool) -> Iterator[str]:
    """Yield settings that had no effect on the first updates, each with the likely cause.

    Args:
        values: the measurement.
        config: the member's config.
        shares_replay: whether other members that train at the same time fill the same replay.
    """
    found, asked = summarise_start(values), asked_share(config)
    fresh, foreign = (found["share"].get(source, 0.0) for source in ("online", "foreign_replay"))
    replayed = sum(found["share"].values()) - fresh
    ratio = config.algorithm.replays_per_batch
    cause = (
        f"replay-ratio {ratio:g} draws a Poisson number of batches"
        if ratio
        else "the others held no step to learn from"
    )
    if (asked > 0.0 and replayed < _NEARLY_NONE) or abs(replayed - asked) > _FAR_OFF:
        yield f"replayed {100 * replayed:.0f}% although {100 * asked:.0f}% were asked for; likely cause: {cause}"
    if shares_replay and asked > 0.0 and foreign < _NEARLY_NONE:
        yield (
            "share-replay: 0% of the steps were made by other members; likely cause: they had stored nothing yet, "
            "since they started later or are slower"
        )
    threshold = getattr(config.algorithm, "trust_region_threshold", None)
    for source, accepted in found["accepted"].items():
        if found["share"].get(source, 0.0) >= _NEARLY_NONE and accepted < _NEARLY_NONE:
            tight = "" if threshold is None else f"; likely cause: trust-region-threshold {threshold:g} is too tight"
            yield f"0% of the steps from {FIELDS['source'].words_of(source)} were accepted: they had no effect{tight}"


def asked_share(config: TrainConfig) -> float:
    """Return the share of the items learned from that are to be replayed, by the settings."""
    algorithm = config.algorithm
    replayed = algorithm.num_replayed + algorithm.replays_per_batch * algorithm.num_drawn
    return replayed / (algorithm.num_online + replayed)
