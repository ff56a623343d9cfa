"""The arena: bounded memory for compressed frames of unpredictable size, without fragmentation."""

from __future__ import annotations

from typing import Any

import numpy as np

from laser.unroll import PackedFrames
from replay_server.storage.free_list import FreeList

# Half a block is wasted per blob on average, and every block costs one hop and one copy. Measured with blobs of about
# 3 kB (`benchmarks/replay_shard.py --block-bytes`).
BLOCK_BYTES = 512


class Arena:
    """Blobs of `num_owners` owners, each a chain of fixed-size blocks. Not thread-safe.

    Any free block fits any blob, so there is no fragmentation, and the free room is a number of blocks. A gather
    follows all chains at once, one hop per pass, and copies the blocks with a single `take`.

    Args:
        capacity_bytes: bytes for blocks; rounded down to whole blocks, at least one.
        num_owners: owners (one per page and image); each has at most one blob.
        block_bytes: bytes per block.
    """

    def __init__(self, capacity_bytes: int, num_owners: int, block_bytes: int = BLOCK_BYTES):
        self.block_bytes = block_bytes
        self.num_blocks = max(1, capacity_bytes // block_bytes)
        self._blocks = np.empty((self.num_blocks, block_bytes), np.uint8)
        self._blocks.fill(0)  # touched now, so that memory does not grow later
        self._next = np.zeros(self.num_blocks, np.int32)
        self._heads = np.zeros(num_owners, np.int32)
        self._lengths = np.zeros(num_owners, np.int64)
        self.free = FreeList(self.num_blocks)

    def blocks_for(self, lengths: np.ndarray) -> np.ndarray:
        """Return the number of blocks that blobs of these lengths take, int64 [N]."""
        blocks: np.ndarray = -(-lengths // self.block_bytes)
        return blocks

    def insert(self, owners: np.ndarray, packed: PackedFrames, keep: np.ndarray) -> None:
        """Store blob `keep[i]` of `packed` for `owners[i]`; the caller has made room."""
        lengths = packed.lengths[keep]
        counts = self.blocks_for(lengths)
        stops = np.cumsum(counts)
        starts = stops - counts
        blocks = self.free.take(int(stops[-1]))
        staged = np.empty((len(blocks), self.block_bytes), np.uint8)
        flat = staged.reshape(-1)
        payload, block_bytes = packed.payload, self.block_bytes
        # A slice copy per blob is a plain memcpy; one fancy copy of all bytes would take an index per byte.
        for at, start, length in zip(
            (starts * block_bytes).tolist(), packed.starts[keep].tolist(), lengths.tolist(), strict=True
        ):
            flat[at : at + length] = payload[start : start + length]
        self._blocks[blocks] = staged
        # The last block of a chain also points at some block, which is harmless: a chain is cut at its count.
        self._next[blocks[:-1]] = blocks[1:]
        self._heads[owners] = blocks[starts]
        self._lengths[owners] = lengths

    def gather(self, owners: np.ndarray) -> PackedFrames:
        """Return the owners' blobs in one contiguous payload, each starting at a multiple of the block size."""
        lengths = self._lengths[owners]
        counts = self.blocks_for(lengths)
        blocks = self._chains(owners, counts)
        payload = np.empty((len(blocks), self.block_bytes), np.uint8)
        # mode="clip" lets `take` write straight into `out`; the default mode would write to a buffer first.
        np.take(self._blocks, blocks, axis=0, out=payload, mode="clip")
        return PackedFrames(payload.reshape(-1), (np.cumsum(counts) - counts) * self.block_bytes, lengths)

    def remove(self, owners: np.ndarray) -> None:
        """Forget the owners' blobs."""
        if len(owners):
            self.free.give(self._chains(owners, self.blocks_for(self._lengths[owners])))
            self._lengths[owners] = 0

    def _chains(self, owners: np.ndarray, counts: np.ndarray) -> np.ndarray:
        depth = int(counts.max(initial=0))
        chains = np.empty((max(depth, 1), len(owners)), np.int32)
        chains[0] = self._heads[owners]
        for hop in range(1, depth):
            np.take(self._next, chains[hop - 1], out=chains[hop], mode="clip")
        blocks: np.ndarray = chains.T[np.arange(len(chains)) < counts[:, None]]
        return blocks

    @property
    def num_used_bytes(self) -> int:
        """Bytes of the used blocks."""
        return (self.num_blocks - len(self.free)) * self.block_bytes

    @property
    def num_bytes(self) -> int:
        """Bytes held."""
        arrays = (self._blocks, self._next, self._heads, self._lengths)
        return sum(array.nbytes for array in arrays) + self.free.num_bytes

    def state_dict(self) -> dict[str, Any]:
        """Return the state, with the contents of used blocks only."""
        used = np.flatnonzero(~self.free.is_free())
        return {
            "used": used,
            "blocks": self._blocks[used],
            "next": self._next[used],
            "heads": self._heads.copy(),
            "lengths": self._lengths.copy(),
            "free": self.free.state_dict(),
        }

    def load_blobs(self, owners: np.ndarray, packed: PackedFrames) -> None:
        """Forget everything, and store blob i of `packed` for `owners[i]`."""
        self.free = FreeList(self.num_blocks)
        self._lengths[:] = 0
        if len(owners):
            self.insert(owners, packed, np.arange(len(owners)))

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        used = state["used"]
        self._blocks[used] = state["blocks"]
        self._next[used] = state["next"]
        self._heads[:] = state["heads"]
        self._lengths[:] = state["lengths"]
        self.free.load_state_dict(state["free"])
