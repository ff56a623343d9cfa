"""The page `docs/metrics.md`, made from the table of metrics: `python -m launch.recording.metrics_page` prints it."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

from launch.recording.metric_panels import TITLES
from launch.recording.metric_table import FIELDS, SECTIONS, Field, Metric
from launch.records.exchange import COUNTS

_HEAD = """\
# Metrics

Every number that a run records in `metrics.db`, about once a second. `make docs` makes this page from the table in
`launch/recording/metric_table.py`; a new row there also shows a metric on the dashboard's page of a run and in reports.

A `{word}` in a key stands for one of several words: see [the last table](#words-in-keys). *Run page* is the title of
the picture or table that shows the metric; *Any metric* on the same page draws each of the others. In TensorBoard and
Weights & Biases a key without a slash is under `losses/`, and any other key is the same. An algorithm records the
metrics that it has; *only* names a further condition.
"""

_EXCHANGE = """\
## Who learns from whom

A member of a sweep with a shared replay also records whose experience it learned from, once it has drawn another
member's: in a table `exchange` of its `metrics.db`, with a row for each maker and span in which the maker's steps were
drawn. A span is about a second, and longer among more than 20 members. `laser.read_exchange(run_dir)` returns the rows,
and the dashboard's page of the sweep draws them.

"""


def page() -> str:
    """Return the page as Markdown."""
    parts = [_HEAD]
    for title, metrics in SECTIONS.items():
        head = ("Key", "Unit", "What it is", "Better", "Run page")
        parts.append(f"## {title}\n\n{_table(head, [_row(metric) for metric in metrics])}")
    rows = [("`maker`", "", "number of the member that made the experience"), *_exchange_rows()]
    parts.append(_EXCHANGE + _table(("Column", "Unit", "What it is"), rows))
    rows = [(f"`{{{name}}}`", field.words, _values(field)) for name, field in FIELDS.items()]
    parts.append(f"## Words in keys\n\n{_table(('In a key', 'Stands for', 'One of'), rows)}")
    return "\n".join(parts)


def _exchange_rows() -> Iterator[tuple[str, ...]]:
    for name, (unit, words) in COUNTS.items():
        yield f"`{name}`", unit, words if name == "steps" else f"{words}; *only* where the algorithm counts it"


def _row(metric: Metric) -> tuple[str, ...]:
    words = "; ".join(_words(metric))
    return f"`{metric.name}`", metric.unit, words, metric.better, TITLES[metric.panel] if metric.panel else ""


def _words(metric: Metric) -> Iterator[str]:
    yield metric.words
    if metric.tracked_as:
        yield f"`{metric.tracked_as}` in TensorBoard and Weights & Biases"
    if metric.is_substitute:
        yield "shown where the run has none of the others there"
    if metric.only:
        yield f"*only* {metric.only}"


def _values(field: Field) -> str:
    return ", ".join(f"`{value}`" for value in field.values)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", r"\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


if __name__ == "__main__":
    sys.stdout.write(page())
