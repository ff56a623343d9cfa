"""The data of the pages: runs below a directory and their newest numbers, read again only after changes."""

from __future__ import annotations

import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

from launch.commands import resume_command
from launch.dashboard.background import Background
from launch.dashboard.findings import Facts, findings
from launch.dashboard.notes import Notes
from launch.dashboard.saved import what_is_saved
from launch.recording.metric_table import RATE, RETURN
from launch.records.exchange_reader import Course, read_course, read_exchange_sums
from launch.records.listing import Entry, Status, find_entries, last_state, members_of, read_status
from launch.records.run_directory import RunDirectory
from launch.records.run_summary import BUCKETS, INTERVAL_S, NUM_POINTS, is_drawn, summary_path
from launch.records.series import Latest, Series, UnreadableError, read_best, read_latest, read_series, signature
from launch.records.summary_reader import Summarised, read_summary
from launch.records.tick import Tick

T = TypeVar("T")

_LISTING_AGE_S = 1.0
_RECENT_TICKS = 30
_PICTURE_AGE_S = 10.0
_MOST_KEPT = 2000


@dataclass(frozen=True)
class Summary:
    """A run and its newest numbers.

    Args:
        entry: the run.
        status: of the run.
        latest: its newest numbers.
        problem: why they cannot be read, or "".
        is_read: whether they are read; False: this is done in the background, and `latest` is older or empty.
    """

    entry: Entry
    status: Status
    latest: Latest
    problem: str = ""
    is_read: bool = True

    @property
    def is_unreadable(self) -> bool:
        """Whether the run has a record or numbers that cannot be read; a busy writer's numbers are read later."""
        has_numbers = not self.entry.is_sweep and signature(self.entry.metrics_path) != ()
        return bool(self.entry.problem) or (bool(self.problem) and has_numbers and self.status != "running")

    @property
    def age_s(self) -> float | None:
        """Seconds since its newest numbers; None: it has none."""
        return None if self.latest.moment is None else max(0.0, time.time() - self.latest.moment.wall_time)


@dataclass(frozen=True)
class _Kept:
    """The newest numbers of a run as they were when its file had the signature `state`."""

    state: tuple[int, ...]
    latest: Latest
    problem: str = ""


