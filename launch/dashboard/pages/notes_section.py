"""The part of the page of a run or a sweep for what users write about it."""

from __future__ import annotations

from typing import Any

from dash import Dash, Input, Output, State, dcc, html
from dash.exceptions import PreventUpdate

from launch.dashboard.address import Address
from launch.dashboard.library import Library
from launch.dashboard.notes import MOST_CHARACTERS, Note
from launch.dashboard.pages.parts import labelled, section
from launch.records.listing import Entry

_ARCHIVED = "archived"


def layout(library: Library, entry: Entry, address: Address) -> Any:
    """Return the section; it is open if something is written."""
    note = library.notes.of(entry.path)
    is_closed = library.notes.read_only
    kind = "sweep" if entry.is_sweep else "run"
    about = f"kept in {library.notes.path.name} beside the runs; nothing is written into the {kind}"
    return section(
        "notes",
        "Notes",
        [
            html.Div(
                [
                    html.Div(
                        [
                            html.Span("note", className="label"),
                            dcc.Textarea(id="note", value=note.note, maxLength=MOST_CHARACTERS, disabled=is_closed),
                        ],
                        className="control note",
                    ),
                    labelled(
                        "tags, with commas between them",
                        dcc.Input(
                            id="note-tags",
                            value=note.tags,
                            maxLength=200,
                            debounce=True,
                            disabled=is_closed,
                            type="text",
                        ),
                    ),
                    labelled(
                        "table of runs",
                        dcc.Checklist(
                            id="note-archived",
                            options=[{"label": f"leave this {kind} out", "value": _ARCHIVED, "disabled": is_closed}],
                            value=[_ARCHIVED] if note.archived else [],
                        ),
                        "choice",
                    ),
                    html.Button("Save", id="note-save", type="button", n_clicks=0, disabled=is_closed),
                ],
                className="controls",
            ),
            html.P(
                "this dashboard is read-only" if is_closed else about, id="note-said", className="quiet", role="status"
            ),
            dcc.Store(id="note-key", data=entry.key),
        ],
        address,
        opens=note != Note(),
    )


def register(app: Dash, library: Library) -> None:
    """Add the callback that saves."""

    @app.callback(
        Output("note-said", "children"),
        Input("note-save", "n_clicks"),
        State("note", "value"),
        State("note-tags", "value"),
        State("note-archived", "value"),
        State("note-key", "data"),
        prevent_initial_call=True,
    )
    def save(clicks: Any, note: Any, tags: Any, archived: Any, key: Any) -> Any:
        entry = library.find(key)
        if entry is None or not clicks:
            raise PreventUpdate
        is_archived = isinstance(archived, list) and _ARCHIVED in archived
        written = Note(note if isinstance(note, str) else "", tags if isinstance(tags, str) else "", is_archived)
        return library.notes.write(entry.path, written) or "saved"
