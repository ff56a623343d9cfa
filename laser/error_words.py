"""The words of an exception, whatever its class does. Imports nothing heavy, since every command needs it."""

from __future__ import annotations


def words_of(error: BaseException) -> str:
    """Return an exception's type and message."""
    try:
        message = str(error)
    except BaseException as failure:  # noqa: BLE001 - the exception to report is the first one
        message = f"its __str__ raised {type(failure).__name__}"
    return f"{type(error).__name__}: {message}"
