"""Environments of a user's own, good and bad, registered when this module is imported."""

import os
import time
from typing import ClassVar

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from gymnasium.vector import AutoresetMode, SyncVectorEnv
from gymnasium.wrappers import FrameStackObservation


class Walk(gymnasium.Env):
    """A noisy walk that terminates at the edges and is seen as a picture, two reals and a category that starts at 1."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    observation_space = spaces.Dict(
        {
            "picture": spaces.Box(0, 255, (24, 20, 3), np.uint8),
            "place": spaces.Box(-np.inf, np.inf, (2,), np.float64),
            "phase": spaces.Discrete(5, start=1),
        }
    )
    action_space = spaces.Discrete(3, start=-1)

    def __init__(self, render_mode=None, limit=12):
        self.render_mode = render_mode
        self._limit = limit

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self._steps, self._place = 0, self.np_random.normal(size=2)
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(action), action
        self._steps += 1
        self._place = self._place + action + 0.3 * self.np_random.normal(size=2)
        terminated = bool(np.abs(self._place).max() > 4)
        return self._observation(), float(action), terminated, self._steps >= self._limit, {"steps": self._steps}

    def render(self):
        return self._observation()["picture"]

    def _observation(self):
        picture = np.full((24, 20, 3), self._steps, np.uint8)
        picture[int(self._place[0]) % 24] = 200
        return {"picture": picture, "place": self._place.copy(), "phase": np.int64(self._steps % 5 + 1)}


class Levers(Walk):
    """The same walk moved by two levers, seen as float32."""

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.MultiDiscrete([3, 2], start=[-1, 0])  # drifts along the second axis

    def step(self, action):
        assert self.action_space.contains(action), action
        self._steps += 1
        self._place = self._place + 0.5 * action
        return self._observation(), 1.0, bool(np.abs(self._place).max() > 4), self._steps >= self._limit, {}

    def _observation(self):
        return self._place.astype(np.float32)


class Stacked(Walk):
    """Only the picture."""

    observation_space = spaces.Box(0, 255, (24, 20, 3), np.uint8)

    def _observation(self):
        return super()._observation()["picture"]


DEEDS = (
    "nothing",
    "construct",
    "raise",
    "nan",
    "nan reward",
    "huge reward",
    "endless reward",
    "shape",
    "broadcastable shape",
    "dtype",
    "reward shape",
    "none reward",
    "huge",
    "hang",
    "exit",
    "interrupt",
    "generator",
    "own",
    "mute",
    "word flag",
    "array flag",
    "die",
)


class Panic(BaseException):
    """An exception that is no `Exception`, such as asyncio's cancellation and a panic of Rust."""


class MuteError(Exception):
    """An exception whose message cannot be read."""

    def __str__(self):
        raise RuntimeError("no words")


class Bad(gymnasium.Env):
    """Behaves for two steps, then does what it is told."""

    observation_space = spaces.Box(-1, 1, (3,), np.float32)
    action_space = spaces.Discrete(2)

    def __init__(self, deed="nothing", at_reset=False):
        if deed == "construct":
            raise RuntimeError("no licence for the simulator")
        self._deed, self._at_reset, self._steps = deed, at_reset, 0

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        good = np.zeros(3, np.float32)
        return (self._misbehave(good, 0.0)[0] if self._at_reset else good), {}

    def step(self, action):
        self._steps += 1
        observation, reward, terminated = np.zeros(3, np.float32), 1.0, False
        if self._steps > 2:
            observation, reward = self._misbehave(observation, reward)
            terminated = {"word flag": "yes", "array flag": np.zeros(2, bool)}.get(self._deed, False)
        return observation, reward, terminated, False, {}

    def _misbehave(self, observation, reward):
        match self._deed:
            case "raise":
                raise KeyError("the door is locked")
            case "nan":
                observation[1] = np.nan
            case "nan reward":
                reward = float("nan")
            case "huge reward":
                reward = -1e16
            case "endless reward":
                reward = 1e300
            case "shape":
                observation = np.zeros(4, np.float32)
            case "broadcastable shape":
                observation = np.zeros(1, np.float32)
            case "dtype":
                observation = np.array(["a", "b", "c"])
            case "reward shape":
                reward = np.zeros(2)
            case "none reward":
                reward = None
            case "huge":
                observation = np.full(3, 1e300)
            case "hang":
                time.sleep(60)
            case "exit":
                raise SystemExit(3)
            case "interrupt":
                raise KeyboardInterrupt
            case "generator":
                raise GeneratorExit
            case "own":
                raise Panic("in Rust")
            case "mute":
                raise MuteError
            case "die":
                os._exit(3)
        return observation, reward


