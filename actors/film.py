"""Videos of episodes: pictures of the first environment, encoded while it is played."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import TracebackType

import numpy as np

from laser.environments.base import Transition, VectorEnvironment

FRAMES_PER_S = 30
MAX_FRAMES = 2 * 60 * FRAMES_PER_S
"""Longer episodes are cut off: two minutes show how an agent plays."""
MAX_DRAWING_S = 60.0
"""Limit of the drawing time of a film: MuJoCo without a GPU takes up to 0.4 s per picture."""
_LEAST_SIDE = 256
_ENCODING_DEADLINE_S = 60.0


class Film:
    """Films the first episode of environment 0. Pass `look` to `Evaluator.evaluate`. Used from one thread, in a `with`.

    The video is H.264 in an MP4 (yuv420p, the index in front), which browsers play. Small pictures, such as Atari's
    84x84, are enlarged by whole numbers. Drawing uses no random numbers, so filming does not change the episodes.
    """

    def __init__(self) -> None:
        draw_without_a_display()
        self._directory = tempfile.TemporaryDirectory(prefix="laser-film-")
        self._path = Path(self._directory.name) / "film.mp4"
        self._encoder: subprocess.Popen[bytes] | None = None
        self._shape: tuple[int, ...] = ()
        self._num_frames = 0
        self._drawing_s = 0.0
        self._is_over = False

    def look(self, environment: VectorEnvironment, part: Transition) -> None:
        """Take a picture after a step, until the episode is over."""
        place = np.flatnonzero(part.environments == 0)
        if self._is_over or not len(place):
            return
        began = time.monotonic()
        picture = environment.render()
        self._drawing_s += time.monotonic() - began
        # The video cannot hold a picture of another size, or one that failed.
        if picture is None or (self._shape and picture.shape != self._shape):
            self._is_over = True
            return
        self._add(picture)
        ended = bool((part.terminated | part.truncated)[place].any())
        self._is_over |= ended or self._num_frames >= MAX_FRAMES or self._drawing_s > MAX_DRAWING_S

    def take(self) -> bytes | None:
        """Return the video, or None where nothing could be drawn or encoded."""
        if self._encoder is None:
            return None
        is_whole = self._end_encoder()
        return self._path.read_bytes() if is_whole else None

    def close(self) -> None:
        """End the encoder and remove its file."""
        self._end_encoder()
        self._directory.cleanup()

    def __enter__(self) -> Film:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _add(self, picture: np.ndarray) -> None:
        factor = max(1, -(-_LEAST_SIDE // min(picture.shape[:2])))
        if factor > 1:
            picture = picture.repeat(factor, axis=0).repeat(factor, axis=1)
        try:
            if self._encoder is None:
                height, width = picture.shape[:2]
                self._encoder = _start_encoder(self._path, width, height)
            assert self._encoder.stdin is not None
            self._encoder.stdin.write(np.ascontiguousarray(picture, np.uint8).tobytes())
        except (OSError, RuntimeError):  # no encoder, or a full disk: neither may end an evaluation
            self._is_over = True
        self._num_frames += 1

    def _end_encoder(self) -> bool:
        """Let the encoder finish; return whether it succeeded."""
        encoder, self._encoder = self._encoder, None
        if encoder is None:
            return False
        try:
            encoder.communicate(timeout=_ENCODING_DEADLINE_S)
        except (OSError, subprocess.TimeoutExpired):
            encoder.kill()
            encoder.wait()
        return encoder.returncode == 0


def draw_without_a_display() -> None:
    """Let pygame draw into memory if there is no display; otherwise it would print warnings on standard error."""
    if sys.platform == "linux" and not os.environ.get("DISPLAY") and not os.environ.get("WAYLAND_DISPLAY"):
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")


def _start_encoder(path: Path, width: int, height: int) -> subprocess.Popen[bytes]:
    import imageio_ffmpeg  # includes an ffmpeg

    source = ["-f", "rawvideo", "-pix_fmt", "rgb24", "-s", f"{width}x{height}", "-r", str(FRAMES_PER_S), "-i", "-"]
    # yuv420p halves both sides, so height and width must be even.
    form = ["-vf", "scale=ceil(iw/2)*2:ceil(ih/2)*2", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-threads", "1"]
    return subprocess.Popen(
        [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "quiet", *source, *form, "-movflags", "+faststart", path],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
