"""The small tasks against rules written out for one episode, and their known returns by enumeration of those rules."""

import time
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, describe_environment, make_environment
from laser.environments.mini import RETURNS, MiniEnvironments, make_task
from laser.environments.mini_tasks import DeepSea

CONFIG = EnvironmentConfig()


class CatchRules:
    """State: (balls caught, row of the ball, its column, paddle)."""

    num_actions = 3

    def __init__(self, num_balls):
        self.num_balls, self.limit = num_balls, 9 * (num_balls or 1)

    def begins(self):
        return {(0, 0, column, 2): Fraction(1, 5) for column in range(5)}

    def step(self, state, action):
        """Return [(probability, next state, reward, over)]."""
        caught, row, column, paddle = state
        paddle = min(max(paddle + (-1, 0, 1)[action], 0), 4)
        row += 1
        if row < 9:
            return [(1, (caught, row, column, paddle), 0, False)]
        if column != paddle:
            return [(1, (caught, row, column, paddle), 0 if self.num_balls else -1, True)]
        if caught + 1 == (self.num_balls or 1):
            return [(1, (caught, row, column, paddle), 1, True)]
        return [(Fraction(1, 5), (caught + 1, 0, other, paddle), 0, False) for other in range(5)]

    def features(self, state):
        caught, row, column, paddle = state
        board = np.zeros((10, 5))
        board[row, column] = board[9, paddle] = 1
        return [*board.ravel(), *[float(caught == number) for number in range(self.num_balls or 0)]]


class PixelCatchRules(CatchRules):
    def features(self, state):
        return 255.0 * np.reshape(super().features(state), (1, 10, 5))


class DeepSeaRules:
    """State: (row, column)."""

    num_actions = 2

    def __init__(self, size):
        self.size = self.limit = size
        self.right = DeepSea(size)._right

    def begins(self):
        return {(0, 0): Fraction(1)}

    def step(self, state, action):
        row, column = state
        reward = Fraction(0)
        if action == self.right[row][column]:
            reward -= Fraction(1, 100 * self.size)
            if column == self.size - 1:
                reward += 1
            column = min(column + 1, self.size - 1)
        else:
            column = max(column - 1, 0)
        return [(1, (row + 1, column), reward, row + 1 == self.size)]

    def features(self, state):
        cells = np.zeros((self.size + 1, self.size))
        cells[state] = 1
        return cells[:-1].ravel()


class TMazeRules:
    """State: (cue, place, whether the cue was seen)."""

    num_actions = 3

    def __init__(self, size):
        self.size, self.limit = size, 5 * size

    def begins(self):
        return {("left", 0, False): Fraction(1, 2), ("right", 0, False): Fraction(1, 2)}

    def step(self, state, action):
        cue, place, _ = state
        direction = ("forward", "left", "right")[action]
        if place < self.size:
            if direction == "forward":
                return [(1, (cue, place + 1, True), 0, False)]
            return [(1, (cue, place, True), Fraction(-1, 100), False)]
        if direction == "forward":
            return [(1, (cue, place, True), Fraction(-1, 100), False)]
        return [(1, (cue, place, True), 1 if direction == cue else -1, True)]

    def features(self, state):
        cue, place, seen = state
        return [
            float(not seen and cue == "left"),
            float(not seen and cue == "right"),
            float(place < self.size),
            float(place == self.size),
        ]


