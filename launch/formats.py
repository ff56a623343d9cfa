"""Formats of numbers on the dashboard and in reports: in tables, in tiles, at the pointer and along axes.

`short` is the rule. `axis_formats` and `pointer_format` say the same to Plotly, and `shown` in `assets/table.js` to
tables.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

_SMALL, _LARGE = 1e-3, 999_999.5
_UNITS = ((1e12, "T"), (1e9, "G"), (1e6, "M"))


def short(value: float | None) -> str:
    """Return a number with four digits, or all of its whole part below a million; "" for None and NaN.

    So 0.41667 is 0.4167, 11368.88 is 11,369, 400000000 is 400M, and 0.0001 is 1e-4.
    """
    if value is None or value != value:
        return ""
    if math.isinf(value):
        return "infinite" if value > 0 else "-infinite"
    if value == 0:
        return "0"
    if abs(value) < _SMALL:
        digits, exponent = f"{value:.2e}".split("e")
        return f"{_trimmed(digits)}e{int(exponent)}"
    if abs(value) < 999.95:
        return _trimmed(f"{value:.{max(0, 3 - math.floor(math.log10(abs(value))))}f}")
    if abs(value) < _LARGE:
        return f"{value:,.0f}"
    unit, name = next((each for each in _UNITS if abs(value) >= each[0] * 0.99995), _UNITS[-1])
    return _trimmed(f"{float(f'{value / unit:.4g}'):,.3f}") + name


def size(value: float | None) -> str:
    """Return a number of bytes in KiB, MiB or GiB; "" for None."""
    if value is None:
        return ""
    scale, unit = byte_unit(value)
    return f"{short(value / scale)} {unit}"


def byte_unit(largest: float) -> tuple[float, str]:
    """Return the unit of sizes up to `largest` bytes, and its name."""
    for scale, unit in ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if largest >= scale:
            return scale, unit
    return 1.0, "bytes"


def axis_formats(most: float, *, is_log: bool = False) -> dict[str, Any]:
    """Return the formats of an axis's marks, as Plotly reads them; no mark has the prefixes k, m or µ.

    Args:
        most: greatest size of what is drawn.
        is_log: the axis is logarithmic.
    """
    if 0 < most < _SMALL:
        return {"tickformat": "~e", "labelalias": {"0e+0": "0"}}
    if is_log:
        return {"tickformat": ",~g", "labelalias": _decades()}
    # Marks from a million on have M or G in common, by the range that Plotly draws, also after a user has zoomed.
    return {"separatethousands": True, "minexponent": 5, "exponentformat": "SI" if most >= _LARGE else "e"}


@cache
def _decades() -> dict[str, str]:
    """Return the marks of decades, which have many zeros or an exponent by the format "~g", as `short` writes them."""
    sizes = [(digit, power) for power in (*range(-6, -3), *range(6, 15)) for digit in range(1, 10)]
    return {
        f"{digit}e+{power}" if power > 0 else f"{digit * 10.0**power:.{-power}f}": short(digit * 10.0**power)
        for digit, power in sizes
    }


def pointer_format(least: float, most: float) -> str:
    """Return Plotly's format of values at the pointer; "" if none suits values of such different sizes.

    Args:
        least: smallest size of a value.
        most: greatest size of a value.
    """
    if least > 0 and most < _SMALL:
        return ".2~e"  # it writes 0 as 0e+0
    if least >= _LARGE:
        return ".4~s"
    if most == 0 or _SMALL <= most < _LARGE:
        return f",.{max(4, len(f'{most:.0f}'))}~g"
    return ""


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
