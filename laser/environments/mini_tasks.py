"""Rules of the small tasks: start of an episode, step and observation, for N environments side by side.

State is a dict of arrays with one row per environment; every episode draws all of its random numbers when it begins.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from laser.specs import FramesSpec

State = dict[str, np.ndarray]


class Task(ABC):
    """Rules of one task; the caller holds the state of its episodes."""

    num_actions: int
    num_features: int  # D, size of an observation
    max_steps: int  # an episode is truncated after so many env steps
    frames: FramesSpec | None = None  # spec of the pictures, for tasks observed as pictures

    @abstractmethod
    def begin(self, generator: np.random.Generator, num: int) -> State:
        """Return the state of `num` new episodes."""

    @abstractmethod
    def step(self, state: State, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Advance the state in place by actions int64 [N]; return rewards float32 [N] and terminated bool [N]."""

    @abstractmethod
    def observe(self, state: State) -> np.ndarray:
        """Return observations float32 [N, D], or pictures uint8 [N, *frame_shape], in memory of their own."""


class Catch(Task):
    """A ball falls through 10 rows of 5 columns; the paddle below moves left, stays or moves right.

    With one ball the reward at the end is 1 or -1 (bsuite's Catch). With `num_balls` the reward is 1 if all balls were
    caught; the first missed ball ends the episode with 0. The observation then holds the number of balls caught.
    """

    num_rows, num_columns = 10, 5
    num_actions = 3

    def __init__(self, num_balls: int | None = None):
        self._sparse = num_balls is not None
        self._num_balls = num_balls or 1
        self._board = self.num_rows * self.num_columns
        self.num_features = self._board + (self._num_balls if self._sparse else 0)
        self.max_steps = self._num_balls * (self.num_rows - 1)

    def begin(self, generator: np.random.Generator, num: int) -> State:
        """Put the ball in a random column of the first row and the paddle in the middle."""
        return {
            "columns": generator.integers(0, self.num_columns, (num, self._num_balls)),
            "ball": np.zeros(num, np.int64),
            "row": np.zeros(num, np.int64),
            "paddle": np.full(num, self.num_columns // 2),
        }

    def step(self, state: State, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Move the paddle, then the ball."""
        everyone = np.arange(len(actions))
        np.clip(state["paddle"] + actions - 1, 0, self.num_columns - 1, out=state["paddle"])
        state["row"] += 1
        landed = state["row"] == self.num_rows - 1
        caught = landed & (state["columns"][everyone, state["ball"]] == state["paddle"])
        last = state["ball"] == self._num_balls - 1
        terminated = landed & (last | ~caught)
        rewards = (caught & last).astype(np.float32)
        if not self._sparse:
            rewards -= landed & ~caught
        another = landed & ~terminated
        state["ball"] += another
        state["row"][another] = 0
        return rewards, terminated

    def observe(self, state: State) -> np.ndarray:
        """Return the board row by row, with ones at ball and paddle; then the number of balls caught, one-hot."""
        num = len(state["row"])
        everyone = np.arange(num)
        features = np.zeros((num, self.num_features), np.float32)
        features[everyone, state["row"] * self.num_columns + state["columns"][everyone, state["ball"]]] = 1.0
        features[everyone, (self.num_rows - 1) * self.num_columns + state["paddle"]] = 1.0
        if self._sparse:
            features[everyone, self._board + state["ball"]] = 1.0
        return features


class DeepSea(Task):
    """A diver sinks through an N x N grid, one row per step, and must go right every time to find the treasure.

    Going right costs 0.01/N; going right in the last cell pays 1. The action that means right differs from cell to
    cell. It is fixed for each N, so that every agent and every run has the same task. (Osband et al., bsuite.)
    """

    num_actions = 2

    def __init__(self, size: int):
        self._size = size
        self.num_features = size * size
        self.max_steps = size
        # RandomState's numbers never change between NumPy versions, Generator's may; experience must stay comparable.
        self._right = np.random.RandomState(size).randint(0, 2, (size, size))

    def begin(self, generator: np.random.Generator, num: int) -> State:
        """Begin in the upper left corner; nothing is random."""
        return {"row": np.zeros(num, np.int64), "column": np.zeros(num, np.int64)}

    def step(self, state: State, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Move right or left, and down."""
        row, column = state["row"], state["column"]
        # An episode that is over has left the grid; the next `begin` undoes the effect of its ignored action.
        right = actions == self._right[np.minimum(row, self._size - 1), column]
        found = right & (column == self._size - 1)
        rewards = found.astype(np.float32) - right * np.float32(0.01 / self._size)
        np.clip(column + np.where(right, 1, -1), 0, self._size - 1, out=column)
        row += 1
        return rewards.astype(np.float32), row >= self._size

    def observe(self, state: State) -> np.ndarray:
        """Return the cell, one-hot; all zeros below the grid."""
        num = len(state["row"])
        features = np.zeros((num, self.num_features), np.float32)
        inside = np.flatnonzero(state["row"] < self._size)
        features[inside, state["row"][inside] * self._size + state["column"][inside]] = 1.0
        return features


class TMaze(Task):
    """A corridor ends in a junction; only the first step shows which turn pays.

    Actions are forward, left, right. The turn that was shown pays 1, the other one -1. Walking into a wall costs 0.01
    and does not move the agent. No policy without memory has an expected return above 0. (After Bakker 2001.)
    """

    num_actions = 3
    num_features = 4

    def __init__(self, size: int):
        self._size = size
        self.max_steps = 5 * size

    def begin(self, generator: np.random.Generator, num: int) -> State:
        """Begin at the end of the corridor, with a random cue in the first observation."""
        return {
            "cue": generator.integers(0, 2, num),
            "place": np.zeros(num, np.int64),
            "seen": np.zeros(num, bool),
        }

    def step(self, state: State, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Walk or turn."""
        at_junction = state["place"] == self._size
        forward = actions == 0
        turned = at_junction & ~forward
        rewards = np.zeros(len(actions), np.float32)
        rewards[forward == at_junction] = -0.01  # forward at the junction, or sideways in the corridor
        rewards[turned] = np.where(actions - 1 == state["cue"], 1.0, -1.0)[turned]
        state["place"] += forward & ~at_junction
        state["seen"][:] = True
        return rewards, turned

    def observe(self, state: State) -> np.ndarray:
        """Return [cue is left, cue is right, in the corridor, at the junction]."""
        at_junction = state["place"] == self._size
        shown = ~state["seen"]
        columns = [shown & (state["cue"] == 0), shown & (state["cue"] == 1), ~at_junction, at_junction]
        return np.stack(columns, axis=1).astype(np.float32)


class RepeatPrevious(Task):
    """Each of 24 steps shows one of four cards; from the `delay`-th on, name the card shown `delay` steps before.

    All answers count the same: the return is 1 if all are right and -1 if all are wrong. (After POPGym's task of that
    name, Morad et al. 2023.)
    """

    num_cards = num_actions = num_features = 4
    max_steps = 24

    def __init__(self, delay: int):
        self._delay = delay

    def begin(self, generator: np.random.Generator, num: int) -> State:
        """Draw all cards, including one to show after the episode's end."""
        return {
            "cards": generator.integers(0, self.num_cards, (num, self.max_steps + 1)),
            "time": np.zeros(num, np.int64),
        }

    def step(self, state: State, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Reward the answer, then show the next card."""
        asked = state["time"] - self._delay
        right = state["cards"][np.arange(len(actions)), np.maximum(asked, 0)] == actions
        rewards = np.where(right, 1.0, -1.0) / (self.max_steps - self._delay)
        # An episode that is over stays at its end: the next `begin` undoes the effect of its ignored action.
        state["time"] = np.minimum(state["time"] + 1, self.max_steps)
        return np.where(asked >= 0, rewards, 0.0).astype(np.float32), state["time"] == self.max_steps

    def observe(self, state: State) -> np.ndarray:
        """Return the card shown, one-hot."""
        shown = state["cards"][np.arange(len(state["time"])), state["time"]]
        return np.eye(self.num_cards, dtype=np.float32)[shown]


class KeyDoor(Task):
    """Two N x N rooms with a door between them: fetch the key in the left one, reach the far corner of the right one.

    Actions are up, right, down, left; only the goal pays, 1. Agent and key begin at random places in the left room. The
    door is in the middle of the wall, and the agent can pass it only with the key.
    """

    num_actions = 4
    _moves = np.array([[-1, 0], [0, 1], [1, 0], [0, -1]])

    def __init__(self, size: int):
        self._size = size
        self._width = 2 * size + 1
        self.num_features = size * self._width + size * size + 1
        self.max_steps = 12 * size

    def begin(self, generator: np.random.Generator, num: int) -> State:
        """Put agent and key at two different random cells of the left room."""
        cells = self._size**2
        agent = generator.integers(0, cells, num)
        key = (agent + generator.integers(1, cells, num)) % cells
        return {
            "row": agent // self._size,
            "column": agent % self._size,
            "key": key,
            "holds_key": np.zeros(num, bool),
        }

    def step(self, state: State, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Walk, and pick up the key where it lies."""
        size = self._size
        row = np.clip(state["row"] + self._moves[actions, 0], 0, size - 1)
        column = np.clip(state["column"] + self._moves[actions, 1], 0, self._width - 1)
        blocked = (column == size) & ~((row == size // 2) & state["holds_key"])
        state["row"] = np.where(blocked, state["row"], row)
        state["column"] = np.where(blocked, state["column"], column)
        state["holds_key"] |= (state["column"] < size) & (state["row"] * size + state["column"] == state["key"])
        at_goal = (state["row"] == size - 1) & (state["column"] == self._width - 1)
        return at_goal.astype(np.float32), at_goal

    def observe(self, state: State) -> np.ndarray:
        """Return the agent's cell and the key's cell, one-hot, and whether the key is held; a held key has no cell."""
        num = len(state["row"])
        everyone = np.arange(num)
        features = np.zeros((num, self.num_features), np.float32)
        features[everyone, state["row"] * self._width + state["column"]] = 1.0
        lies = np.flatnonzero(~state["holds_key"])
        features[lies, self._size * self._width + state["key"][lies]] = 1.0
        features[:, -1] = state["holds_key"]
        return features
