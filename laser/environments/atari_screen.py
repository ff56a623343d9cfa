"""The coloured screen of an Atari game, from a second emulator that plays the same game."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

SCREEN = (210, 160)
"""Height and width of the console's picture."""
_MOST_WAITING = 64
"""Steps after which a game that nobody looks at is no longer followed: about four seconds of play."""


class AtariScreen:
    """Pictures of one game in colour, drawn by a second emulator where somebody looks. Used from one thread.

    ale-py's vector gives one picture per step: the grey one, of 84x84 points, that the agent sees. An emulator with the
    same seed and the same actions repeats the game, sticky actions included, so this one follows behind: steps wait
    until the next `picture`. A game that is not looked at costs a list of few actions.

    Args:
        make: makes the second emulator, a vector of one game with pictures uint8 [1, 1, height, width, 3].
    """

    def __init__(self, make: Callable[[], Any]):
        self._make = make
        self._emulator: Any = None
        self._seed: int | None = None
        self._is_followed = False
        self._is_begun = False
        self._waiting: list[tuple[int, float]] = []
        self._screen = np.zeros((*SCREEN, 3), np.uint8)

    def begin(self, seed: int | None) -> None:
        """Follow the game from its reset; one without a seed cannot be repeated."""
        self._seed, self._is_followed, self._is_begun = seed, seed is not None, False
        self._waiting.clear()

    def follow(self, action: int, reward: float) -> None:
        """Add a step of the game."""
        if self._is_followed:
            self._waiting.append((action, reward))
            if len(self._waiting) > _MOST_WAITING:
                self._lose()

    def picture(self) -> np.ndarray | None:
        """Return the screen after the newest step, uint8 [210, 160, 3]; None of a game that is not followed.

        A game whose rewards differ from the second emulator's is followed no longer: its pictures would be false.
        """
        if not self._is_followed:
            return None
        if self._emulator is None:
            self._emulator = self._make()
        if not self._is_begun:
            screens, _ = self._emulator.reset(seed=np.array([self._seed]))
            self._screen, self._is_begun = screens[0, -1], True
        for action, reward in self._waiting:
            screens, rewards, *_ = self._emulator.step(np.array([action]))
            if float(rewards[0]) != reward:
                self._lose()
                return None
            self._screen = screens[0, -1]
        self._waiting.clear()
        return self._screen.copy()

    def close(self) -> None:
        """End the second emulator."""
        if self._emulator is not None:
            self._emulator.close()

    def _lose(self) -> None:
        self._is_followed = False
        self._waiting.clear()
