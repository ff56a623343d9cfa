"""The unrolls in a shard's saved state, read without the members and settings that the shard had."""

from __future__ import annotations

from typing import Any

import numpy as np

from laser.unroll import Unrolls, UnrollSpec
from replay_server.storage.arena import BLOCK_BYTES, Arena


class SavedUnrolls:
    """All unrolls of a shard's `state_dict`, in no particular order.

    Args:
        spec: fields to read; core states may be left out.
        state: the saved state.
    """

    def __init__(self, spec: UnrollSpec, state: dict[str, Any]):
        pages = state["store"]["pages"]
        self.headers: np.ndarray = pages["headers"]
        self.fields: dict[str, np.ndarray] = {name: pages["fields"][name] for name in spec.fields}
        self._pages = pages["used"].astype(np.int64)
        self._images = list(spec.frames)
        self._arena: Arena | None = None
        if self._images:
            arena = state["store"]["arena"]
            num_blocks = len(arena["used"]) + len(arena["free"]["stack"])
            self._arena = Arena(num_blocks * BLOCK_BYTES, len(arena["heads"]))
            self._arena.load_state_dict(arena)

    def gather(self, unrolls: np.ndarray) -> Unrolls:
        """Return some of the unrolls, int64 [N], in this order."""
        frames = {}
        if self._arena is not None:
            owners = self._pages[unrolls] * len(self._images)
            frames = {name: self._arena.gather(owners + image) for image, name in enumerate(self._images)}
        return Unrolls(self.headers[unrolls], {name: value[unrolls] for name, value in self.fields.items()}, frames)
