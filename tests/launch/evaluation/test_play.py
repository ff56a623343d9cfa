"""Playing in a window: pictures, returns, and what ends it."""

import os
import subprocess
import sys

import numpy as np
import pygame
import pytest

from laser.environments.base import Transition
from launch.__main__ import main
from launch.errors import LaunchError
from launch.evaluation.play import Window, WindowClosedError


class Pictures:
    """An environment that shows one color after the other."""

    def __init__(self):
        self.num_drawn = 0

    def render(self):
        self.num_drawn += 1
        return np.full((4, 6, 3), 10 * self.num_drawn, np.uint8)


def step(reward, terminated=False, ignored=False):
    one = {name: np.array([value]) for name, value in (("terminated", terminated), ("ignored", ignored))}
    rewards, truncated = np.array([reward], np.float32), np.array([False])
    return Transition(np.array([0]), {}, rewards, one["terminated"], truncated, one["ignored"])


@pytest.fixture
def window(monkeypatch):
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = Window("title", fps=1000.0)
    yield window
    window.close()


def test_each_step_is_drawn_enlarged_by_a_whole_number(window):
    environment = Pictures()
    for _ in range(2):
        window.look(environment, step(1.0))
        screen = pygame.display.get_surface()
        assert screen.get_size() == (720, 480)
        shown = {tuple(screen.get_at(place))[:3] for place in ((0, 0), (719, 479), (300, 200))}
        assert shown == {(10 * environment.num_drawn,) * 3}


def test_each_episode_is_told_with_its_return(window, capsys):
    environment = Pictures()
    for part in (step(1.5), step(2.0, terminated=True), step(0.0, ignored=True), step(-1.0, terminated=True)):
        window.look(environment, part)
    assert window.returns == [3.5, -1.0]
    assert capsys.readouterr().out == "episode 1: return 3.5 in 2 env steps\nepisode 2: return -1.0 in 1 env steps\n"


def test_without_a_display_the_other_ways_are_named(monkeypatch):
    for name in ("SDL_VIDEODRIVER", "DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    with pytest.raises(LaunchError, match="display: there is none; laser eval RUN_DIR --video"):
        Window("title", fps=1.0)


@pytest.mark.slow
def test_an_agent_plays_until_the_window_is_closed(tmp_path):
    run = str(tmp_path / "run")
    assert main(["train", "cartpole", "--steps", "300", "--run-dir", run, "--quiet"]) == 0
    command = [sys.executable, "-m", "launch", "play", run, "--fps", "1000"]
    environment = {**os.environ, "SDL_VIDEODRIVER": "dummy"}
    played = subprocess.run(
        [*command, "--episodes", "2"], env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert played.returncode == 0, played.stderr
    lines = played.stdout.splitlines()
    assert [line.partition(":")[0] for line in lines] == ["episode 1", "episode 2"]


def test_closing_the_window_ends_the_game(window):
    pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=pygame.K_ESCAPE))
    with pytest.raises(WindowClosedError):
        window.look(Pictures(), step(1.0))
