import struct
import threading
import zlib

import numpy as np
import pytest
import zstandard

from laser.frames import compress_frames, decompress_frames
from laser.unroll import PackedFrames


def screens(num_unrolls=3, num_frames=5, frame_shape=(84, 84), seed=0):
    """Compressible like a game: a still background with a small busy patch."""
    generator = np.random.default_rng(seed)
    frames = np.zeros((num_unrolls, num_frames, *frame_shape), np.uint8)
    frames[:, :, 10:14, :8] = generator.integers(0, 256, frames[:, :, 10:14, :8].shape, np.uint8)
    return frames


@pytest.mark.parametrize("frame_shape", [(84, 84), (96, 72, 3), (20, 20)])
@pytest.mark.parametrize("level", [1, 3])
def test_what_was_compressed_comes_back(frame_shape, level):
    frames = screens(frame_shape=frame_shape)
    packed = compress_frames(frames, level)
    out = np.full_like(frames, 7)
    decompress_frames(packed, out)
    np.testing.assert_array_equal(out, frames)
    assert packed.payload.nbytes < frames.nbytes / 2


def test_entries_lie_one_after_the_other():
    packed = compress_frames(screens(num_unrolls=4))
    np.testing.assert_array_equal(packed.starts[1:], (packed.starts + packed.lengths)[:-1])
    assert packed.starts[0] == 0
    assert packed.payload.nbytes == packed.lengths.sum()


def test_gaps_between_entries_and_strided_outputs_are_fine():
    frames = screens()
    packed = compress_frames(frames)
    spread = np.full(packed.payload.size + 64, 255, np.uint8)
    starts = packed.starts + 8 * np.arange(1, len(frames) + 1)
    for index, start in enumerate(starts):
        spread[start : start + packed.lengths[index]] = packed[index]
    out = np.zeros((2 * len(frames), *frames.shape[1:]), np.uint8)
    decompress_frames(PackedFrames(spread, starts, packed.lengths), out[::2])
    np.testing.assert_array_equal(out[::2], frames)
    assert not out[1::2].any()


def test_no_unrolls_is_nothing_to_do():
    frames = np.zeros((0, 5, 84, 84), np.uint8)
    packed = compress_frames(frames)
    assert len(packed.starts) == 0
    decompress_frames(packed, frames)


def test_frames_that_are_not_contiguous_are_compressed_as_they_read():
    frames = screens(num_frames=10)[:, ::2]
    out = np.empty(frames.shape, np.uint8)
    decompress_frames(compress_frames(frames), out)
    np.testing.assert_array_equal(out, frames)


@pytest.mark.parametrize("bit", [1, 16, 128])
def test_every_flipped_bit_is_noticed(bit):
    frames = screens(num_unrolls=2, num_frames=2, frame_shape=(24, 24))
    packed = compress_frames(frames)
    for position in range(int(packed.starts[1]), packed.payload.size):
        payload = packed.payload.copy()
        payload[position] ^= bit
        with pytest.raises(ValueError, match="unroll 1 is corrupt"):
            decompress_frames(PackedFrames(payload, packed.starts, packed.lengths), np.empty_like(frames))


def test_bytes_that_are_not_zstd_are_named():
    for content in (bytes(range(40)), zstandard.compress(bytes(3 * 7056))[:-3] + b"abc"):
        payload = np.frombuffer(struct.pack("<I", zlib.crc32(content)) + content, np.uint8)
        packed = PackedFrames(payload, np.array([0]), np.array([payload.size]))
        with pytest.raises(ValueError, match="unroll 0"):
            decompress_frames(packed, np.empty((1, 3, 84, 84), np.uint8))


def test_cut_payloads_are_noticed():
    frames = screens()
    packed = compress_frames(frames)
    out = np.empty_like(frames)
    for cut in (1, 4, 10, int(packed.lengths[2]) - 1, int(packed.lengths[2])):
        lengths = packed.lengths - np.array([0, 0, cut])
        with pytest.raises(ValueError, match="unroll 2"):
            decompress_frames(PackedFrames(packed.payload, packed.starts, lengths), out)


@pytest.mark.parametrize("num_frames", [4, 6])
def test_another_number_of_frames_is_named(num_frames):
    packed = compress_frames(screens(num_frames=5))
    with pytest.raises(ValueError, match=f"unroll 0 must hold {num_frames * 7056} bytes of frames, got {5 * 7056}"):
        decompress_frames(packed, np.empty((3, num_frames, 84, 84), np.uint8))


def test_another_number_of_unrolls_is_named():
    with pytest.raises(ValueError, match="room for 3 unrolls, got 2"):
        decompress_frames(compress_frames(screens()), np.empty((2, 5, 84, 84), np.uint8))


def test_threads_do_not_disturb_each_other():
    failures = []

    def work(seed):
        frames = screens(seed=seed)
        out = np.empty_like(frames)
        for _ in range(20):
            decompress_frames(compress_frames(frames), out)
            if not np.array_equal(out, frames):
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
