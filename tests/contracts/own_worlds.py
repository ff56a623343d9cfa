"""Environments by class and by function, for tests; also in child processes."""

import gymnasium
import numpy as np
from gymnasium import spaces


class World(gymnasium.Env):
    """A vector of `size` zeros; every step earns the chosen action; an episode lasts `length` steps."""

    def __init__(self, size=4, length=5, mode="plain"):
        self.mode, self._length = mode, length
        self.observation_space = spaces.Box(-1, 1, (size,), np.float32)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return np.zeros(self.observation_space.shape, np.float32), {}

    def step(self, action):
        self._time += 1
        return np.zeros(self.observation_space.shape, np.float32), float(action), False, self._time >= self._length, {}


class Drawn(World):
    """A world that can be drawn, in the mode that its constructor takes."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, render_mode=None):
        super().__init__()
        self.render_mode = render_mode

    def render(self):
        return np.full((32, 32, 3), 7, np.uint8)


def make_world(size=3):
    return World(size)


def make_nothing():
    return "no environment"


class Longer(gymnasium.ObservationWrapper):
    """Appends `number` values to the observation."""

    def __init__(self, environment, number=1, value=0.5):
        super().__init__(environment)
        self._more = np.full(number, value, np.float32)
        size = environment.observation_space.shape[0] + number
        self.observation_space = spaces.Box(-1, 1, (size,), np.float32)

    def observation(self, observation):
        return np.concatenate([observation, self._more])


def name_of(environment):
    """Is no wrapper: returns no environment."""
    return str(environment)


class Registered:
    """Is hidden by the registered id of the same name."""


class Everything(World):
    """Observes a sample of nearly every kind of space."""

    def __init__(self):
        super().__init__()
        self.observation_space = spaces.Dict(
            {
                "robot": spaces.Dict({"arms": spaces.Tuple([spaces.Box(-1, 1, (2,)), spaces.Discrete(3, start=4)])}),
                "word": spaces.Text(4, min_length=0, charset="ab"),
                "flags": spaces.MultiBinary([2, 2]),
                "choices": spaces.MultiDiscrete([3, 2], start=[1, 0]),
                "city": spaces.Discrete(3000, start=-7),
                "screen": spaces.Box(0, 255, (24, 24, 3), np.uint8),
            }
        )

    def reset(self, *, seed=None, options=None):
        if seed is not None:
            self.observation_space.seed(seed)
        self._time = 0
        return self.observation_space.sample(), {}

    def step(self, action):
        self._time += 1
        return self.observation_space.sample(), float(action), False, self._time >= self._length, {}


if "Registered" not in gymnasium.registry:
    gymnasium.register("Registered", "own_worlds:World", kwargs={"size": 6})
