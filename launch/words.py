"""Numbers as messages show them."""

from __future__ import annotations

MB = 2**20


def size(num_bytes: int) -> str:
    """Return a number of bytes with its unit: 850 MB, 1.2 GB."""
    if num_bytes < 1000 * MB:
        return f"{num_bytes / MB:.0f} MB"
    return f"{num_bytes / (1024 * MB):.1f} GB"
