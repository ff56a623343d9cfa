"""The progress display of a run: a live line on a terminal, and a plain line every few seconds elsewhere."""

from __future__ import annotations

import math
import queue
import statistics
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

from rich.console import Console
from rich.live import Live
from rich.markup import escape
from rich.text import Text

from laser.packages import is_installed
from laser.ports import Report
from launch.commands import path_argument, program_path, resume_command
from launch.recording.metric_table import FIELDS, known_key, values_by_field
from launch.recording.recorder import Snapshot
from launch.recording.return_curve import NUM_RETURNS
from launch.standard_output import divert, say

_ACCEPTED, _NUM_STEPS = map(known_key, ("accept_fraction_{source}", "num_steps_{source}"))
_PATIENCE_S = 2.0
"""Seconds that the end of a run waits for its display."""


class Progress:
    """Shows the progress of a run from a thread of its own, so that a slow or stopped terminal delays only the display.

    Args:
        snapshot: returns the run's state; called from the display's thread.
        num_env_steps: total env steps of the run.
        title: name of the run or sweep, or "".
        quiet: show nothing.
        stream: file to write to; by default standard error, so that standard output holds only the result.
        interval_s: seconds between two plain lines; a terminal is refreshed twice a second.
        line: returns a line of text for a snapshot, the total env steps and the title; by default `describe`.
        share: returns the fraction of the work done at a snapshot, in [0, 1]; by default `env_steps` over the total.
    """

    def __init__(
        self,
        snapshot: Callable[[], Any],
        num_env_steps: int,
        title: str = "",
        quiet: bool = False,
        stream: TextIO | None = None,
        interval_s: float = 5.0,
        line: Callable[[Any, int, str], str] | None = None,
        share: Callable[[Any], float] | None = None,
    ):
        self._snapshot, self._num_env_steps, self._title = snapshot, num_env_steps, title
        self._quiet = quiet
        self._line = line or describe
        self._share = share or (lambda snapshot: snapshot.env_steps / max(1, num_env_steps))
        self._stream = stream or sys.stderr
        self._is_terminal = self._stream.isatty()
        self._interval_s = 0.5 if self._is_terminal else interval_s
        self._closing = threading.Event()
        self._messages: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._show_until_closed, name="progress", daemon=True)

    def __enter__(self) -> Progress:
        if not self._quiet:
            self._thread.start()
            if self._is_terminal and self._stream is sys.stderr:
                divert(self._messages.put)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        divert(None)
        self._closing.set()
        if self._thread.is_alive():
            self._thread.join(timeout=_PATIENCE_S)  # a terminal that hangs must not keep the run from ending
        for message in self._take_messages():
            say(message)

    def _show_until_closed(self) -> None:
        try:
            if self._is_terminal:
                self._show_live()
            else:
                self._show_lines()
        except (OSError, ValueError):
            return  # the terminal is gone or closed; training continues

    def _show_live(self) -> None:
        console = Console(file=self._stream)
        # At its end the display goes: a run may be solved at 22 % of its steps, and the closing message says so.
        with Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False
        ) as live:
            while not self._closing.wait(self._interval_s):
                for message in self._take_messages():
                    console.print(message, markup=False, highlight=False)
                live.update(self._render(), refresh=True)

    def _take_messages(self) -> Iterator[str]:
        while not self._messages.empty():
            yield self._messages.get()

    def _render(self) -> Text:
        snapshot = self._snapshot()
        filled = round(24 * min(1.0, self._share(snapshot)))
        bar = f"[green]{'━' * filled}[/green][dim]{'━' * (24 - filled)}[/dim]"
        return Text.from_markup(f"{bar}\n{escape(self._line(snapshot, self._num_env_steps, self._title))}")

    def _show_lines(self) -> None:
        while not self._closing.wait(self._interval_s):
            print(self._line(self._snapshot(), self._num_env_steps, self._title), file=self._stream, flush=True)


def describe(snapshot: Snapshot, num_env_steps: int, title: str = "") -> str:
    """Return one line with progress, speed, time left, return, acceptance and bottleneck, as far as they are known."""
    return status_line(
        title,
        f"{snapshot.env_steps:,} of {num_env_steps:,} env steps ({percent(snapshot.env_steps, num_env_steps)})",
        snapshot.env_steps_per_second,
        num_env_steps - snapshot.env_steps,
        f"return {snapshot.mean_return:,.1f}" if math.isfinite(snapshot.mean_return) else "",
        snapshot.gauges,
        snapshot.bottleneck,
    )


