"""The arena against a dict of bytes."""

import numpy as np
import pytest

from laser.unroll import PackedFrames
from replay_server.storage.arena import Arena


def pack(blobs, rng):
    """Return blobs in one payload, out of order and with gaps."""
    starts, parts, at = np.zeros(len(blobs), np.int64), [], 0
    for i in rng.permutation(len(blobs)):
        starts[i] = at
        gap = np.zeros(int(rng.integers(5)), np.uint8)
        parts += [blobs[i], gap]
        at += len(blobs[i]) + len(gap)
    return PackedFrames(np.concatenate(parts), starts, np.array([len(blob) for blob in blobs]))


@pytest.mark.parametrize("block_bytes", [1, 7, 64])
def test_every_blob_comes_back_under_random_operations(block_bytes):
    rng = np.random.default_rng(block_bytes)
    arena, naive = Arena(4000, 50, block_bytes), {}
    for _ in range(200):
        unused = np.array(sorted(set(range(50)) - set(naive)), np.int32)
        if rng.random() < 0.6 and len(unused):
            num = int(rng.integers(1, min(6, len(unused)) + 1))
            blobs = [rng.integers(256, size=int(rng.integers(1, 200)), dtype=np.uint8) for _ in range(num + 2)]
            keep = np.sort(rng.permutation(num + 2)[:num])  # some of the message is not stored
            packed = pack(blobs, rng)
            if int(arena.blocks_for(packed.lengths[keep]).sum()) <= len(arena.free):
                owners = rng.permutation(unused)[:num]
                arena.insert(owners, packed, keep)
                naive.update(zip(owners.tolist(), (blobs[i] for i in keep), strict=True))
        elif naive:
            owners = rng.permutation(sorted(naive))[: rng.integers(len(naive)) + 1]
            arena.remove(owners)
            for owner in owners.tolist():
                del naive[owner]
        used = sum(-(-len(blob) // block_bytes) for blob in naive.values())
        assert used + len(arena.free) == arena.num_blocks
        assert arena.num_used_bytes == used * block_bytes
        if naive:
            asked = rng.choice(sorted(naive), size=9)  # with repetitions
            packed = arena.gather(asked)
            for i, owner in enumerate(asked.tolist()):
                np.testing.assert_array_equal(packed[i], naive[owner])


def test_any_free_block_fits_any_blob():
    """A heap of this size would be fragmented: every other blob goes, and one blob of all that is free still fits."""
    rng = np.random.default_rng(0)
    arena = Arena(100 * 16, 101, 16)
    blobs = [rng.integers(256, size=16, dtype=np.uint8) for _ in range(100)]
    arena.insert(np.arange(100), pack(blobs, rng), np.arange(100))
    arena.remove(np.arange(0, 100, 2))
    large = rng.integers(256, size=50 * 16, dtype=np.uint8)
    arena.insert(np.array([100]), pack([large], rng), np.array([0]))
    assert len(arena.free) == 0
    np.testing.assert_array_equal(arena.gather(np.array([100]))[0], large)
