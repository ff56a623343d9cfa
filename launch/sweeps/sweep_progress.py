"""Output of a sweep: one line during training, and a table of its members at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from launch.commands import path_argument, program_path, resume_command
from launch.recording.progress import duration, percent, status_line
from launch.recording.recorder import Recorder, Snapshot
from launch.settings.values import show
from launch.sweeps.halving import Verdict
from launch.sweeps.sweep_result import SweepResult


class SweepSnapshot:
    """Progress of all members that have begun, and the numbers of those that wait for their turn or have ended early.

    Args:
        members: of those that have neither failed nor been pruned; of all if all have.
        num_waiting: members that wait.
        num_failed: members that have failed.
        num_pruned: members that were pruned.
    """

    def __init__(self, members: Sequence[Snapshot], num_waiting: int = 0, num_failed: int = 0, num_pruned: int = 0):
        self.members = members
        self.num_waiting = num_waiting
        self.num_failed = num_failed
        self.num_pruned = num_pruned

    @property
    def env_steps(self) -> int:
        """Env steps of the slowest member that is not pruned."""
        return min(member.env_steps for member in self.members)

    @property
    def gauges(self) -> dict[str, float]:
        """Newest values by name, averaged over the members that have them."""
        names = {name for member in self.members for name in member.gauges}
        values = {name: [member.gauges[name] for member in self.members if name in member.gauges] for name in names}
        return {name: math.fsum(items) / len(items) for name, items in values.items()}


def look_at(recorders: Sequence[Recorder], num_members: int, verdict: Callable[[int], Verdict | None]) -> SweepSnapshot:
    """Return the progress of a sweep.

    Args:
        recorders: of the members that have begun, in the order of their numbers.
        num_members: number of all members.
        verdict: returns the verdict that pruned a member, by its number; None: it was not pruned.
    """
    begun = list(recorders)
    failed = {number for number, recorder in enumerate(begun) if recorder.has_failed}
    pruned = {number for number in range(len(begun)) if number not in failed and verdict(number) is not None}
    alive = [recorder for number, recorder in enumerate(begun) if number not in failed | pruned]
    members = [recorder.snapshot() for recorder in alive or begun]
    return SweepSnapshot(members, num_members - len(begun), len(failed), len(pruned))


def describe_sweep(snapshot: SweepSnapshot, num_env_steps: int, title: str = "") -> str:
    """Return one line: slowest and fastest member, rate, time left, best and mean return, acceptance, bottleneck."""
    members = snapshot.members
    slowest = min(members, key=lambda member: member.env_steps)
    fastest = max(member.env_steps for member in members)
    returns = [member.mean_return for member in members if math.isfinite(member.mean_return)]
    waiting = f" · {snapshot.num_waiting} members wait" if snapshot.num_waiting else ""
    waiting += f" · {snapshot.num_failed} failed" if snapshot.num_failed else ""
    waiting += f" · {snapshot.num_pruned} pruned" if snapshot.num_pruned else ""
    return status_line(
        title,
        f"{slowest.env_steps:,} to {fastest:,} of {num_env_steps:,} env steps "
        f"({percent(slowest.env_steps, num_env_steps)}){waiting}",
        sum(member.env_steps_per_second for member in members),
        sum(max(0, num_env_steps - member.env_steps) for member in members) + snapshot.num_waiting * num_env_steps,
        f"return {max(returns):,.1f} best, {math.fsum(returns) / len(returns):,.1f} mean" if returns else "",
        snapshot.gauges,
        slowest.bottleneck,
    )


def closing_table(result: SweepResult, preset: str) -> str:
    """Return the closing message of a sweep: its members by return, and commands to try next."""
    rows: list[tuple[str, ...]] = [("member", "return", "normalised", "env steps", "ended", "settings")]
    for item in result.ranked:
        shown = item.overrides | item.settings or {"seed": item.seed}
        settings = ", ".join(f"{key}={show(value)}" for key, value in shown.items())
        reached = f"{item.result.mean_return:,.1f}" if math.isfinite(item.result.mean_return) else "none"
        score = item.result.normalised_score
        normalised = "" if score is None else f"{score:.3f}"
        why = item.error[:80] or (item.pruned.words() if item.pruned else "")
        ended = item.result.finished + (f": {why}" if why else "")
        rows.append((str(item.number), reached, normalised, f"{item.result.env_steps:,}", ended, settings))
    if not any(row[2] for row in rows[1:]):
        rows = [row[:2] + row[3:] for row in rows]
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    lines = [
        "  ".join([*(cell.rjust(width) for cell, width in zip(row, widths, strict=False)), row[-1]]) for row in rows
    ]
    if any(len(setting.members) > 1 for setting in result.settings) and len(result.settings) > 1:
        lines.append("mean return over the seeds of a setting (95 % interval):")
        lines += [f"  {setting.name}: {setting.words()}" for setting in result.settings]
    if result.agents is not None:
        first, *rest = result.agents.lines()
        lines += [f"by the last 20 training episodes {first}", *rest]
    if result.best_curve is not None:
        lines.append(result.best_curve.words())
    failed = sum(item.error != "" for item in result.members)
    failures = f"; {failed} of {len(result.members)} members failed" if failed else ""
    laser, here, best = program_path("laser"), path_argument(result.run_dir), result.best
    lines += [
        f"done in {duration(result.seconds)}{failures}; everything is in {result.run_dir}; what to try next:",
        f"  {laser} eval {here if best is None else path_argument(best.result.run_dir)} --episodes 20",
        f"  {laser} report {here}",
    ]
    if preset:
        further = 2 * max(item.result.env_steps for item in result.members)
        lines.append(f"  {resume_command(result.run_dir, preset)} --steps {further}")
    return "\n".join(lines)