def status_line(
    title: str,
    progress: str,
    rate: float,
    steps_left: int,
    returns: str,
    gauges: Mapping[str, float],
    bottleneck: str,
) -> str:
    """Return one line about the state of a run or a sweep, without the parts that are not known.

    Args:
        title: name of the run or sweep, or "".
        progress: its progress, in words.
        rate: env steps/s.
        steps_left: env steps left.
        returns: the mean return in words, or "" while no episode has finished.
        gauges: metrics by name, for the acceptance.
        bottleneck: the bottleneck in words, or "".
    """
    parts = [title] if title else []
    parts += [progress, f"{rate:,.0f} env steps/s"]
    if rate > 0.0 and steps_left > 0:
        parts.append(f"{duration(steps_left / rate)} left")
    parts.append(returns or "no episode has finished yet")
    accepted = list(acceptance(gauges))
    if accepted:
        parts.append("accepted " + ", ".join(accepted))
    if bottleneck:
        parts.append(f"limited by {bottleneck}")
    return " · ".join(parts)


def percent(steps: int, num_env_steps: int) -> str:
    """Return a run's progress in percent, at most 100, since actors may take a few steps more than asked for."""
    return f"{min(100.0, 100.0 * steps / num_env_steps):.0f}%"


def acceptance(gauges: Mapping[str, float]) -> Iterator[str]:
    """Yield the share of steps that the trust region accepts, for each source with any steps."""
    num_env_steps = values_by_field(_NUM_STEPS, gauges)
    for source, share in sorted(values_by_field(_ACCEPTED, gauges).items()):
        if math.isfinite(share) and num_env_steps.get(source, 1.0) > 0.0:
            yield f"{100 * share:.0f}% of {FIELDS['source'].words_of(source)}"


def describe_evaluation(report: Report) -> str:
    """Return one line with the mean return of an evaluation's episodes."""
    at = f" at {report.at_env_steps:,} env steps" if report.at_env_steps is not None else ""
    mean_return = statistics.fmean(episode.episode_return for episode in report.episodes)
    return f"evaluation{at}: mean return {mean_return:,.1f} over {len(report.episodes)} episodes"


def closing_message(
    snapshot: Snapshot, run_dir: Path, preset: str, num_env_steps: int, why: str = "all env steps are done"
) -> str:
    """Return the message at the end of a run: its result, why it ended, and commands to try next."""
    if math.isfinite(snapshot.mean_return):
        reached = (
            f"mean return {snapshot.mean_return:,.1f} over the last {min(NUM_RETURNS, snapshot.episodes)} episodes"
        )
    else:
        reached = "no episode finished"
    laser, here = program_path("laser"), path_argument(run_dir)
    lines = [
        f"done, since {why}: {snapshot.env_steps:,} env steps in {duration(snapshot.seconds)}, {reached}",
        f"all files are in {run_dir}; commands to try next:",
        f"  {laser} eval {here} --episodes 20",
    ]
    if preset:
        # A run with steps left was solved, and a resumed one would end at once.
        further = f"--steps {2 * num_env_steps}" if snapshot.env_steps >= num_env_steps else "--stop-at-return inf"
        lines.append(f"  {resume_command(run_dir, preset)} {further}")
    for package, command in (
        ("matplotlib", f"{laser} report {here}"),
        ("dash", f"{laser} dashboard {path_argument(run_dir.parent)}"),
        ("tensorboard", f"{program_path('tensorboard')} --logdir {here}"),
    ):
        if is_installed(package):
            lines.append(f"  {command}")
    return "\n".join(lines)


def duration(seconds: float) -> str:
    """Return a duration in readable units: 45s, 3m20s, 2h05m, 1d04h."""
    if seconds < 60:
        return f"{seconds:.0f}s"
    minutes, rest = divmod(round(seconds), 60)
    if minutes < 60:
        return f"{minutes}m{rest:02d}s"
    hours, minutes = divmod(minutes, 60)
    return f"{hours}h{minutes:02d}m" if hours < 24 else f"{hours // 24}d{hours % 24:02d}h"
