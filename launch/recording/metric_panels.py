"""The panels of a run's page and of its report: their titles, and which recorded metrics each draws."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from launch.recording.metric_table import FIELDS, Metric, label_of, rows_of

_QUANTILE = "quantile"


@dataclass(frozen=True)
class Line:
    """A line of a panel.

    Args:
        label: in the legend.
        name: key of the metric.
        kind: as it is, the growth per second of a counter, or its share of the growth of `below`.
        below: counters below the line of a share.
        band: metrics of the lower and upper edge around it.
        is_faint: drawn pale.
        colour: number in the palette; by default the line's place.
    """

    label: str
    name: str
    kind: Literal["value", "rate", "share"] = "value"
    below: tuple[str, ...] = ()
    band: tuple[str, str] | None = None
    is_faint: bool = False
    colour: int | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """Every metric that it needs."""
        return (self.name, *self.below, *(self.band or ()))


@dataclass(frozen=True)
class Panel:
    """One picture.

    Args:
        key: names it in the table of metrics and on the page.
        title: above it.
        y_title: what y is, with its unit.
        missing: what to say where there is no line.
        y_range: of y.
        from_zero: y begins at 0.
        stacked: areas on top of each other.
        report: name of its picture's file in a report, without the ending; "" leaves it out of reports.
        lines: what it draws of a run.
        instead: lines to draw where the run has none of `lines`.
    """

    key: str
    title: str
    y_title: str = ""
    missing: str = ""
    y_range: tuple[float, float] | None = None
    from_zero: bool = False
    stacked: bool = False
    report: str = ""
    lines: tuple[Line, ...] = ()
    instead: tuple[Line, ...] = ()

    def chosen(self, known: Collection[str]) -> list[Line]:
        """Return the lines whose metrics the run has."""
        for lines in (self.lines, self.instead):
            found = [line for line in lines if line.name in known and all(name in known for name in line.below)]
            if found:
                return found
        return []

    def of_run(self, known: Collection[str]) -> Panel:
        """Return the panel with lines for what a run has recorded, from the table of metrics.

        Args:
            known: keys.
        """
        rows = list(rows_of(self.key))
        lines = tuple(line for row in rows if not row.is_substitute for line in _lines(row, known))
        instead = tuple(line for row in rows if row.is_substitute for line in _lines(row, known))
        return dataclasses.replace(self, lines=lines, instead=instead or self.instead)


_SHARE = (-0.02, 1.05)
_OLDER = "the run is older than this metric"
_NOTHING_YET = "nothing has been learned from yet"
_UNMEASURED = "nothing has been measured yet"
_NO_UPDATE = "no learner step yet"
_NO_EPISODE = "no episode has finished yet"
_NO_REPLAY = f"nothing is replayed, or {_OLDER}"
_LAG, _LEARNED = "totals/policy_lag", "totals/unrolls_learned"

PANELS: tuple[Panel, ...] = (
    Panel("return", "Return", "undiscounted return", _NO_EPISODE, report="return"),
    Panel("tasks", "Return by task", "undiscounted return"),
    Panel("length", "Episode length", "env steps", _NO_EPISODE, from_zero=True, report="length"),
    Panel("losses", "Losses", "loss", _NO_UPDATE, report="losses"),
    Panel("entropy", "Entropy", "nats", "the algorithm records no entropy", report="entropy"),
    Panel("kl", "Divergence of the policy", "KL, nats", "the algorithm records no KL", report="divergence"),
    Panel(
        "acceptance",
        "Trust region: accepted steps",
        "share",
        "the algorithm has no trust region",
        y_range=_SHARE,
        report="acceptance",
    ),
    Panel("projected", "Trust region: gradients that were projected", "share", y_range=_SHARE, report="projected"),
    Panel("far", "ReF-ER: far-policy steps", "share", y_range=_SHARE, report="far-policy"),
    Panel("ratios", "Importance ratios |log rho|", "nats", "the algorithm records no importance ratios"),
    Panel(
        "lag",
        "Policy lag (median, 10-90 %)",
        "versions",
        _NOTHING_YET,
        from_zero=True,
        report="policy-lag",
        # Older runs recorded sums.
        instead=(
            Line("fresh, mean", f"{_LAG}_sum/online", "share", (f"{_LAG}_count/online",)),
            Line("replayed, mean", f"{_LAG}_sum/replayed", "share", (f"{_LAG}_count/replayed",)),
        ),
    ),
    Panel("age", "Replay age (median, 10-90 %)", "env steps", _NO_REPLAY, from_zero=True),
    Panel(
        "fraction",
        "Replayed share of batches",
        "share",
        _NOTHING_YET,
        y_range=_SHARE,
        instead=(Line("replayed", f"{_LEARNED}/replayed", "share", (f"{_LEARNED}/online", f"{_LEARNED}/replayed")),),
    ),
    Panel("samples_per_insert", "Samples per insert", "samples / insert", _NO_REPLAY, from_zero=True),
    Panel("fill", "Replay fill", "env steps", _OLDER, from_zero=True),
    Panel("bytes", "Replay memory", "bytes", _OLDER, from_zero=True),
    Panel("throughput", "Throughput of each stage", "env steps / s", _UNMEASURED, from_zero=True, report="throughput"),
    Panel(
        "busy",
        "Where threads spend their time",
        "threads",
        _UNMEASURED,
        stacked=True,
        instead=tuple(Line(words, f"totals/time/{name}", "rate") for name, words in FIELDS["stage"].values.items()),
    ),
    Panel("learner", "Learner", "steps / s", _NO_UPDATE, from_zero=True),
    Panel("value", "Value function", "explained variance", "the algorithm records no explained variance"),
    Panel("gradient", "Gradient norm, before clipping", "norm", _NO_UPDATE, from_zero=True),
    Panel("rate", "Learning rate", "", _OLDER, from_zero=True),
    Panel("cpu", "Processes: CPU", "% of a core", _OLDER, from_zero=True),
    Panel("memory", "Processes: memory", "bytes", _OLDER, from_zero=True),
)
"""Every picture, in the order of the page."""

BOXES: dict[str, str] = {"ledger": "Ledger of unrolls", "lost": "Rejected, dropped, lost"}
"""Titles of the page's tables that show newest values, by the key that `Metric.panel` names them with."""

WAYS = ("acceptance", "projected", "far")
"""Panels of what algorithms do about steps far from their policy; a page shows those that a run has lines for."""

TITLES: dict[str, str] = {**{panel.key: panel.title for panel in PANELS}, **BOXES}


def names_of(panels: Sequence[Panel]) -> list[str]:
    """Return every metric that panels may need."""
    lines = [line for panel in panels for line in (*panel.lines, *panel.instead)]
    return list(dict.fromkeys(name for line in lines for name in line.names))


def _lines(row: Metric, known: Collection[str]) -> list[Line]:
    """Return a line for each key; a distribution's is its median, with a band from 10 to 90 %."""
    lines = []
    for key in row.keys(known):
        fields = row.match(key) or {}
        band = None
        if _QUANTILE in fields:
            if fields[_QUANTILE] != "p50":
                continue
            prefix = key.removesuffix("p50")
            band = (f"{prefix}p10", f"{prefix}p90")
        lines.append(
            Line(label_of(key, row, without=_QUANTILE), key, "value", (), band, row.is_faint, _colour(row, fields))
        )
    return lines


def _colour(row: Metric, fields: dict[str, str]) -> int | None:
    for name, value in fields.items():
        if FIELDS[name].is_coloured:
            return list(FIELDS[name].values).index(value)
    return row.colour
