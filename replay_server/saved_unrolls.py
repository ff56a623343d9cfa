"""The unrolls in a shard's saved state, read without the members and settings that the shard had."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from laser.unroll import HEADER_DTYPE, PackedFrames, Unrolls, UnrollSpec
from replay_server.saving.contents import Contents
from replay_server.storage.arena import BLOCK_BYTES, Arena


class SavedUnrolls:
    """All unrolls of a shard's saved state, with its contents, in no particular order.

    Args:
        spec: fields to read; core states may be left out.
        state: the saved state.
    """

    def __init__(self, spec: UnrollSpec, state: dict[str, Any]):
        self._frames: Mapping[str, PackedFrames] | None = None
        self._arena: Arena | None = None
        if "contents" in state:
            self._take_contents(spec, state["contents"])
            return
        # As versions before segments saved it, and `Shard.state_dict` does.
        pages = state["store"]["pages"]
        self.headers: np.ndarray = pages["headers"]
        self.fields: dict[str, np.ndarray] = {name: pages["fields"][name] for name in spec.fields}
        self._pages = pages["used"].astype(np.int64)
        self._images = list(spec.frames)
        if self._images:
            arena = state["store"]["arena"]
            num_blocks = len(arena["used"]) + len(arena["free"]["stack"])
            self._arena = Arena(num_blocks * BLOCK_BYTES, len(arena["heads"]))
            self._arena.load_state_dict(arena)

    def _take_contents(self, spec: UnrollSpec, contents: Contents | None) -> None:
        if contents is None:
            self.headers, self.fields, self._frames = np.empty(0, HEADER_DTYPE), {}, {}
            return
        self.headers, self._frames = contents.headers, {name: contents.frames[name] for name in spec.frames}
        self.fields = {name: contents.fields[name] for name in spec.fields}

    def gather(self, unrolls: np.ndarray) -> Unrolls:
        """Return some of the unrolls, int64 [N], in this order."""
        frames = {}
        if self._frames is not None:
            frames = {
                name: PackedFrames(packed.payload, packed.starts[unrolls], packed.lengths[unrolls])
                for name, packed in self._frames.items()
            }
        if self._arena is not None:
            owners = self._pages[unrolls] * len(self._images)
            frames = {name: self._arena.gather(owners + image) for image, name in enumerate(self._images)}
        return Unrolls(self.headers[unrolls], {name: value[unrolls] for name, value in self.fields.items()}, frames)