class KeyDoorRules:
    """State: (row, column, place of the key or None once it is held)."""

    num_actions = 4

    def __init__(self, size):
        self.size, self.limit = size, 12 * size

    def begins(self):
        cells = [(row, column) for row in range(self.size) for column in range(self.size)]
        pairs = [(*agent, key) for agent in cells for key in cells if agent != key]
        return {state: Fraction(1, len(pairs)) for state in pairs}

    def step(self, state, action):
        row, column, key = state
        new_row, new_column = [(row - 1, column), (row, column + 1), (row + 1, column), (row, column - 1)][action]
        if not (0 <= new_row < self.size and 0 <= new_column <= 2 * self.size):
            new_row, new_column = row, column
        if new_column == self.size and (new_row != self.size // 2 or key is not None):
            new_row, new_column = row, column
        if key == (new_row, new_column):
            key = None
        at_goal = (new_row, new_column) == (self.size - 1, 2 * self.size)
        return [(1, (new_row, new_column, key), int(at_goal), at_goal)]

    def features(self, state):
        row, column, key = state
        agents, keys = np.zeros((self.size, 2 * self.size + 1)), np.zeros((self.size, self.size))
        agents[row, column] = 1
        if key is not None:
            keys[key] = 1
        return [*agents.ravel(), *keys.ravel(), float(key is None)]


class RepeatPreviousRules:
    """State: (steps taken, cards seen so far, of those that still matter)."""

    num_actions, limit = 4, 24

    def __init__(self, delay):
        self.delay = delay

    def begins(self):
        return {(0, (card,)): Fraction(1, 4) for card in range(4)}

    def step(self, state, action):
        steps, cards = state
        reward = 0
        if steps >= self.delay:
            reward = Fraction(1 if cards[-1 - self.delay] == action else -1, 24 - self.delay)
        kept = cards[-self.delay :]
        return [(Fraction(1, 4), (steps + 1, (*kept, card)), reward, steps + 1 == 24) for card in range(4)]

    def features(self, state):
        return np.eye(4)[state[1][-1]]


RULES = {
    "mini/Catch-v0": CatchRules(None),
    "mini/PixelCatch-v0": PixelCatchRules(None),
    "mini/SparseCatch2-v0": CatchRules(2),
    "mini/SparseCatch3-v0": CatchRules(3),
    "mini/DeepSea8-v0": DeepSeaRules(8),
    "mini/DeepSea12-v0": DeepSeaRules(12),
    "mini/TMaze10-v0": TMazeRules(10),
    "mini/TMaze20-v0": TMazeRules(20),
    "mini/KeyDoor3-v0": KeyDoorRules(3),
    "mini/KeyDoor4-v0": KeyDoorRules(4),
    "mini/RepeatPrevious3-v0": RepeatPreviousRules(3),
}


def random_return(rules):
    """Return what uniformly random actions expect, exactly: probabilities carried forward, step by step."""
    here, expected = {state: float(chance) for state, chance in rules.begins().items()}, 0.0
    for _ in range(rules.limit):
        there = defaultdict(float)
        for state, chance in here.items():
            for action in range(rules.num_actions):
                for share, after, reward, over in rules.step(state, action):
                    weight = chance * float(share) / rules.num_actions
                    expected += weight * float(reward)
                    if not over:
                        there[after] += weight
        here = there
    return expected


def best_return(rules):
    """Return what the best policy expects: values carried backwards over all states that can be reached."""
    layers = [set(rules.begins())]
    for _ in range(rules.limit - 1):
        moves = [move for state in layers[-1] for a in range(rules.num_actions) for move in rules.step(state, a)]
        layers.append({after for _, after, _, over in moves if not over})
    values = defaultdict(float)
    for layer in reversed(layers):
        values = {
            state: max(
                sum(float(share) * (float(reward) + (0 if over else values.get(after, 0.0)))
                    for share, after, reward, over in rules.step(state, action))
                for action in range(rules.num_actions)
            )
            for state in layer
        }  # fmt: skip
    return sum(float(chance) * values[state] for state, chance in rules.begins().items())


def test_every_listed_task_has_rules_here():
    assert set(RULES) == set(RETURNS)


@pytest.mark.parametrize("id", RULES)
def test_the_documented_returns_are_those_of_the_rules(id):
    random, best = RETURNS[id]
    assert random == pytest.approx(random_return(RULES[id]), abs=5e-7)
    assert best == pytest.approx(best_return(RULES[id]), abs=1e-12)


def follow(id, rules, num_steps=400, num_envs=4):
    """Play at random and check every row against the rules; return how many episodes ended in each way."""
    environment = make_environment(id, num_envs, CONFIG)
    generator = np.random.default_rng(1)
    observations = environment.reset(3)["observation"]
    states = [recognised(rules, rules.begins(), row) for row in observations]
    lengths, ends = [0] * num_envs, defaultdict(int)
    for _ in range(num_steps):
        actions = generator.integers(0, rules.num_actions, num_envs)
        actions[0] = 1  # one that gets nowhere, to meet the time limit
        environment.send(actions)
        (part,) = environment.recv()
        for index, row in enumerate(part.observations["observation"]):
            if part.ignored[index]:
                states[index], lengths[index] = recognised(rules, rules.begins(), row), 0
                continue
            moves = rules.step(states[index], int(actions[index]))
            states[index] = recognised(rules, [after for _, after, _, _ in moves], row)
            _, _, reward, over = next(move for move in moves if move[1] == states[index])
            lengths[index] += 1
            assert part.rewards[index] == np.float32(reward)
            assert part.terminated[index] == over
            assert part.truncated[index] == (not over and lengths[index] == rules.limit)
            ends["terminated"] += over
            ends["truncated"] += int(part.truncated[index])
            # What the eye cannot tell apart the state keeps: the cue of a T-maze.
            assert rules.features(states[index]) == pytest.approx(row)
    return ends


def recognised(rules, candidates, row):
    (state,) = [state for state in candidates if np.array_equal(np.float32(rules.features(state)), row)]
    return state


@pytest.mark.parametrize("id", RULES)
def test_every_row_follows_the_rules(id):
    ends = follow(id, RULES[id])
    assert ends["terminated"] + ends["truncated"] > 3
    if id.startswith(("mini/TMaze", "mini/KeyDoor")):
        assert ends["truncated"] > 0


def test_the_best_way_through_the_deep_sea():
    task = make_task("mini/DeepSea8-v0")
    environment = MiniEnvironments("mini/DeepSea8-v0", task, 1)
    total = 0.0
    for step in range(8):
        environment.send(task._right[step, step][None])
        (part,) = environment.recv()
        total += part.rewards[0]
    assert part.terminated[0]
    assert total == pytest.approx(0.99)
    assert 0.2 < task._right.mean() < 0.8, "one action would always do"


def test_the_cue_is_shown_once():
    environment = MiniEnvironments("mini/TMaze10-v0", make_task("mini/TMaze10-v0"), 500)
    shown = environment.reset(0)["observation"][:, :2]
    assert (shown.sum(axis=1) == 1).all()
    assert abs(shown[:, 0].mean() - 0.5) < 5 * 0.5 / 500**0.5
    for _ in range(10):
        environment.send(np.zeros(500, np.int64))
        (part,) = environment.recv()
        assert not part.observations["observation"][:, :2].any()
    environment.send(np.where(shown[:, 0] == 1, 1, 2))
    (part,) = environment.recv()
    assert (part.rewards == 1).all()
    assert part.terminated.all()


@pytest.mark.parametrize(
    ("id", "words"),
    [
        ("mini/Catc-v0", "did you mean mini/Catch-v0"),
        ("mini/DeepSea-v0", r"must name a size in \[2, 64\], got none; use e.g. mini/DeepSea8-v0"),
        ("mini/DeepSea900-v0", "must name a size"),
        ("mini/Catch3-v0", "unknown environment"),
    ],
)
def test_mistakes_name_the_remedy(id, words):
    with pytest.raises(ConfigError, match=words):
        describe_environment(id, CONFIG)


def test_steps_are_cheap():
    """No Python loop over environments: a step of a thousand costs less than ten steps of ten would."""
    environment = MiniEnvironments("mini/DeepSea8-v0", make_task("mini/DeepSea8-v0"), 1000)
    actions = np.zeros(1000, np.int64)
    seconds = []
    for _ in range(50):
        begun = time.perf_counter()
        environment.send(actions)
        environment.recv()
        seconds.append(time.perf_counter() - begun)
    assert min(seconds) < 2e-3
