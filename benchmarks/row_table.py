"""The table of docs/results.md: what each side of a row reached, and what this says of LASER's aim."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from row_files import Results, mark, verdict
from rows import LASER, Row

HEAD = ("| Question | LASER | Peers | LASER / best peer | Minutes | To reach | |", "|---|---|---|---|---|---|---|")
BUSY_LOAD = 2.5
"""The median load above which times are those of a machine that did other work, too."""


@dataclass(frozen=True)
class Standing:
    """LASER beside its peers, by the runs that a row's file has.

    Args:
        peers: that LASER is set beside: those with all seeds, or those that have some while no peer has all.
        best: the best of these peers; None without one.
        ratio: of LASER's median to that of the best peer.
        num_seeds: of LASER or of these peers, whichever has the least.
        is_reached: whether these runs reach the aim; None: there is nothing to compare.
        is_final: further seeds of these sides cannot change that.
        is_beside_some: the aim is a ratio, and a planned peer is missing in it.
    """

    peers: Sequence[str]
    best: str | None
    ratio: float | None
    num_seeds: int
    is_reached: bool | None
    is_final: bool
    is_beside_some: bool

    @property
    def verdict(self) -> bool | None:
        """Whether the aim is reached; None: not known yet."""
        return self.is_reached if self.is_final else None


def standing(row: Row, results: Results) -> Standing:
    """Return what a row's runs say of LASER's aim."""
    sides = {side: values_of(row, side, runs) for side, runs in results["sides"].items() if runs}
    ours = sides.pop(LASER, [])
    peers = {side: values for side, values in sides.items() if len(values) == len(row.seeds)} or sides
    medians = {side: statistics.median(values) for side, values in peers.items()}
    best = (min if row.target is not None else max)(medians, key=medians.__getitem__, default=None)
    ratio = statistics.median(ours) / medians[best] if ours and best is not None and medians[best] else None
    num_seeds = min(map(len, (ours, *peers.values())))
    reached = None
    if row.goal is None:
        if ratio is not None:
            reached = ratio <= row.to_reach if row.target is not None else ratio >= row.to_reach
    elif ours and row.target is not None:
        reached = statistics.median(ours) <= row.goal and max(ours) <= row.worst
    elif ours:
        reached = min(ours) >= row.goal
    has_failed = reached is False and row.goal is not None and row.target is None  # its aim is for every seed
    is_final = has_failed or num_seeds == len(row.seeds)
    is_beside_some = row.goal is None and is_final and len(peers) < len(row.peers)
    return Standing(list(peers), best, ratio, num_seeds, reached, is_final, is_beside_some)


def table_row(name: str, row: Row, results: Results) -> str:
    """Return a row of the page's table."""
    found = standing(row, results)
    cells = [
        f"[{row.title}](pictures/results/{name}.png)",
        " ".join(filter(None, (row.algorithm, _side(row, LASER, results)))),
        "; ".join(f"{side} {_side(row, side, results)}" for side in row.peers),
        f"{found.ratio:.2f}" if found.ratio is not None else "",
        " / ".join(_minutes(results["sides"][side]) for side in (LASER, found.best) if side in results["sides"]),
        _aim(row),
        verdict_of(row, found),
    ]
    return f"| {' | '.join(cells)} |"


def verdict_of(row: Row, found: Standing) -> str:
    """Return the page's words for a row's aim: a verdict once further seeds cannot change it, else their number."""
    seeds = f"{found.num_seeds} of {len(row.seeds)} seeds"
    if found.is_reached is None:
        return "no peer yet"
    if not found.is_final:
        return seeds
    if found.is_reached and found.is_beside_some:
        return f"{verdict(True)} against {', '.join(found.peers)}"
    return verdict(found.is_reached) if found.num_seeds == len(row.seeds) else f"{verdict(found.is_reached)} ({seeds})"


def lacking(row: Row, results: Results) -> list[str]:
    """Return the sides of a row that lack a seed."""
    return [side for side in (LASER, *row.peers) if len(results["sides"].get(side, ())) < len(row.seeds)]


def values_of(row: Row, side: str, runs: Mapping[str, dict[str, Any]]) -> list[float]:
    """Return the results of all seeds; one that is not solved counts as the side's env steps."""
    limit = row.steps if side == LASER else row.peers[side].steps
    return [limit if run["value"] is None else run["value"] for run in runs.values()]


def _side(row: Row, side: str, results: Results) -> str:
    runs = results["sides"].get(side, {})
    return f"{_spread(values_of(row, side, runs))}{mark(runs)}" if runs else "not run"


def _spread(values: Sequence[float]) -> str:
    low, middle, high = min(values), statistics.median(values), max(values)
    digits = "{:,.0f}" if high >= 100 else "{:.2f}"
    shown = [digits.format(value) for value in (middle, low, high)]
    return f"{shown[0]} ({shown[1]} to {shown[2]}, n={len(values)})"


def _minutes(runs: Mapping[str, dict[str, Any]]) -> str:
    minutes = statistics.median(run["seconds"] for run in runs.values()) / 60.0
    is_busy = statistics.median(run["load"] for run in runs.values()) > BUSY_LOAD
    return f"{'~' if is_busy else ''}{minutes:.{0 if minutes >= 10.0 else 1}f}"


def _aim(row: Row) -> str:
    sign = "at most" if row.target is not None else "at least"
    if row.goal is None:
        return f"{sign} {row.to_reach:g}"
    if row.target is None:
        return f"{sign} {row.goal:,.0f}, every seed"
    return f"{sign} {row.goal:,.0f} in the median, {row.worst:,.0f} with every seed"
