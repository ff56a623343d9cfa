"""`laser play`: an agent plays in a window."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from actors.evaluator import Evaluator
from laser.config import ConfigError, Problem, raise_problems
from laser.environments import EnvironmentFailedError, task_ids
from laser.environments.base import Transition, VectorEnvironment
from laser.packages import find_missing
from launch.errors import LaunchError
from launch.evaluation.evaluate import check_spaces, read_agent
from launch.evaluation.options import PlayOptions
from launch.records.trust import remember, trust_run

_LEAST_SIDE = 480
_NO_DISPLAY = "there is none", "laser eval RUN_DIR --video films an episode, and laser dashboard plays in a browser"


def play(run_dir: Path, options: PlayOptions) -> list[float]:
    """Let a run's agent play in a window, and return the return of each episode that has ended.

    Raises:
        NothingToResumeError: there is no run or no valid checkpoint.
        ConfigError: the environment cannot be drawn or has other spaces, or pygame is not installed.
        UntrustedError: the run names code that this user has not named before, and `options.trust` is not set.
        LaunchError: there is no display, or the environment failed.
    """
    raise_problems(list(find_missing("play", ["pygame-ce"])))
    remember({"env": options.env})
    if options.trust:
        trust_run(run_dir)
    agent = read_agent(run_dir, options.checkpoint)
    env = task_ids(options.env or agent.config.env)[0]
    protocol = agent.config.environment.for_evaluation()
    if options.env:
        protocol = replace(protocol, kwargs={})
        check_spaces(agent, env, protocol)
    evaluator = Evaluator(
        lambda: agent.make_environment(env, 1, protocol),
        lambda: agent.make_policy(options.seed, "cpu", options.greedy),
        options.seed,
    )
    window = Window(f"{env} after {agent.checkpoint.step:,} env steps", options.fps, options.quiet)
    try:
        evaluator.evaluate(agent.parameters(), options.episodes, window.look)
    except WindowClosedError:
        pass  # the user has seen enough
    except EnvironmentFailedError as error:
        raise LaunchError("env", f"{env}: {error}", "fix the environment") from error
    finally:
        evaluator.close()
        window.close()
    return window.returns


class WindowClosedError(Exception):
    """The user closed the window."""


class Window:
    """A window that shows environment 0 after each of its steps. Used from the main thread.

    Args:
        title: of the window.
        fps: env steps per second.
        quiet: do not print the return of each episode.

    Raises:
        LaunchError: there is no display.
    """

    def __init__(self, title: str, fps: float, quiet: bool = False):
        import pygame

        self._pygame: Any = pygame
        try:
            pygame.display.init()
        except pygame.error as error:
            raise LaunchError("display", *_NO_DISPLAY) from error
        # Without a display SDL draws into memory, unless the user asked for that.
        if pygame.display.get_driver() in ("offscreen", "dummy") and "SDL_VIDEODRIVER" not in os.environ:
            raise LaunchError("display", *_NO_DISPLAY)
        pygame.display.set_caption(title)
        self._clock = pygame.time.Clock()
        self._fps, self._quiet = fps, quiet
        self._screen: Any = None
        self._steps, self._return = 0, 0.0
        self.returns: list[float] = []

    def look(self, environment: VectorEnvironment, part: Transition) -> None:
        """Draw the environment after a step; print the return of an episode that has ended.

        Raises:
            ConfigError: the environment returns no picture.
            WindowClosedError: the user closed the window or pressed Escape or Q.
        """
        picture = environment.render()
        if picture is None:
            raise ConfigError([Problem("play", "the environment returns no picture", "choose another --env")])
        self._draw(picture)
        self._steps += int(not part.ignored[0])
        self._return += float(part.rewards[0])
        if part.terminated[0] or part.truncated[0]:
            self.returns.append(self._return)
            if not self._quiet:
                print(
                    f"episode {len(self.returns)}: return {self._return:,.1f} in {self._steps:,} env steps", flush=True
                )
            self._steps, self._return = 0, 0.0
        self._clock.tick(self._fps)

    def close(self) -> None:
        """Close the window."""
        self._pygame.display.quit()

    def _draw(self, picture: np.ndarray) -> None:
        pygame = self._pygame
        height, width = picture.shape[:2]
        factor = max(1, _LEAST_SIDE // min(height, width))
        size = (width * factor, height * factor)
        if self._screen is None or self._screen.get_size() != size:
            self._screen = pygame.display.set_mode(size)
        image = pygame.image.frombuffer(np.ascontiguousarray(picture, np.uint8).tobytes(), (width, height), "RGB")
        self._screen.blit(pygame.transform.scale(image, size), (0, 0))
        pygame.display.flip()
        for event in pygame.event.get():
            asks = event.type == pygame.KEYDOWN and event.key in (pygame.K_ESCAPE, pygame.K_q)
            if asks or event.type == pygame.QUIT:
                raise WindowClosedError
