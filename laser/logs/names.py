"""Names of logs: `minari:NAMESPACE/NAME-vN`."""

from __future__ import annotations

import re

PREFIX = "minari:"
_NAME = re.compile(r"([\w-][\w/-]*[\w-]/)?[\w-]+-v\d+")  # Minari's own, with a version


def is_data_set(name: str) -> bool:
    """Return whether a name without the prefix may be one of Minari's data sets."""
    return bool(_NAME.fullmatch(name))


def is_log(name: str) -> bool:
    """Return whether a name may be one of a log."""
    return name.startswith(PREFIX) and is_data_set(name.removeprefix(PREFIX))
