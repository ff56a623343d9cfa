"""The panels of a run's page: which metrics each draws, and what it is called."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from launch.dashboard.curves import carried, growth_ratio, rate, smooth
from launch.dashboard.figures import Curve, Figure, Theme, line_figure, message_figure
from launch.dashboard.reading import Axis, Series

AXIS_TITLES: dict[Axis, str] = {
    "env_steps": "env steps",
    "frames": "frames",
    "seconds": "training time (s)",
    "learner_steps": "learner steps",
}

_MOST_TASKS = 8
_SHARE = (-0.02, 1.05)
_SOURCES = {"online": "fresh", "own_replay": "own replay", "foreign_replay": "foreign replay"}
_STAGES = ("environment", "inference", "insert", "insert_wait", "decode", "learner_wait", "learner_step", "publish")


@dataclass(frozen=True)
class Line:
    """A line of a panel.

    Args:
        label: in the legend.
        name: of the metric.
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
        key: names it on the page.
        title: above it.
        y_title: what y is, with its unit.
        lines: what it can draw; those whose metrics a run lacks are left out.
        missing: what to say where none is left.
        y_range: of y.
        from_zero: y begins at 0.
        stacked: areas on top of each other.
        instead: lines to draw where the run has none of `lines`, as older runs.
    """

    key: str
    title: str
    y_title: str
    lines: tuple[Line, ...]
    missing: str = ""
    y_range: tuple[float, float] | None = None
    from_zero: bool = False
    stacked: bool = False
    instead: tuple[Line, ...] = ()

    def chosen(self, known: Collection[str]) -> list[Line]:
        """Return the lines whose metrics the run has."""
        for lines in (self.lines, self.instead):
            found = [line for line in lines if line.name in known and all(name in known for name in line.below)]
            if found:
                return found
        return []


def _by_source(prefix: str, label: str = "{}") -> tuple[Line, ...]:
    return tuple(
        Line(label.format(word), f"{prefix}_{name}", colour=place)
        for place, (name, word) in enumerate(_SOURCES.items())
    )


def _quantiles(label: str, prefix: str, colour: int) -> Line:
    return Line(label, f"{prefix}/p50", band=(f"{prefix}/p10", f"{prefix}/p90"), colour=colour)


def _named(known: Collection[str], fits: Callable[[str], bool], label: Callable[[str], str]) -> tuple[Line, ...]:
    return tuple(Line(label(name), name) for name in sorted(known) if fits(name))


def _far_from_the_policy(known: Collection[str]) -> list[Panel]:
    """Return what is done about experience of other policies: each algorithm has a way of its own, or none."""
    ways = [
        Panel("acceptance", "Trust region: accepted steps", "share", _by_source("accept_fraction"), y_range=_SHARE),
        Panel(
            "projected",
            "Trust region: gradients that were projected",
            "share",
            (Line("of all steps", "projected_fraction"),),
            y_range=_SHARE,
        ),
        Panel(
            "far",
            "ReF-ER: far-policy steps",
            "share",
            (Line("of a batch", "far_fraction"), Line("of what is stored", "stored_far_fraction")),
            y_range=_SHARE,
        ),
    ]
    missing = dataclasses.replace(ways[0], missing="the algorithm has no trust region")
    return [way for way in ways if way.chosen(known)] or [missing]


def panels_of(known: Collection[str]) -> list[Panel]:
    """Return the panels of a run that has recorded these metrics, in the order of the page."""
    lag = "totals/policy_lag"
    mix = ("totals/unrolls_learned/online", "totals/unrolls_learned/replayed")
    tasks = _named(known, lambda name: name.startswith("tasks/") and name.endswith("/mean_return"), _middle)
    drawn = (
        f"Return by task (the first {_MOST_TASKS} of {len(tasks)})" if len(tasks) > _MOST_TASKS else "Return by task"
    )
    return [
        Panel(
            "return",
            "Return",
            "undiscounted return",
            (
                Line("episodes of a second", "charts/episodic_return", is_faint=True, colour=0),
                Line("last 20 episodes", "charts/mean_return", colour=0),
                Line("evaluation", "evaluation/mean_return", colour=1),
            ),
            "no episode has finished yet",
        ),
        *([Panel("tasks", drawn, "undiscounted return", tasks[:_MOST_TASKS])] if len(tasks) > 1 else []),
        Panel(
            "length",
            "Episode length",
            "env steps",
            (Line("training", "charts/episodic_length"), Line("evaluation", "evaluation/mean_length")),
            "no episode has finished yet",
            from_zero=True,
        ),
        Panel(
            "losses",
            "Losses",
            "loss",
            _named(known, lambda name: "/" not in name and name.endswith("loss"), _loss_label),
            "no learner step yet",
        ),
        Panel("entropy", "Entropy", "nats", (Line("policy", "entropy"),), "the algorithm records no entropy"),
        Panel(
            "kl",
            "Divergence of the policy",
            "KL, nats",
            _by_source("implied_kl", "to the implied policy, {}"),
            "the algorithm records no KL",
            instead=_named(known, lambda name: "/" not in name and "kl" in name.split("_"), _words),
        ),
        *_far_from_the_policy(known),
        Panel(
            "ratios",
            "Importance ratios |log rho|",
            "nats",
            _by_source("abs_log_rho"),
            "the algorithm records no importance ratios",
        ),
        Panel(
            "lag",
            "Policy lag (median, 10-90 %)",
            "versions",
            (
                _quantiles("fresh", "policy_lag/online", 0),
                _quantiles("own replay", "policy_lag/own_replay", 1),
                _quantiles("foreign replay", "policy_lag/foreign_replay", 2),
            ),
            "nothing has been learned from yet",
            instead=(
                Line("fresh, mean", f"{lag}_sum/online", "share", (f"{lag}_count/online",)),
                Line("replayed, mean", f"{lag}_sum/replayed", "share", (f"{lag}_count/replayed",)),
            ),
            from_zero=True,
        ),
        Panel(
            "age",
            "Replay age (median, 10-90 %)",
            "env steps",
            (_quantiles("replayed", "replay_age", 1),),
            "nothing is replayed, or the run is older than this metric",
            from_zero=True,
        ),
        Panel(
            "fraction",
            "Replayed share of batches",
            "share",
            (Line("replayed", "replay/fraction"),),
            "nothing has been learned from yet",
            y_range=(-0.02, 1.05),
            instead=(Line("replayed", mix[1], "share", mix),),
        ),
        Panel(
            "samples_per_insert",
            "Samples per insert",
            "samples / insert",
            (Line("realised", "replay/samples_per_insert"),),
            "nothing is replayed, or the run is older than this metric",
            from_zero=True,
        ),
        Panel(
            "fill",
            "Replay fill",
            "env steps",
            (Line("held", "replay/num_steps"), Line("capacity", "replay/capacity_steps", colour=6)),
            "the run is older than this metric",
            from_zero=True,
        ),
        Panel(
            "bytes",
            "Replay memory",
            "bytes",
            (
                Line("all of it", "replay/memory_bytes"),
                Line("frames", "replay/frame_bytes"),
                Line("room for frames", "replay/frame_capacity_bytes", colour=6),
            ),
            "the run is older than this metric",
            from_zero=True,
        ),
        Panel(
            "throughput",
            "Throughput of each stage",
            "env steps / s",
            tuple(Line(name, f"throughput/{name}") for name in ("acting", "inserting", "sampling", "learning")),
            "nothing has been measured yet",
            instead=(Line("acting", "charts/SPS"),),
            from_zero=True,
        ),
        Panel(
            "busy",
            "Where threads spend their time",
            "threads",
            tuple(Line(_words(name), f"busy/{name}") for name in _STAGES),
            "nothing has been measured yet",
            stacked=True,
            instead=tuple(Line(_words(name), f"totals/time/{name}", "rate") for name in _STAGES),
        ),
        Panel(
            "learner",
            "Learner",
            "steps / s",
            (Line("learner steps", "charts/learner_steps_per_second"),),
            "no learner step yet",
            from_zero=True,
        ),
        Panel(
            "value",
            "Value function",
            "explained variance",
            (Line("explained variance", "explained_variance"),),
            "the algorithm records no explained variance",
        ),
        Panel(
            "gradient",
            "Gradient norm, before clipping",
            "norm",
            (Line("gradient", "gradient_norm"),),
            "no learner step yet",
            from_zero=True,
        ),
        Panel(
            "rate",
            "Learning rate",
            "",
            (Line("learning rate", "charts/learning_rate"),),
            "the run is older than this metric",
            from_zero=True,
        ),
        Panel(
            "cpu",
            "Processes: CPU",
            "% of a core",
            _named(known, lambda name: name.startswith("process/") and name.endswith("/cpu_percent"), _middle),
            "the run is older than this metric",
            from_zero=True,
        ),
        Panel(
            "memory",
            "Processes: memory",
            "bytes",
            _named(known, lambda name: name.startswith("process/") and name.endswith("/memory_bytes"), _middle),
            "the run is older than this metric",
            from_zero=True,
        ),
    ]


def draw(panel: Panel, series: Mapping[str, Series], axis: Axis, theme: Theme, half_width: int = 0) -> Figure:
    """Return a panel's figure, or one that says what is missing."""
    curves = [_curve(line, place, series, axis, half_width) for place, line in enumerate(panel.chosen(series))]
    curves = [curve for curve in curves if len(curve.x)]
    if not curves:
        return message_figure(panel.missing or "nothing has been recorded", theme)
    return line_figure(
        curves,
        AXIS_TITLES[axis],
        panel.y_title,
        theme,
        y_range=panel.y_range,
        from_zero=panel.from_zero,
        stacked=panel.stacked,
    )


def names_of(panels: Sequence[Panel]) -> list[str]:
    """Return every metric that panels may need."""
    lines = [line for panel in panels for line in (*panel.lines, *panel.instead)]
    return list(dict.fromkeys(name for line in lines for name in line.names))


def _curve(line: Line, place: int, series: Mapping[str, Series], axis: Axis, half_width: int) -> Curve:
    base = series[line.name]
    if line.kind == "rate":
        base = rate(base)
    elif line.kind == "share":
        base = growth_ratio(base, [series[name] for name in line.below])
    low = high = None
    if line.band and all(name in series for name in line.band):
        low, high = (carried(series[name], base.ticks) for name in line.band)
    values = base.values if line.is_faint else smooth(base.values, half_width)
    colour = place if line.colour is None else line.colour
    return Curve(line.label, base.axes[axis], values, low, high, colour, line.is_faint)


def _middle(name: str) -> str:
    return name.split("/", 1)[1].rpartition("/")[0]


def _words(name: str) -> str:
    return name.replace("_", " ")


def _loss_label(name: str) -> str:
    return "total" if name == "loss" else _words(name.removesuffix("_loss"))
