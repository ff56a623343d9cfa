"""A picture of docs/results.md, which knows what it was drawn from."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from launch.report import pictures
from launch.report.pictures import Panel


@dataclass(frozen=True)
class Picture:
    """Panels under a title, with one legend.

    Args:
        title: above all panels.
        panels: from left to right, row by row.
        labels: all that a line may have, in the order of their colours, whether a line has them or not.
        num_columns: panels side by side.
    """

    title: str
    panels: Sequence[Panel]
    labels: Sequence[str]
    num_columns: int = 1

    @property
    def digest(self) -> str:
        """Hash of all that is drawn."""
        return hashlib.sha256(repr(self).encode()).hexdigest()

    def png(self) -> bytes:
        """Return the file; its comment is the digest, by which a test sees that the data have changed since."""
        return pictures.draw(
            self.panels, self.title, self.num_columns, shares_y=False, labels=self.labels, note=self.digest
        )
