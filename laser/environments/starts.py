"""Starts of Atari games: actions that somebody played, behind which episodes begin, such as human starts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium

from laser.environments.atari import NUM_ACTIONS, AtariGame


def read_starts(path: Path, game: str) -> list[list[int]]:
    """Return the starts of a game: the actions of each, one per env step, as ALE numbers them (0 to 17).

    The file holds a JSON object: a list of starts by id, such as `{"ALE/Pong-v5": [[0, 0, 3, 3], [1, 4]]}`.

    Raises:
        ValueError: the file cannot be read, or has no starts of the game; the message says what to do.
    """
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ValueError(f"{path} cannot be read: {error}; name a file of JSON") from error
    starts = content.get(game) if isinstance(content, dict) else None
    if not isinstance(starts, list) or not starts:
        raise ValueError(f'{path} has no starts of {game}; write {{"{game}": [[ACTION, ...], ...]}}')
    for number, actions in enumerate(starts):
        if not isinstance(actions, list) or not all(
            type(action) is int and 0 <= action < NUM_ACTIONS for action in actions
        ):
            raise ValueError(f"{path}: start {number} of {game} is no list of ALE's actions, 0 to {NUM_ACTIONS - 1}")
    return starts


class BehindStart(gymnasium.Wrapper[Any, Any, Any, Any]):
    """An Atari game whose episodes begin behind one of its starts, drawn with the environment's seed.

    The rewards and ends of a start do not count; its frames count towards `max_episode_frames`. The game must repeat,
    so without sticky actions and no-ops.

    Args:
        env: an `AtariGame`.
        path: file of starts.

    Raises:
        ValueError: the environment is no Atari game, the file cannot be used, or the game lacks an action of a start.

    Source:
        Nair et al. 2015, Massively Parallel Methods for Deep Reinforcement Learning (human starts).
    """

    def __init__(self, env: gymnasium.Env[Any, Any], path: str):
        super().__init__(env)
        game = env.unwrapped
        if not isinstance(game, AtariGame):
            raise ValueError(f"must be the first wrapper of an Atari game, got {env}")
        self._starts = []
        for number, actions in enumerate(read_starts(Path(path), game.id)):
            unknown = sorted(set(actions) - set(game.actions_by_number))
            if unknown:
                wrong = f"{path}: start {number} of {game.id} has the action {unknown[0]}, which the agent's game lacks"
                raise ValueError(f"{wrong}; its actions are {', '.join(map(str, game.actions_by_number))}")
            self._starts.append([game.actions_by_number[action] for action in actions])

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode behind a start."""
        observation, info = self.env.reset(seed=seed, options=options)
        number = int(self.np_random.integers(len(self._starts)))
        for action in self._starts[number]:
            observation, _, terminated, truncated, info = self.env.step(action)
            if terminated or truncated:
                raise ValueError(f"start {number} ends the game; leave it out")
        return observation, info