def walks_in_mode(mode):
    def make(num_envs, **arguments):
        return SyncVectorEnv([Walk] * num_envs, autoreset_mode=mode)

    return make


class RewardedResets(SyncVectorEnv):
    """Next-step autoreset that gives a reward for the ignored action too."""

    def __init__(self, num_envs, **arguments):
        super().__init__([Walk] * num_envs, autoreset_mode=AutoresetMode.NEXT_STEP)

    def step(self, actions):
        begins = self._autoreset_envs.copy()
        observations, rewards, *rest = super().step(actions)
        rewards[begins] = 5.0
        return observations, rewards, *rest


class DenseFinals(SyncVectorEnv):
    """Same-step autoreset that reports final observations as dense arrays, as ale-py does."""

    def __init__(self, num_envs, **arguments):
        super().__init__([Walk] * num_envs, autoreset_mode=AutoresetMode.SAME_STEP)

    def step(self, actions):
        *step, info = super().step(actions)
        finals = info.pop("final_obs", None)
        info.pop("_final_obs", None)
        dense = {name: np.array(value) for name, value in step[0].items()}
        for index, final in enumerate(finals if finals is not None else ()):
            for name in dense if final is not None else ():
                dense[name][index] = final[name]
        return *step, {**info, "final_obs": dense}


class SilentVector(CartPoleVectorEnv):
    """Does not say how it resets."""

    metadata: ClassVar = {"render_modes": []}


class Needs(gymnasium.Env):
    """Needs a package that is not there."""

    def __init__(self):
        import a_package_that_is_not_there  # noqa: F401


def register(name, entry_point, **arguments):
    if name not in gymnasium.registry:
        gymnasium.register(name, entry_point, **arguments)


HERE = "custom_environments"
register("Walk-v0", f"{HERE}:Walk")
register("Levers-v0", f"{HERE}:Levers")
register("SameStep-v0", f"{HERE}:Walk", vector_entry_point=walks_in_mode(AutoresetMode.SAME_STEP))
register("Disabled-v0", f"{HERE}:Walk", vector_entry_point=walks_in_mode(AutoresetMode.DISABLED))
register("NextStep-v0", f"{HERE}:Walk", vector_entry_point=f"{HERE}:RewardedResets")
register("DenseFinals-v0", f"{HERE}:Walk", vector_entry_point=f"{HERE}:DenseFinals")
register("Silent-v0", f"{HERE}:Walk", vector_entry_point=f"{HERE}:SilentVector")
register("Stacked-v0", lambda **arguments: FrameStackObservation(Stacked(**arguments), 4))
for deed in DEEDS:
    register(f"Bad-{deed.replace(' ', '-')}-v0", f"{HERE}:Bad", kwargs={"deed": deed})
    register(f"Bad-{deed.replace(' ', '-')}-at-reset-v0", f"{HERE}:Bad", kwargs={"deed": deed, "at_reset": True})
register("Needs-v0", f"{HERE}:Needs")
register(
    "ShortCartPole-v0",
    "gymnasium.envs.classic_control.cartpole:CartPoleEnv",
    vector_entry_point="gymnasium.envs.classic_control.cartpole:CartPoleVectorEnv",
    max_episode_steps=15,
)
