"""Formats of numbers on the dashboard and in reports: in tables, in tiles, at the pointer and along axes.

`short` is the rule. `axis_formats` says the same to Plotly, and `shown` in `assets/table.js` to tables.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

_SMALL = 1e-3
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
    if abs(value) < 999_999.5:
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


def axis_formats(largest: Iterable[float]) -> dict[str, str]:
    """Return the formats of an axis's marks and of its values at the pointer, as Plotly reads them.

    Args:
        largest: greatest size of each curve's values.
    """
    most = max((each for each in largest if math.isfinite(each)), default=0.0)
    if 0 < most < _SMALL:
        return {"tickformat": "~e", "hoverformat": ".3~e"}
    if most >= 1e6:
        return {"tickformat": "~s", "hoverformat": ".4~s"}
    whole_digits = len(f"{most:.0f}")
    return {"tickformat": ",~r", "hoverformat": f",.{max(4, whole_digits)}~r"}


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text
