"""The report of a sweep: its members and groups by score, the best so far, the schedules that PBT found."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from launch.errors import LaunchError
from launch.evaluation.evaluation_result import Interval
from launch.evaluation.settings_compared import SettingReturns, best_setting, compare_settings
from launch.evaluation.sweep_evaluation import MemberRecord, read_best_curve
from launch.formats import short
from launch.records.lineage import Decision, Lineage, ancestry
from launch.records.listing import was_pruned
from launch.records.settings_schedule import SCHEDULE_NAME, SettingsChange, read_changes
from launch.report.page import Page
from launch.report.pictures import NUM_STYLES, THEMES, Line, Panel, draw, draw_lineage
from launch.report.recorded import Recorded
from launch.report.run_report import add_commands, add_settings


@dataclass(frozen=True)
class _Member:
    number: int
    overrides: Mapping[str, str]
    recorded: Recorded
    score: float
    interval: Interval | None
    error: str


def write_sweep(path: Path, record: Mapping[str, Any]) -> tuple[Page, dict[str, bytes]]:
    """Return the page and the pictures by file name.

    A member whose record or metrics cannot be read is listed with the reason.
    """
    members = sorted(_read_members(path), key=lambda member: -member.score if math.isfinite(member.score) else math.inf)
    page, pictures = Page(path.resolve().name), {}
    sweep = record["sweep"]
    replay = "one replay" if str(sweep["options"].get("share_replay", "")).lower() == "true" else "a replay each"
    page.paragraph(f"{len(members)} members with {replay} on {record['config'].get('env', 'unknown')}.")
    page.heading("Members")
    page.table(
        ("member", "mean return", "95 % interval over episodes", "env steps", "settings"),
        [_row(member) for member in members],
    )
    page.paragraph(
        "Scores are of each member's newest training episodes, at most 20. The best was chosen by them, so it looks "
        "too good."
    )
    # Members of a population change their settings.
    settings = [] if (path / "lineage.jsonl").is_file() else _settings(members)
    _add_settings(page, settings)
    page.heading("Curves")
    lines = _curves(members)
    if lines:
        words = "Return of every member"
        panels = [Panel("env steps", "mean return of the last 20 episodes", lines)]
        pictures["members.png"], dark = (draw(panels, words, theme=theme) for theme in THEMES)
        page.picture(pictures["members.png"], words, dark)
    curve = read_best_curve(
        [
            MemberRecord(member.recorded.path / "metrics.db", member.recorded.config.env, member.overrides)
            for member in sorted(members, key=lambda member: member.number)
            if not member.error
        ]
    )
    if curve is not None:
        points = list(zip(curve.ends, curve.scores, strict=True))
        words = "The best member at every point, as in the paper"
        panels = [Panel("frames per member", curve.name, [Line("best", points)])]
        pictures["best.png"], dark = (draw(panels, words, theme=theme) for theme in THEMES)
        page.picture(pictures["best.png"], words, dark)
    if not pictures:
        page.paragraph("No recorded curve can be drawn.")
    pictures |= _add_schedules(page, path, members)
    page.heading("To repeat it")
    page.code(Recorded(path).repeat)
    add_commands(page, Recorded(path))
    winner = best_setting(settings) if settings else None
    among = [each for each in members if not each.error and (winner is None or each.number in winner.members)]
    if among:
        what = "The best" if winner is None else "The best of the best setting"
        page.heading(f"{what}, member {among[0].number}, by itself")
        add_settings(page, among[0].recorded)
    return page, pictures


def _read_members(path: Path) -> list[_Member]:
    members = []
    for place in sorted(path.glob("members/*/config.json"), key=lambda place: place.parent.name.zfill(8)):
        recorded = Recorded(place.parent)
        number, overrides, score, interval, error = _number_of(place.parent), {}, math.nan, None, ""
        try:
            facts = recorded.record.get("member", {})
            number, overrides = int(facts.get("index", number)), dict(facts.get("overrides", {}))
            score = recorded.mean_return
            if len(recorded.newest_returns) == 1:
                interval = recorded.newest_returns[0].interval
        except LaunchError as failure:
            error = failure.problem.wrong
        members.append(_Member(number, overrides, recorded, score, interval, error))
    return members


def _curves(members: Sequence[_Member]) -> list[Line]:
    """Return the returns of every member; where lines cannot be told apart, the seeds of a setting are alike."""
    readable = sorted((member for member in members if not member.error), key=lambda member: member.number)
    names = {member.number: f"member {member.number}" for member in readable}
    if len(readable) > NUM_STYLES:
        settings = compare_settings((member.number, member.overrides, member.score) for member in readable)
        names = {number: one.name for one in settings for number in one.members}
    return [Line(names[member.number], points) for member in readable if (points := member.recorded.returns)]


def _number_of(path: Path) -> int:
    return int(path.name) if path.name.isdigit() else -1


def _row(member: _Member) -> Sequence[str]:
    settings = ", ".join(f"{key}={value}" for key, value in member.overrides.items())
    if member.error:
        return (str(member.number), "", "", "", f"{settings} ({member.error})")
    end = member.recorded.end
    pruned = " (pruned)" if was_pruned(member.recorded.path) else ""
    return (
        str(member.number),
        short(member.score) if math.isfinite(member.score) else "none",
        "" if member.interval is None else " to ".join(map(short, member.interval)),
        (f"{end.env_steps:,}" if end else "0") + pruned,
        settings or f"seed={member.recorded.config.seed}",
    )


def _settings(members: Sequence[_Member]) -> list[SettingReturns]:
    """Return the settings over their seeds, best first; [] if no setting has several."""
    settings = compare_settings((member.number, member.overrides, member.score) for member in members)
    return settings if any(len(one.returns) > 1 for one in settings) else []


def _add_settings(page: Page, settings: Sequence[SettingReturns]) -> None:
    """Add the mean return of each setting over its seeds, best first."""
    if not settings:
        return
    page.heading("Over seeds")
    rows = [
        (
            one.name,
            str(len(one.returns)),
            short(one.mean) if one.returns else "none",
            "" if one.interval is None else " to ".join(map(short, one.interval)),
        )
        for one in settings
    ]
    page.table(("settings", "seeds", "mean return", "95 % interval over seeds"), rows)
    best = best_setting(settings)
    if best is not None:
        page.paragraph(f"The best setting has the highest mean over its seeds: {best.name}, {best.words(short)}.")


def _add_schedules(page: Page, path: Path, members: Sequence[_Member]) -> dict[str, bytes]:
    """Add the results of PBT: copies between members, and the best member's schedule as a table and a picture."""
    if not (path / "lineage.jsonl").is_file():
        return {}
    page.heading("Population based training")
    try:
        decisions = Lineage(path / "lineage.jsonl").decisions
    except LaunchError as error:
        page.paragraph(error.problem.wrong)
        return {}
    copies = [decision for decision in decisions if decision.copied is not None]
    page.paragraph(f"{len(decisions)} comparisons, {len(copies)} of which copied another member.")
    files = _add_lineage(page, members, decisions) if copies else {}
    if copies:
        page.table(
            ("env steps", "member", "copied"), [(f"{it.env_steps:,}", str(it.member), str(it.copied)) for it in copies]
        )
    best = next((member for member in members if (member.recorded.path / SCHEDULE_NAME).is_file()), None)
    if best is None:
        return files
    changes = read_changes(best.recorded.path / SCHEDULE_NAME)
    end = float(best.recorded.end.env_steps) if not best.error and best.recorded.end else changes[-1].env_steps
    keys = sorted({key for change in changes for key in change.settings})
    page.paragraph(f"The schedule of member {best.number}; laser train --settings-schedule trains with it again.")
    page.table(("env steps", *keys), [_schedule_row(change, keys) for change in changes])
    panels = [Panel("env steps", key, [Line("", _steps(changes, key, end), is_steps=True)]) for key in keys[:4]]
    light, dark = (draw(panels, f"Schedule of member {best.number}", theme=theme) for theme in THEMES)
    page.picture(light, "the best member's settings over time, set by PBT", dark)
    return files | {"schedule.png": light}


def _add_lineage(page: Page, members: Sequence[_Member], decisions: Sequence[Decision]) -> dict[str, bytes]:
    """Add a picture of who copied whom, with the ancestors of the best member as a thick line."""
    ends = {it.number: float(it.recorded.end.env_steps) for it in members if not it.error and it.recorded.end}
    best = next((it.number for it in members if not it.error), None)
    path = [] if best is None else ancestry(best, decisions, ends.get(best, 0.0))
    copies = [(float(it.env_steps), it.copied, it.member) for it in decisions if it.copied is not None]
    light, dark = (draw_lineage(ends, copies, path, theme) for theme in THEMES)
    page.picture(light, f"who copied whom; thick: the ancestors of member {best}", dark)
    return {"lineage.png": light}


def _schedule_row(change: SettingsChange, keys: Sequence[str]) -> Sequence[str]:
    return (f"{change.env_steps:,}", *(short(change.settings[key]) if key in change.settings else "" for key in keys))


def _steps(changes: Sequence[SettingsChange], key: str, end: float) -> list[tuple[float, float]]:
    points = [(float(change.env_steps), change.settings[key]) for change in changes if key in change.settings]
    return [*points, (max(end, points[-1][0]), points[-1][1])]
