"""The panels of a run's page in their sections, with the buttons that pin, enlarge and scale them."""

from __future__ import annotations

from typing import Any

from dash import dcc, html

from launch.dashboard.address import Address
from launch.dashboard.checked import one_of, texts
from launch.dashboard.comparing import seeds_of
from launch.dashboard.library import Library
from launch.dashboard.pages.help import about_panel
from launch.dashboard.pages.parts import labelled, panel, section
from launch.dashboard.panels import SCALES, SECTIONS, Scale, panels_of
from launch.recording.metric_panels import BOXES, Panel
from launch.records.listing import Entry

MOST_PANELS = 100
_ALL_SEEDS = "all seeds of "
_SETTLED_S = 60.0
"""Seconds after which a panel without numbers will probably never have any."""


def sections(library: Library, entry: Entry, address: Address) -> list[Any]:
    """Return the sections with their panels; a line names what a run that is under way or done has not recorded."""
    summary = library.summary(entry)
    known, moment = summary.latest.values, summary.latest.moment
    panels = {each.key: each for each in panels_of_run(library, entry)}
    has_learned = "losses" in panels and bool(panels["losses"].chosen(known))
    is_settled = moment is not None and (summary.status != "running" or has_learned or moment.seconds > _SETTLED_S)
    pinned = [key for key in dict.fromkeys(address.texts("pin")) if key in panels]
    found = []
    for title, keys in (({"Pinned": tuple(pinned)} if pinned else {}) | SECTIONS).items():
        chosen = [panels[key] for key in keys if key in panels and (title == "Pinned" or key not in pinned)]
        empty = [each for each in chosen if is_settled and not each.chosen(known)]
        drawn = [
            panel(
                each.title,
                {"panel": each.key},
                tools=_tools(each, address),
                about=about_panel(each, known),
                facet=each.key,
            )
            for each in chosen
            if each not in empty
        ]
        if title == "Replay":
            drawn += [_box(BOXES["ledger"], "ledger"), _box(BOXES["lost"], "losses")]
        if title == "System":
            drawn.append(_box("Processes", "processes"))
        missing = ", ".join(each.title for each in empty)
        content: list[Any] = [html.Div(drawn, className="panels")] if drawn else []
        content += [html.P(f"this run has no numbers for: {missing}", className="quiet")] if missing else []
        found.append(section(title.lower(), title, content, address))
    return found


def _tools(each: Panel, address: Address) -> list[Any]:
    """Return a panel's own buttons; assets/panels.js acts on them, and the address holds what they did."""
    scale = next((name for name in SCALES if each.key in address.texts(f"y-{name}")), "")
    states = {
        "pin": (each.key in address.texts("pin"), "pin this panel above all others"),
        "enlarge": (each.key in address.texts("large"), "enlarge this panel"),
        "y": (bool(scale), "change this panel's y axis: without outliers, logarithmic, as all panels"),
    }
    if each.y_range is not None or each.stacked:  # its y axis is fixed
        del states["y"]
    words = {"pin": "pin", "enlarge": "enlarge", "y": f"y: {scale}" if scale else "y"}
    found = []
    for tool, (is_on, about) in states.items():
        marks: dict[str, Any] = {"data-tool": tool, "data-panel": each.key, "data-scale": scale}
        marks |= {"aria-pressed": "true" if is_on else "false"}
        found.append(html.Button(words[tool], type="button", className="save", title=about, **marks))
    return found


def baseline_choice(library: Library, entry: Entry, address: Address) -> Any:
    """Return the control for the runs that are laid under every panel: one, or all seeds of a setting."""
    offered = baselines(library, entry)
    chosen = one_of(address.text("baseline"), tuple(offered), None)
    options = [
        {"label": name if len(runs) == 1 else f"{name} ({len(runs)} runs)", "value": name}
        for name, runs in offered.items()
    ]
    dropdown = dcc.Dropdown(id="run-baseline", options=options, value=chosen, placeholder="none")
    return labelled("baseline (dotted)", dropdown, "widest")


def baseline_of(library: Library, entry: Entry, name: Any) -> list[Entry]:
    """Return the runs of a baseline by its name; [] if there is none of this name, which may be any value."""
    if not isinstance(name, str) or not name:
        return []
    if name.startswith(_ALL_SEEDS):
        return baselines(library, entry).get(name, [])
    found = library.find(name)
    return [] if found is None or found.is_sweep else [found]


def baselines(library: Library, entry: Entry) -> dict[str, list[Entry]]:
    """Return the runs of every baseline by its name; a group is named after one of its runs, as the address is kept."""
    others = [each for each in library.entries().values() if not each.is_sweep and each.key != entry.key]
    groups = {f"{_ALL_SEEDS}{group[0].name}": group for group in seeds_of(others)}
    return groups | {each.name: [each] for each in others}


def _box(title: str, name: str) -> Any:
    return html.Section([html.H2(title), html.Div(id=name)], className="panel")


def panels_of_run(library: Library, entry: Entry) -> list[Panel]:
    """Return the panels of a run, in the order of the page."""
    return panels_of(library.summary(entry).latest.values)


def own_scales(data: Any) -> dict[str, Scale]:
    """Return the panels whose y axis the user has chosen by itself."""
    chosen = data if isinstance(data, dict) else {}
    return {key: scale for scale in SCALES for key in texts(chosen.get(scale), MOST_PANELS)}
