"""Environments with action masks that raise when a forbidden action is taken, for tests; also in child processes."""

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

SIZES = (3, 4)


class Gates(gymnasium.Env):
    """At every step other actions are allowed; the reward is the action. A terminal state allows none.

    Args:
        place: where the mask is: "info", "observation", or "nowhere".
        several: take several choices at once.
        parts: give the masks of several choices one by one.
        deed: a mistake, made from the third step on.
        length: most steps of an episode, beyond which it is truncated.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012

    def __init__(self, place="info", several=False, parts=False, deed="", length=9, render_mode=None):
        self.render_mode = render_mode
        self._place, self._parts, self._deed, self._length = place, parts, deed, length
        self._sizes = SIZES if several else (5,)
        self.action_space = spaces.MultiDiscrete(SIZES) if several else spaces.Discrete(5, start=-1)
        self._lowest = np.zeros(2, int) if several else np.array([-1])
        seen = spaces.Box(-1, 1, (3,), np.float32)
        mask = spaces.Tuple([spaces.MultiBinary(n) for n in SIZES]) if parts else spaces.MultiBinary(sum(self._sizes))
        self.observation_space = spaces.Dict({"action_mask": mask, "seen": seen}) if place == "observation" else seen

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._time = 0
        return self._answer(False)

    def step(self, action):
        places = np.atleast_1d(action) - self._lowest
        for mask, place in zip(self._masks, places, strict=True):
            if not mask[place]:
                raise RuntimeError(f"action {action} is forbidden")
        self._time += 1
        terminated = bool(self.np_random.random() < 0.1)
        observation, info = self._answer(terminated)
        return observation, float(places.sum()), terminated, self._time >= self._length, info

    def render(self):
        return np.full((32, 32, 3), self._time, np.uint8)

    def state_dict(self):
        return {"time": self._time, "masks": [mask.tolist() for mask in self._masks]}

    def load_state_dict(self, state):
        self._time, self._masks = state["time"], [np.array(mask) for mask in state["masks"]]

    def _answer(self, terminated):
        masks = [self.np_random.random(n) < 0.4 for n in self._sizes]
        for mask in masks:
            mask[self.np_random.integers(len(mask))] = True
        self._masks = [mask & (not terminated) for mask in masks]
        given = tuple(self._masks) if self._parts else np.concatenate(self._masks).astype(np.int8)
        if self._time > 2:
            given = self._spoilt(given)
        # What is seen tells the mask of the first choice, so that tests can check that they belong together.
        seen = np.array([self._time / 10, self._masks[0][:2].sum() / 2, self._masks[0].mean()], np.float32)
        observation = {"seen": seen, "action_mask": given} if self._place == "observation" else seen
        return observation, {"action_mask": given} if self._place == "info" and given is not None else {}

    def _spoilt(self, mask):
        match self._deed:
            case "missing":
                return None
            case "shape":
                return mask[:-1]
            case "dtype":
                return np.array(["yes"] * len(mask))
            case "ragged":
                return [[1, 0], [1]]
            case "twos":
                return 2 * mask
            case "nothing":
                return tuple(map(np.zeros_like, mask)) if self._parts else np.zeros_like(mask)
        return mask


class RealGates(Gates):
    """Continuous actions, with a mask in `info` all the same."""

    def __init__(self, place="info"):
        super().__init__(place)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)


class Sized(Gates):
    """A mask in the observation whose space does not fit the actions."""

    def __init__(self):
        super().__init__("observation")
        self.observation_space["action_mask"] = spaces.MultiBinary(4)


class Blind(gymnasium.Env):
    """Nothing but a mask."""

    observation_space = spaces.Dict({"action_mask": spaces.MultiBinary(2)})
    action_space = spaces.Discrete(2)


def gates_in_mode(mode, **arguments):
    def make(num_envs, **more):
        return SyncVectorEnv([lambda: Gates(**arguments)] * num_envs, autoreset_mode=mode)

    return make


for mode in AutoresetMode:
    for place in ("info", "observation"):
        for several in (False, True):
            for parts in (False, True):
                name = f"Gates-{mode.name}-{place}-{several}-{parts}-v0"
                if name not in gymnasium.registry and several >= parts:
                    entry = gates_in_mode(mode, place=place, several=several, parts=parts)
                    gymnasium.register(name, Gates, vector_entry_point=entry)
