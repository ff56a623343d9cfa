"""The address of a view: which page, of which run, and how its controls stand. The pages' scripts write it.

`assets/address.js` writes a control into the address when the user changes it, so that a reload, the back button and
a copied link lead to the same view.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, quote, unquote, urlencode

from dash import ClientsideFunction, Dash, Input, State, dcc

from launch.dashboard.checked import whole
from launch.records.listing import Entry

_MOST_FIELDS = 10_000


@dataclass(frozen=True)
class Address:
    """The address of a page, parsed; any text is possible.

    Args:
        page: "" for the runs, "run", "sweep", "watch", or another word.
        name: of the run or sweep, or its key; "" if there is none.
        values: of the query, by name.
        moment: when it was opened, in the browser's milliseconds.
    """

    page: str = ""
    name: str = ""
    values: dict[str, list[str]] = field(default_factory=dict)
    moment: int = 0

    def text(self, name: str, default: str = "") -> str:
        """Return a value of the query."""
        return self.values.get(name, [default])[0]

    def texts(self, name: str, default: tuple[str, ...] = ()) -> list[str]:
        """Return all values of one name."""
        return self.values.get(name, list(default))

    def number(self, name: str, default: int) -> int:
        """Return a value of the query as a whole number."""
        text = self.text(name)
        return int(text) if text.isdecimal() and len(text) < 10 else default

    def json(self, name: str) -> Any:
        """Return a value of the query that is written as JSON; None if it is absent or no JSON."""
        try:
            return json.loads(self.text(name, "null"))
        except (ValueError, RecursionError):
            return None

    def is_open(self, section: str, default: bool) -> bool:
        """Return whether a section of the page is open."""
        return section not in self.texts("shut") if default else section in self.texts("open")


def parse_address(data: Any) -> Address:
    """Return the address that the page's script sent as {"pathname": ..., "search": ...}; any value is possible."""
    data = data if isinstance(data, dict) else {}
    pathname, search, moment = data.get("pathname"), data.get("search"), data.get("at")
    page, _, name = (unquote(pathname) if isinstance(pathname, str) else "/").lstrip("/").partition("/")
    try:
        values = parse_qs(search.lstrip("?"), keep_blank_values=True, max_num_fields=_MOST_FIELDS)
    except (ValueError, AttributeError):
        values = {}
    return Address(
        "" if page == "runs" else page, name or values.get("key", [""])[0], values, whole(moment, 0, 1 << 53, 0)
    )


def address_of(entry: Entry, page: str = "") -> str:
    """Return the address of a run or sweep by its name, which is the same on every machine.

    Args:
        entry: the run or sweep.
        page: of it, for example "watch"; by default its own page.
    """
    place = quote(entry.name, safe="/")
    # A browser resolves dots and joins slashes, so such a name cannot be a path.
    by_name = "//" not in place and not {".", ".."} & set(place.split("/"))
    page = page or ("sweep" if entry.is_sweep else "run")
    return f"/{page}/{place}" if by_name else f"/{page}?{urlencode({'key': entry.key})}"


@dataclass(frozen=True)
class Control:
    """A control of a page whose value stands in the address.

    Args:
        id: of the component; its value is the property `value`.
        name: in the query.
        default: value that is left out of the address.
    """

    id: str
    name: str
    default: Any


def controls_store(page: str, controls: Sequence[Control], address: Address) -> dcc.Store:
    """Return the store that a page with `remember_controls` needs."""
    fields = [[control.name, control.default] for control in controls]
    return dcc.Store(id=f"{page}-controls", data={"at": address.moment, "fields": fields})


def remember_controls(app: Dash, page: str, controls: Sequence[Control]) -> None:
    """Let the browser write a page's controls into the address whenever one changes."""
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("laser", "remember"),
        *[Input(control.id, "value") for control in controls],
        State(f"{page}-controls", "data"),
    )
