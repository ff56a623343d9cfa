"""The "?" behind the title of a panel: what it shows, in the words of the table of metrics."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from dash import html

from launch.recording.metric_panels import Panel
from launch.recording.metric_table import Metric, metric_of, rows_of
from launch.records.listing import printable

_BAND = "line: the median; band: from the 10 % to the 90 % quantile"


def help_button(title: str, about: Sequence[str]) -> list[Any]:
    """Return a "?" that opens the explanation of a panel, by a click, by Enter, and by the space bar.

    Args:
        title: of the panel.
        about: paragraphs; [] if there is nothing to explain, and then there is no "?".
    """
    if not about:
        return []
    spoken: dict[str, Any] = {"aria-label": f"about {title}"}
    text = html.Div([html.P(words) for words in about], className="help-text")
    return [html.Details([html.Summary("?", **spoken), text], className="help")]


def about_panel(panel: Panel, known: Collection[str]) -> list[str]:
    """Return the meaning of a panel's metrics.

    Args:
        panel: of a run's page.
        known: what the run has recorded; the other metrics of the panel are left out if it has any of them.
    """
    rows = list(rows_of(panel.key))
    recorded = [row for row in rows if row.keys(known)]
    has_band = any("quantile" in row.fields for row in recorded or rows)
    return [*map(_meaning, recorded or rows), *([_BAND] if has_band else [])]


def about_metric(name: str) -> list[str]:
    """Return the meaning of a recorded metric; [] if the table does not know it."""
    row = metric_of(name)
    return [] if row is None else [_meaning(row)]


def _meaning(row: Metric) -> str:
    unit = f" [{row.unit}]" if row.unit else ""
    return printable(f"{row.name}{unit}: {row.words}", 400)
