"""A film is what `render` showed, until the first episode of environment 0 is over."""

import subprocess
from pathlib import Path

import imageio_ffmpeg
import numpy as np
import pytest

from actors import film as film_module
from actors.film import Film
from laser.environments.base import Transition

FFMPEG = imageio_ffmpeg.get_ffmpeg_exe()


class Drawn:
    """Draws its number of pictures so far as brightness."""

    def __init__(self, shape=(40, 60, 3), nothing_after=1000):
        self.shape, self.nothing_after, self.num_drawn = shape, nothing_after, 0

    def render(self):
        self.num_drawn += 1
        return None if self.num_drawn > self.nothing_after else np.full(self.shape, 20 * self.num_drawn, np.uint8)


def step(who=(0, 1), terminated=()):
    who = np.array(who)
    flags = np.isin(who, terminated)
    return Transition(
        who, {}, np.zeros(len(who), np.float32), flags, ~np.ones(len(who), bool), np.zeros(len(who), bool)
    )


def pictures(video: bytes, tmp_path: Path, width: int, height: int):
    path = tmp_path / "film.mp4"
    path.write_bytes(video)
    command = [FFMPEG, "-loglevel", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "gray", "-"]
    decoded = subprocess.run(command, capture_output=True, check=True).stdout
    return np.frombuffer(decoded, np.uint8).reshape(-1, height, width)


def test_the_first_episode_of_the_first_environment_is_filmed(tmp_path):
    environment = Drawn()
    with Film() as film:
        film.look(environment, step())
        film.look(environment, step(who=(1,), terminated=(1,)))  # not ours: no picture
        film.look(environment, step(terminated=(1,)))
        film.look(environment, step(terminated=(0,)))
        film.look(environment, step())
        video = film.take()
    assert environment.num_drawn == 3
    frames = pictures(video, tmp_path, 420, 280)  # enlarged 7 times, so that the smaller side is at least 256
    assert [round(frame.mean() / 20) for frame in frames] == [1, 2, 3]


def test_browsers_can_play_it(tmp_path):
    with Film() as film:
        film.look(Drawn((301, 421, 3)), step(terminated=(0,)))
        (tmp_path / "odd.mp4").write_bytes(film.take())
    words = subprocess.run(
        [FFMPEG, "-i", str(tmp_path / "odd.mp4")], capture_output=True, text=True, check=False
    ).stderr
    assert "Video: h264" in words
    assert "yuv420p" in words
    assert "422x302" in words


def test_what_cannot_be_drawn_has_no_video():
    with Film() as film:
        film.look(Drawn(nothing_after=0), step())
        assert film.take() is None


@pytest.mark.parametrize(("nothing_after", "drawing_s", "num"), [(1000, 60.0, 4), (2, 60.0, 2), (1000, 0.0, 1)])
def test_a_long_broken_or_slow_film_ends_early(monkeypatch, tmp_path, nothing_after, drawing_s, num):
    monkeypatch.setattr(film_module, "MAX_FRAMES", 4)
    monkeypatch.setattr(film_module, "MAX_DRAWING_S", drawing_s)
    environment = Drawn(nothing_after=nothing_after)
    with Film() as film:
        for _ in range(10):
            film.look(environment, step())
        assert len(pictures(film.take(), tmp_path, 420, 280)) == num


def test_an_encoder_that_dies_costs_the_film_and_nothing_else():
    with Film() as film:
        film.look(Drawn(), step())
        film._encoder.kill()
        film._encoder.wait()
        for _ in range(3):
            film.look(Drawn(), step())
        assert film.take() is None


@pytest.mark.parametrize("error", [OSError("not executable"), RuntimeError("no ffmpeg exe could be found")])
def test_so_does_one_that_cannot_be_started(monkeypatch, error):
    def start(*arguments):
        raise error

    monkeypatch.setattr(film_module, "_start_encoder", start)
    with Film() as film:
        film.look(Drawn(), step())
        assert film.take() is None
