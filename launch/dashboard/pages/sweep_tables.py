"""The numbers of a sweep's page: its settings over their seeds, its members, and the tiles above them."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from launch.dashboard.address import address_of
from launch.dashboard.comparing import setting_label, show_setting
from launch.dashboard.figures import as_text
from launch.dashboard.library import Library, Summary
from launch.dashboard.member_groups import has_seeds, member_label, settings_of
from launch.dashboard.pages.parts import table, tile
from launch.dashboard.pages.sweep_members import curve_mark
from launch.dashboard.sweeps import Decision
from launch.evaluation.settings_compared import SettingReturns, best_setting
from launch.formats import short
from launch.recording.metric_table import RATE
from launch.records.listing import Entry, member_number, printable


def keys_of(entry: Entry, members: list[Entry]) -> list[str]:
    """Return the keys in which members differ: the grid's keys, and the settings that a population changes."""
    sweep = entry.record.get("sweep")
    grid = sweep.get("grid") if isinstance(sweep, dict) else None
    pbt = sweep.get("pbt") if isinstance(sweep, dict) else None
    keys = [str(key) for key in grid] if isinstance(grid, dict) else []
    keys += [str(key) for member in members for key in member.overrides]
    perturbed = pbt.get("perturb") if isinstance(pbt, dict) and entry.sweep_options.get("pbt") else None
    keys += [str(key) for key in perturbed] if isinstance(perturbed, list) else []
    return list(dict.fromkeys([*keys, *(["seed"] if members else [])]))


def evolves(entry: Entry, decisions: list[Decision]) -> bool:
    """Return whether the members of a sweep change their settings while they train."""
    return bool(decisions) or bool(entry.sweep_options.get("pbt"))


def settings_of_sweep(
    library: Library, entry: Entry, members: list[Entry], decisions: list[Decision]
) -> list[SettingReturns]:
    """Return the settings over their seeds; a population has none, since its members change theirs."""
    return [] if evolves(entry, decisions) else settings_of(library, members)


def settings_table(settings: list[SettingReturns], members: list[Entry]) -> Any:
    """Return the table of settings, one row for the seeds of one setting; best first."""
    keys = list(dict.fromkeys(key for one in settings for key in one.settings))
    known = {member_number(member): member for member in members}
    rows = []
    for one in settings:
        links = [
            dcc.Link(str(index), href=address_of(known[index]), title=known[index].name)
            for index in one.members
            if index in known
        ]
        around = "" if one.interval is None else f"{short(one.interval[0])} to {short(one.interval[1])}"
        cells = [printable(show_setting(one.settings.get(key, ""), key), 60) for key in keys] or ["all"]
        name = setting_label(one.settings)
        own = [as_text(member_label(known[index])) for index in one.members if index in known]
        mark = curve_mark(name, [as_text(name), *own])
        seeds = f"{len(one.returns)} of {len(one.members)}" if len(one.returns) < len(one.members) else len(one.returns)
        rows.append(
            [
                html.Span([mark, cells[0]]),
                *cells[1:],
                short(one.mean) or "none yet",
                around,
                seeds,
                html.Span(links, className="links"),
            ]
        )
    heads: list[Any] = [html.Span(printable(key.rpartition(".")[2]), title=printable(key)) for key in keys] or [
        "setting"
    ]
    heads += ["mean return", "95 % interval", "seeds", "members"]
    kept = [place for place in range(len(heads)) if any(row[place] != "" for row in rows)]
    shown = [[row[place] for place in kept] for row in rows]
    return table([heads[place] for place in kept], shown, class_name="settings")


def tiles_of_sweep(
    summary: Summary, rows: list[dict[str, Any]], settings: list[SettingReturns], *, evolving: bool
) -> list[Any]:
    """Return the tiles: the best setting over its seeds, the best member, and the sweep's totals."""
    moment = summary.latest.moment
    if moment is None:
        return []
    ranked = sorted((row for row in rows if row["return"] is not None), key=lambda row: -row["return"])
    best = ranked[0] if ranked else None
    spread = f"worst {short(ranked[-1]['return'])}" if len(ranked) > 1 else ""
    tiles = [
        tile("best member's return", short(best["return"]) if best else "none yet", best["name"] if best else ""),
        tile("members with a return", f"{len(ranked)} of {len(rows)}", spread),
        tile("env steps, all members", f"{moment.env_steps:,}", ""),
        tile("env steps / s", short(summary.latest.values.get(RATE)), "newest, added up"),
    ]
    winner = None if evolving else best_setting(settings)
    if winner is not None and has_seeds(settings):
        seeds = f"mean over {len(winner.returns)} seed{'s' if len(winner.returns) > 1 else ''}"
        tiles.insert(0, tile("best setting's return", short(winner.mean), f"{setting_label(winner.settings)}: {seeds}"))
    if evolving:
        tiles.append(tile("copied", str(sum(row["copied"] for row in rows)), "times"))
    return tiles