class Library:
    """Runs below a directory. May be used from any thread; identical requests wait for one result.

    Args:
        root: a directory of runs, or a run, or a sweep.
        read_only: users may not write notes.
    """

    def __init__(self, root: Path, read_only: bool = False):
        self.root = root.absolute()
        self.notes = Notes(self.root, read_only)
        self._lock = threading.RLock()
        self._listed_at = -math.inf
        self._listing_s = 0.0
        self._entries: dict[str, Entry] = {}
        self._kept: OrderedDict[Any, Any] = OrderedDict()
        self._newest: dict[str, _Kept] = {}
        self.background: Background[Entry] = Background(lambda entry: self._latest(entry, math.inf))

    def entries(self, age_s: float = _LISTING_AGE_S) -> dict[str, Entry]:
        """Return all runs and sweeps by key; the listing is at most `age_s` old, or ten times its own duration."""
        with self._lock:
            begun = time.monotonic()
            if begun - self._listed_at >= max(age_s, 10.0 * self._listing_s):
                self._entries = find_entries(self.root)
                self._listed_at = time.monotonic()
                self._listing_s = self._listed_at - begun
            return self._entries

    def find(self, key: object) -> Entry | None:
        """Return the run of a key or a name, or None; the argument may be any value of a request."""
        if not isinstance(key, str) or not key:
            return None
        # A fresher listing may contain a run that has just begun.
        for age_s in (_LISTING_AGE_S, _LISTING_AGE_S / 10):
            entries = self.entries(age_s)
            if key in entries:
                return entries[key]
            named = next((entry for entry in entries.values() if entry.name == key), None)
            if named is not None:
                return named
        return None

    def members(self, sweep: Entry) -> list[Entry]:
        """Return a sweep's members in the order of their numbers."""
        return members_of(sweep, self.entries())

    def expect(self, name: str) -> None:
        """Read in the background what the page of a run or sweep, or of all runs, will ask for in a moment.

        Args:
            name: of the run or sweep, or its key; "" for all runs.
        """
        entry = self.find(name)
        expected = list(self.entries().values()) if not name else [] if entry is None else [entry]
        for each in expected:
            for one in self.members(each) if each.is_sweep else [each]:
                self.background.ask(one.key, one)

    def summary(self, entry: Entry, until: float = math.inf) -> Summary:
        """Return a run's newest numbers, or those of a sweep's members together.

        Args:
            entry: the run or sweep.
            until: moment of `time.monotonic`; later, numbers that take long to read are read in the background.
        """
        if entry.is_sweep:
            return self._sweep_summary(entry, until)
        if entry.problem:
            return Summary(entry, "interrupted", Latest(), entry.problem)
        latest, problem, is_read = self._latest(entry, until)
        status = read_status(entry, latest.moment.wall_time if latest.moment else None)
        return Summary(entry, status, latest, problem, is_read)

    def series(self, entry: Entry, names: Iterable[str], limit: int) -> dict[str, Series]:
        """Return a run's curves by name; no curves if they cannot be read.

        Few points come from the run's summary, where it has them.
        """
        wanted = tuple(dict.fromkeys(names))
        if all(is_drawn(name) and (limit <= NUM_POINTS or name.startswith(BUCKETS)) for name in wanted):
            found = self._summarised(entry)
            known = [name for name in wanted if found is not None and name in found.curves]
            if found is not None and (limit <= NUM_POINTS or found.whole.issuperset(known)):
                return {name: found.curves[name] for name in known}
        try:
            return self._read(entry, (wanted, limit), lambda: read_series(entry.metrics_path, wanted, limit))
        except UnreadableError:
            return {}

    def exchange(self, entry: Entry) -> dict[int, dict[str, float]]:
        """Return what a run has drawn of each maker, as `read_exchange_sums` does; {} if it cannot be read."""
        found = self._summarised(entry)
        if found is not None and found.exchange is not None:
            return found.exchange
        try:
            return self._read(entry, "exchange", lambda: read_exchange_sums(entry.metrics_path))
        except UnreadableError:
            return {}

    def course(self, entry: Entry, num_points: int) -> Course | None:
        """Return what a run drew of each maker over time, as `read_course` does; None if it cannot be read."""
        try:
            return self._read(entry, ("course", num_points), lambda: read_course(entry.metrics_path, num_points))
        except UnreadableError:
            return None

    def facts(self, summary: Summary) -> Facts:
        """Return the input of `findings` for a run."""
        entry, latest = summary.entry, summary.latest
        growth: dict[str, float] = {}
        span = 0.0
        if summary.status == "running" and latest.moment is not None:
            try:
                before = self._read(entry, "before", lambda: read_latest(entry.metrics_path, _RECENT_TICKS))
            except UnreadableError:
                before = Latest()
            if before.moment is not None:
                span = latest.moment.seconds - before.moment.seconds
                growth = {name: value - before.values.get(name, 0.0) for name, value in latest.values.items()}
                growth["learner_steps"] = float(latest.moment.learner_steps - before.moment.learner_steps)
        has_ended_early = summary.status in ("failed", "interrupted", "stopped")
        return Facts(
            status=summary.status,
            age_s=summary.age_s,
            env_steps=latest.moment.env_steps if latest.moment else 0,
            seconds=latest.moment.seconds if latest.moment else 0.0,
            values=latest.values,
            growth=growth,
            growth_s=span,
            notes=latest.notes,
            config=entry.config,
            problem=summary.problem,
            log=last_state(entry.path),
            resume=self._resume_command(entry) if has_ended_early else "",
            saved=what_is_saved(entry, latest) if has_ended_early else "",
        )

    def findings(self, summary: Summary) -> list[str]:
        """Return the problems of a run, or of a sweep's members, in words."""
        if not summary.entry.is_sweep:
            return findings(self.facts(summary))
        whose: dict[str, list[str]] = {}
        for place, member in enumerate(self.members(summary.entry)):
            # What each of them saved would keep members with the same problem from being named together.
            for sentence in findings(replace(self.facts(self.summary(member)), saved="")):
                whose.setdefault(sentence, []).append(str(place))
        return [
            f"member{'s' if len(places) > 1 else ''} {', '.join(places)}: {sentence}"
            for sentence, places in whose.items()
        ]

    def version(self, entries: Iterable[Entry]) -> str:
        """Return a text that changes whenever one of these runs changes; costs microseconds per run."""
        parts = [f"{entry.key}{signature(entry.metrics_path)}{signature(entry.path / 'log.txt')}" for entry in entries]
        return str(hash(tuple(parts)))

    def picture_version(self, entries: Iterable[Entry], num_points: int) -> str:
        """Return a text that changes when curves of these runs, `num_points` each, would look different.

        A running run's text changes when the run has grown by one point of its curve, and after ten seconds at the
        latest. Redrawing at every new number would take time from training and show no difference.
        """
        parts = []
        for entry in entries:
            summary = self.summary(entry)
            moment = summary.latest.moment
            if summary.status == "running" and moment is not None:
                growth = int(num_points * math.log1p(moment.seconds)), int(moment.seconds / _PICTURE_AGE_S)
                parts.append(f"{entry.key} running {growth} {len(summary.latest.values)}")
            else:
                parts.append(f"{self.version([entry])} {summary.status}")
        return str(hash(tuple(parts)))

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """Return the kept result of `make` for this key, or make it; one at a time."""
        with self._lock:
            if key not in self._kept:
                self._keep(key, make())
            self._kept.move_to_end(key)
            found: T = self._kept[key]
            return found

    def aside(self, key: Any, make: Callable[[], T]) -> T:
        """Return the kept result of `make` for this key, or make it without holding up other requests."""
        with self._lock:
            is_known = key in self._kept
        made = None if is_known else make()
        return self.once(key, make if made is None else lambda: made)

    def _keep(self, key: Any, value: Any) -> None:
        """Keep a value as the newest, in the place of the oldest; the caller holds the lock."""
        self._kept[key] = value
        self._kept.move_to_end(key)
        while len(self._kept) > _MOST_KEPT:
            self._kept.popitem(last=False)

    def _resume_command(self, entry: Entry) -> str:
        preset = entry.config.get("preset")
        if not RunDirectory(entry.path, resumed=True).has_checkpoint:
            return ""
        return resume_command(entry.path, preset if isinstance(preset, str) else "")

    def _latest(self, entry: Entry, until: float) -> tuple[Latest, str, bool]:
        """Return a run's newest numbers, why they cannot be read or "", and whether they are the newest."""
        kept = self._newest.get(entry.key)
        if kept is not None and kept.state == signature(entry.metrics_path) and not kept.problem:
            return kept.latest, "", True
        if time.monotonic() < until:
            found = self._read_latest(entry)
            return found.latest, found.problem, True
        summarised = self._read_summary(entry)
        if summarised is not None and summarised.is_current:
            return summarised.latest, "", True
        self.background.ask(entry.key, entry)
        if kept is not None:
            return kept.latest, kept.problem, True
        return (Latest(), "", False) if summarised is None else (summarised.latest, "", True)

    def _read_latest(self, entry: Entry) -> _Kept:
        """Read a run's newest numbers from its summary, or from `metrics.db` if that is newer."""
        path = entry.metrics_path
        state = signature(path)
        summarised = self._read_summary(entry)
        try:
            if summarised is not None and summarised.is_current:
                found = _Kept(state, summarised.latest)
            else:
                # Only a longer run can have a better best, which is a few seconds old at most.
                best = read_best(path) if summarised is None else summarised.latest.best
                found = _Kept(state, replace(read_latest(path), best=best))
        except UnreadableError as error:
            found = _Kept(state, Latest(), error.problem.wrong)
        self._newest[entry.key] = found
        return found

    def _summarised(self, entry: Entry) -> Summarised | None:
        """Return a run's summary if it is as new as a picture needs; None otherwise."""
        path = entry.metrics_path
        with self._lock:
            state, found = self._kept.get((entry.key, "summary"), ((), None))
        if state != signature(summary_path(path)):
            found = self._read_summary(entry)
        changed_s = max(signature(path)[::2], default=0) / 1e9
        return found if found is not None and changed_s - found.written_s < 2 * INTERVAL_S else None

    def _read_summary(self, entry: Entry) -> Summarised | None:
        """Read a run's summary, and keep it for its curves: the newest numbers of a run are read before them."""
        state = signature(summary_path(entry.metrics_path))
        found = read_summary(entry.metrics_path)
        with self._lock:
            self._keep((entry.key, "summary"), (state, found))
        return found

    def _read(self, entry: Entry, what: Any, read: Callable[[], T]) -> T:
        """Return kept data unless the file has changed; otherwise read again and drop the old data."""
        state = signature(entry.metrics_path)

        def kept() -> tuple[tuple[int, ...], T]:
            return state, read()

        place = (entry.key, what)
        with self._lock:
            if self._kept.get(place, (None,))[0] != state:
                self._kept.pop(place, None)
        return self.once(place, kept)[1]

    def _sweep_summary(self, entry: Entry, until: float) -> Summary:
        members = [self.summary(member, until) for member in self.members(entry)]
        known = [member for member in members if member.latest.moment is not None]
        statuses = {member.status for member in members}
        order: tuple[Status, ...] = ("running", "failed", "interrupted", "stopped", "finished", "pruned")
        status: Status = next((name for name in order if name in statuses), "interrupted")
        if not known:
            is_read = all(member.is_read for member in members)
            problem = "no member has recorded anything yet" if is_read else ""
            return Summary(entry, status, Latest(), problem, is_read)
        best = max(known, key=lambda member: member.latest.values.get(RETURN, float("-inf")))
        newest = max(known, key=lambda member: member.latest.moment.wall_time if member.latest.moment else 0.0)
        assert newest.latest.moment is not None
        moments = [member.latest.moment for member in known if member.latest.moment is not None]
        total = Tick(
            seconds=max(moment.seconds for moment in moments),
            wall_time=newest.latest.moment.wall_time,
            env_steps=sum(moment.env_steps for moment in moments),
            frames=sum(moment.frames for moment in moments),
            learner_steps=sum(moment.learner_steps for moment in moments),
        )
        values = dict(best.latest.values)
        values[RATE] = sum(member.latest.values.get(RATE, 0.0) for member in known)
        bests = [member.latest.best for member in known if member.latest.best is not None]
        highest = max(bests, key=lambda one: one.mean_return, default=None)
        is_read = all(member.is_read for member in members)
        return Summary(entry, status, Latest(total, values, best.latest.notes, highest), is_read=is_read)
