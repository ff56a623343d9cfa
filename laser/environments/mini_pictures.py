"""Rules of small tasks whose observations are pictures of a few cells, one byte each."""

from __future__ import annotations

import numpy as np

from laser.environments.mini_tasks import Catch, State
from laser.specs import FramesSpec


class PixelCatch(Catch):
    """Catch with a picture of 10x5 cells as observation."""

    frames = FramesSpec((Catch.num_rows, Catch.num_columns))

    def observe(self, state: State) -> np.ndarray:
        """Return uint8 [N, 10, 5], 255 at ball and paddle."""
        board = super().observe(state).astype(np.uint8) * 255
        return board.reshape(-1, self.num_rows, self.num_columns)
