"""The first lines of docs/results.md: where LASER reaches its aims, where it does not, and what is not known yet."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

import offline
import search
import shared_sweeps
import staleness
from row_files import Finding, Results, measured, read
from row_table import lacking, standing, values_of
from rows import LASER, ROWS, Row


def items() -> list[str]:
    """Return three items of a list."""
    found = [*_of_rows(), *search.findings(), *shared_sweeps.findings(), *staleness.findings(), *offline.findings()]
    best, missed, unknown = ([each for each in found if each.is_reached is known] for known in (True, False, None))
    return [
        f"* **Best at** (aim reached): {_joined(best)}.",
        f"* **Not best at** (aim missed): {_joined(missed)}. [Which algorithm to take for what](questions.md).",
        f"* **Not known yet**: {_joined([*_without_a_peer(), *unknown])}; [and more](#not-measured-yet).",
    ]


def _joined(findings: Sequence[Finding]) -> str:
    together: dict[str, dict[str, None]] = {}
    for each in findings:
        together.setdefault(each.what, {})[each.on] = None
    return "; ".join(f"{what}: {', '.join(on)}" if any(on) else what for what, on in together.items())


def _of_rows() -> Iterator[Finding]:
    """Yield a finding for each measured row; the games of MinAtar have one question."""
    for name in measured(ROWS):
        row, results = ROWS[name], read(name)
        found = standing(row, results)
        what = f"MinAtar over {row.steps:,} env steps" if row.game else row.title.partition(":")[0]
        if row.algorithm:
            what += f" with {row.algorithm}"
        if found.verdict and found.is_beside_some:
            what += f" against {', '.join(found.peers)}"
        if found.verdict is False and row.goal is not None:
            what += f" ({_median(row, results)} of {row.goal:,.0f})"
        yield Finding(what, row.game, found.verdict)


def _without_a_peer() -> Iterator[Finding]:
    """Yield a finding for each peer that lacks seeds of a row while another peer has all."""
    for name in measured(ROWS):
        row, results = ROWS[name], read(name)
        if standing(row, results).is_beside_some:
            for side in lacking(row, results):
                yield Finding(f"against {side}", row.env.partition("/")[0], None)


def _median(row: Row, results: Results) -> str:
    median = statistics.median(values_of(row, LASER, results["sides"][LASER]))
    return f"{median:,.0f}" if median >= 100.0 else f"{median:.1f}"
