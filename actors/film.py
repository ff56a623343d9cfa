"""Filming an episode: pictures of the first environment, encoded while it is played."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Generator
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from laser.environments.base import Transition, VectorEnvironment

FRAMES_PER_S = 30
MAX_FRAMES = 2 * 60 * FRAMES_PER_S
"""Longer episodes are cut: two minutes show how an agent plays."""
_LEAST_SIDE = 256


class Film:
    """Films the first episode of environment 0. `look` fits `Evaluator.evaluate`; used from one thread, with `with`.

    H.264 in an MP4 (yuv420p, the index in front), which browsers play. Small pictures, such as Atari's 84x84, are
    enlarged by whole numbers. Drawing takes no random numbers, so what is played is the same with and without.
    """

    def __init__(self) -> None:
        draw_without_a_display()
        self._directory = tempfile.TemporaryDirectory(prefix="laser-film-")
        self._path = Path(self._directory.name) / "film.mp4"
        self._writer: Generator[None, bytes | None, None] | None = None
        self._shape: tuple[int, ...] = ()
        self._num_frames = 0
        self._is_over = False

    def look(self, environment: VectorEnvironment, part: Transition) -> None:
        """Take a picture after a step, until the episode is over."""
        place = np.flatnonzero(part.environments == 0)
        if self._is_over or not len(place):
            return
        picture = environment.render()
        # One of another size cannot follow; nor is anything known of one that failed.
        if picture is None or (self._shape and picture.shape != self._shape):
            self._is_over = True
            return
        self._add(picture)
        ended = bool((part.terminated | part.truncated)[place].any())
        self._is_over = ended or self._num_frames >= MAX_FRAMES

    def take(self) -> bytes | None:
        """Return the video, or None where nothing could be drawn."""
        if self._writer is None:
            return None
        self._writer.close()
        self._writer = None
        return self._path.read_bytes()

    def close(self) -> None:
        """End the encoder and remove its file."""
        if self._writer is not None:
            self._writer.close()
        self._directory.cleanup()

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, picture: np.ndarray) -> None:
        if self._writer is None:
            self._shape = picture.shape
            self._writer = _open_writer(self._path, self._shape)
        factor = _factor(self._shape)
        if factor > 1:
            picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
        self._writer.send(np.ascontiguousarray(picture, np.uint8).tobytes())
        self._num_frames += 1


def draw_without_a_display() -> None:
    """Let pygame draw into memory where there is no display; it would complain on standard error."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _open_writer(path: Path, shape: tuple[int, ...]) -> Any:
    import imageio_ffmpeg  # brings its own ffmpeg

    factor = _factor(shape)
    writer = imageio_ffmpeg.write_frames(
        str(path),
        (shape[1] * factor, shape[0] * factor),
        fps=FRAMES_PER_S,
        codec="libx264",
        macro_block_size=2,  # odd sides are scaled: yuv420p halves them
        ffmpeg_log_level="error",
        output_params=["-movflags", "+faststart", "-threads", "1"],
    )
    writer.send(None)
    return writer


def _factor(shape: tuple[int, ...]) -> int:
    return max(1, -(-_LEAST_SIDE // min(shape[:2])))
