"""The panels of a run's page and of its report: their titles and the metrics that each draws."""

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
        label: text in the legend.
        name: key of the metric.
        kind: "value": the metric itself; "rate": the growth of a counter per second; "share": the growth of a counter
            divided by that of `below`.
        below: counters in the denominator of a share.
        band: metrics of the lower and upper edge of the band around the line.
        is_faint: draw the line pale.
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
        """Every metric that the line needs."""
        return (self.name, *self.below, *(self.band or ()))


@dataclass(frozen=True)
class Panel:
    """One picture.

    Args:
        key: the panel's identifier in the table of metrics and on the page.
        title: title above the picture.
        y_title: title of the y axis, with its unit.
        missing: text in place of the picture if there is no line.
        y_range: range of the y axis.
        from_zero: the y axis begins at 0.
        stacked: draw areas on top of each other.
        report: name of the picture's file in a report, without its suffix; "" leaves it out of reports.
        lines: lines of a run.
        instead: lines to draw if the run has none of `lines`.
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
        """Return the lines whose metrics the run has recorded."""
        for lines in (self.lines, self.instead):
            found = [line for line in lines if line.name in known and all(name in known for name in line.below)]
            if found:
                return found
        return []

    def of_run(self, known: Collection[str]) -> Panel:
        """Return the panel with lines for the metrics that a run has recorded, from the table of metrics.

        Args:
            known: recorded keys.
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
_NO_GPU = "the run uses no GPU, or nvidia-ml-py is not installed (pip install 'laser-rl[gpu]')"
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
        "Policy lag",
        "versions",
        _NOTHING_YET,
        from_zero=True,
        report="policy-lag",
        # Older runs recorded sums and counts.
        instead=(
            Line("fresh, mean", f"{_LAG}_sum/online", "share", (f"{_LAG}_count/online",)),
            Line("replayed, mean", f"{_LAG}_sum/replayed", "share", (f"{_LAG}_count/replayed",)),
        ),
    ),
    Panel("age", "Replay age", "env steps", _NO_REPLAY, from_zero=True),
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
    Panel("values", "Values and their errors", "return", "the algorithm records no values"),
    Panel("actions", "Size of actions", "", "actions are discrete, or not recorded"),
    Panel("temperature", "Temperature", "", "the algorithm has no temperature", from_zero=True),
    Panel("epsilon", "Random actions", "share", "the algorithm chooses no actions at random", y_range=_SHARE),
    Panel("clipped", "Clipped importance ratios", "share", "the algorithm clips no ratios, or counts none", _SHARE),
    Panel("gradient", "Gradient norm, before clipping", "norm", _NO_UPDATE, from_zero=True),
    Panel("rate", "Learning rate", "", _OLDER, from_zero=True),
    Panel("cpu", "Processes: CPU", "% of a core", _OLDER, from_zero=True),
    Panel("memory", "Processes: memory", "bytes", _OLDER, from_zero=True),
    Panel("gpu", "GPU: time in use", "% of the time", _NO_GPU, from_zero=True),
    Panel("gpu_memory", "GPU: memory", "bytes", "the run uses no GPU", from_zero=True),
)
"""Every picture, in the order of the page."""

BOXES: dict[str, str] = {"ledger": "Ledger of unrolls", "lost": "Rejected, dropped, lost"}
"""Titles of the page's tables of newest values, by their key in `Metric.panel`."""

WAYS = ("acceptance", "projected", "far")
"""Panels about the treatment of steps far from the policy; a page shows those for which a run has lines."""

TITLES: dict[str, str] = {**{panel.key: panel.title for panel in PANELS}, **BOXES}


def names_of(panels: Sequence[Panel]) -> list[str]:
    """Return every metric that panels may need."""
    lines = [line for panel in panels for line in (*panel.lines, *panel.instead)]
    return list(dict.fromkeys(name for line in lines for name in line.names))


def _lines(row: Metric, known: Collection[str]) -> list[Line]:
    """Return a line for each key; for a distribution the median, with a band from 10 to 90 %."""
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
