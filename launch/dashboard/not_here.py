"""A line about what an address asks for and its page does not have: nobody should take one view for another."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from dash import html

from launch.dashboard.address import Address
from launch.records.listing import printable

_MOST_NAMED = 6
_MOST_LETTERS = 60


def not_here(missing: Sequence[str]) -> html.P:
    """Return the line about what the address asks for and the page does not have; it is hidden if nothing is missing.

    Args:
        missing: each with its kind, for example "run a1".
    """
    named = list(dict.fromkeys(missing))
    more = f" and {len(named) - _MOST_NAMED:,} more" if len(named) > _MOST_NAMED else ""
    words = f"The link asks for what is not here: {', '.join(named[:_MOST_NAMED])}{more}."
    return html.P(words if named else "", id="not-here", className="finding", role="status", hidden=not named)


def unknown(address: Address, name: str, allowed: Collection[str], what: str = "") -> list[str]:
    """Return the values of one name of the query that the page does not know.

    Args:
        address: of the page.
        name: in the query.
        allowed: values that the page knows; an empty value stands for no choice.
        what: the values are; by default their name in the query.
    """
    return [f"{what or name} {quoted(value)}" for value in address.texts(name) if value and value not in allowed]


def beyond(address: Address, name: str, most: int, what: str) -> list[str]:
    """Return in words how many values of one name of the query are more than a page takes; [] if none are."""
    left = len([value for value in address.texts(name) if value]) - most
    return [f"{left:,} further {what} (at most {most})"] if left > 0 else []


def no_number(address: Address, name: str, most: int) -> list[str]:
    """Return the value of one name of the query unless it is a whole number up to `most`."""
    value = address.text(name)
    return [] if not value or (value.isdecimal() and int(value[:20]) <= most) else [f"{name} {quoted(value)}"]


def malformed(address: Address, name: str, value: Any) -> list[str]:
    """Return the text of one name of the query if it is there and nothing could be read from it.

    Args:
        address: of the page.
        name: in the query.
        value: what was read; None: nothing.
    """
    return [f"{name} {quoted(address.text(name))}"] if address.text(name) and value is None else []


def quoted(text: str) -> str:
    """Return a text of the address as it is shown."""
    return printable(text, _MOST_LETTERS)
