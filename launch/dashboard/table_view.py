"""Tables that can be filtered: settings of their columns, and their filters and order in an address."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from launch.dashboard.address import Address
from launch.dashboard.not_here import malformed, quoted

TEXT_FILTER = "agTextColumnFilter"
NUMBER_FILTER = "agNumberColumnFilter"

COLUMN_DEFAULTS = {
    "sortable": True,
    "resizable": True,
    "floatingFilter": True,
    "suppressMovable": True,
    "suppressFloatingFilterButton": True,
    "suppressHeaderFilterButton": True,
}
"""Settings of every column of a table that can be filtered, for AG Grid."""

_KINDS = {TEXT_FILTER: "text", NUMBER_FILTER: "number"}
_TYPES = {
    "text": ("contains", "notContains", "equals", "notEqual", "startsWith", "endsWith", "blank", "notBlank"),
    "number": (
        *("equals", "notEqual", "greaterThan", "greaterThanOrEqual", "lessThan", "lessThanOrEqual", "inRange"),
        *("blank", "notBlank"),
    ),
}
_WITHOUT_VALUE = ("blank", "notBlank")


def filters_of(address: Address, columns: Iterable[dict[str, Any]]) -> tuple[dict[str, Any] | None, list[str]]:
    """Return the filters of an address that a table can have, by field, and in words those that it cannot.

    Args:
        address: of the page; its value `filter` is AG Grid's filter model.
        columns: of the table.
    """
    model = address.json("filter")
    if not isinstance(model, dict):
        return None, malformed(address, "filter", None)
    kinds = {column["field"]: _KINDS[column["filter"]] for column in columns if column.get("filter") in _KINDS}
    kept = {field: each for field, each in model.items() if field in kinds and _is_filter(each, kinds[field])}
    return kept or None, [f"filter of {quoted(field)}" for field in model if field not in kept]


def sort_of(
    address: Address, columns: Iterable[dict[str, Any]], default: Sequence[str] = ()
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the order of an address as AG Grid's column states, and in words the parts that a table cannot have.

    Args:
        address: of the page; its values `sort` are FIELD:asc or FIELD:desc.
        columns: of the table.
        default: the order where the address has none.
    """
    fields = {column["field"] for column in columns if column.get("sortable", True)}
    asked = [order for order in address.texts("sort", tuple(default)) if order]
    known = {order: order.rpartition(":") for order in asked}
    kept = [order for order, (field, _, way) in known.items() if field in fields and way in ("asc", "desc")]
    states = [
        {"colId": known[order][0], "sort": known[order][2], "sortIndex": place} for place, order in enumerate(kept)
    ]
    return states, [f"sort {quoted(order)}" for order in known if order not in kept]


def _is_filter(value: Any, kind: str) -> bool:
    if not isinstance(value, dict) or value.get("filterType") != kind:
        return False
    if "conditions" in value:
        parts = value["conditions"]
        return (
            value.get("operator") in ("AND", "OR")
            and isinstance(parts, list)
            and bool(parts)
            and all(_is_filter(part, kind) for part in parts)
        )
    if value.get("type") not in _TYPES[kind]:
        return False
    wanted = () if value["type"] in _WITHOUT_VALUE else ("filter", "filterTo")[: 1 + (value["type"] == "inRange")]
    return all(_is_value(value.get(name), kind) for name in wanted)


def _is_value(value: Any, kind: str) -> bool:
    if kind == "text":
        return isinstance(value, str)
    return isinstance(value, (int, float)) and not isinstance(value, bool)
