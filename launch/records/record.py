"""A run's record: the content of `config.json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from laser.regular_files import check_regular


def load_record(path: Path) -> dict[str, Any]:
    """Return the record of a run or a sweep.

    Args:
        path: the path of `config.json`.

    Raises:
        OSError: the file is missing, cannot be opened, or is no file.
        ValueError: the file is not a record.
    """
    check_regular(path)
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    if not isinstance(record, dict) or not isinstance(record.get("config"), dict):
        raise ValueError("it is not a run's record")
    return record
