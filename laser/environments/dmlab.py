"""DeepMind Lab: the 30 levels of DMLab-30 in the form that IMPALA and LASER train on.

`deepmind_lab` must be built from source, so it is imported only when an environment is made.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import shutil
import tempfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from laser.environments.base import VectorEnvironment
from laser.environments.config import EnvironmentConfig
from laser.environments.named_sets import DMLAB30, DMLAB_LEVELS
from laser.environments.processes import ProcessEnvironments
from laser.environments.spaces import ActionWriter, ObservationReader, action_writer, observation_reader
from laser.environments.suite import Suite, env_error, unknown_id
from laser.environments.sync import SyncEnvironments
from laser.specs import EnvironmentSpec

# Levels with two variants: the test variant has objects and rooms that training never shows.
_TRAIN_AND_TEST = ("rooms_collect_good_objects", "rooms_exploit_deferred_effects")

# Look left-right, look down-up, strafe, move, fire, jump, crouch; the first two in pixels per frame.
_FORWARD, _BACK = (0, 0, 0, 1, 0, 0, 0), (0, 0, 0, -1, 0, 0, 0)
_STRAFE_LEFT, _STRAFE_RIGHT = (0, 0, -1, 0, 0, 0, 0), (0, 0, 1, 0, 0, 0, 0)
_FIRE = (0, 0, 0, 0, 1, 0, 0)


def _look(right: int, up: int = 0, forward: int = 0) -> tuple[int, ...]:
    return (right, up, 0, forward, 0, 0, 0)


ACTIONS: dict[str, tuple[tuple[int, ...], ...]] = {
    "impala": (
        _FORWARD,
        _BACK,
        _STRAFE_LEFT,
        _STRAFE_RIGHT,
        _look(-20),
        _look(20),
        _look(-20, forward=1),
        _look(20, forward=1),
        _FIRE,
    ),
    "r2d2": (
        _FORWARD,
        _BACK,
        _STRAFE_LEFT,
        _STRAFE_RIGHT,
        _look(-10),
        _look(10),
        _look(-60),
        _look(60),
        _look(0, up=10),
        _look(0, up=-10),
        _look(-10, forward=1),
        _look(10, forward=1),
        _look(-60, forward=1),
        _look(60, forward=1),
        _FIRE,
    ),
}

HEIGHT, WIDTH = 72, 96
NUM_BUCKETS = 1000
NUM_WORDS = 16
_TEST_MIXER_SEED = 0x600D5EED  # from IMPALA's evaluation: mazes that training never draws
HOW_TO_BUILD = "pip install dmlab-gym && dmlab-gym build"


class DmLabSuite(Suite):
    """Ids of the form `dmlab/rooms_watermaze`; two levels also end in `_train` or `_test`."""

    name = "DeepMind Lab"
    flags = frozenset(
        {"vectorization", "frame_skip", "action_set", "test_levels", "level_cache", "level_data", "renderer"}
    )

    def claims(self, id: str) -> bool:
        """Return whether the id begins with `dmlab/`."""
        return id.startswith("dmlab/")

    def ids(self) -> list[str]:
        """Return the ids of the 30 levels, even if the package is not installed."""
        return list(DMLAB30)

    def make(self, id: str, num_envs: int, config: EnvironmentConfig) -> VectorEnvironment:
        """Return a vector of one level, with a process for each environment unless vectorization is "sync"."""
        make, spec, reader, writer = _prepare(id, config)
        makers = [make] * num_envs
        if config.vectorization == "sync":
            return SyncEnvironments(spec, makers, reader, writer)
        return ProcessEnvironments(spec, makers, reader, writer, config.deadline_s)

    def describe(self, id: str, config: EnvironmentConfig) -> EnvironmentSpec:
        """Return the spec of a level, without starting an engine or a process."""
        return _prepare(id, config)[1]


def _prepare(
    id: str, config: EnvironmentConfig
) -> tuple[Callable[[], gymnasium.Env[Any, Any]], EnvironmentSpec, ObservationReader, ActionWriter]:
    level, held_out = find_level(id, config.test_levels)
    if importlib.util.find_spec("deepmind_lab") is None:
        wrong = f"{id} needs deepmind_lab, which is not installed"
        raise env_error(wrong, f"on Linux with Python 3.13, and Podman or Docker: {HOW_TO_BUILD}")
    make = functools.partial(DmLab, level, held_out, config)
    described = make()
    reader, writer = observation_reader(described.observation_space), action_writer(described.action_space)
    return make, EnvironmentSpec(id, reader.specs, writer.spec, action_repeat=config.frame_skip), reader, writer


def find_level(id: str, test_levels: bool) -> tuple[str, bool]:
    """Return the engine's path of a level, and whether its held-out variant is played.

    Raises:
        ConfigError: the id is none of the 30 levels.
    """
    name = id.removeprefix("dmlab/")
    level = name.removesuffix("_train").removesuffix("_test")
    if level not in DMLAB_LEVELS or (level != name and level not in _TRAIN_AND_TEST):
        raise unknown_id(id)
    held_out = test_levels or name.endswith("_test")
    suffix = ("_test" if held_out else "_train") if level in _TRAIN_AND_TEST else ""
    return f"contributed/dmlab30/{level}{suffix}", held_out


class DmLab(gymnasium.Env[Any, Any]):
    """One level as a Gymnasium environment: an RGB frame and the hashed words of the instruction.

    The engine starts at the first reset, so that describing an environment costs nothing. It has no observation after
    an episode's end, so the last one before is repeated.

    Args:
        level: the engine's path of the level.
        held_out: play mazes and objects that training never draws.
        config: see `EnvironmentConfig`.
    """

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = "rgb_array"

    def __init__(self, level: str, held_out: bool, config: EnvironmentConfig):
        self._level, self._held_out, self._config = level, held_out, config
        self._actions = [np.array(action, np.intc) for action in ACTIONS[config.action_set]]
        self.action_space = gymnasium.spaces.Discrete(len(self._actions))
        self.observation_space = gymnasium.spaces.Dict(
            {
                "frame": gymnasium.spaces.Box(0, 255, (HEIGHT, WIDTH, 3), np.uint8),
                "instruction": gymnasium.spaces.MultiDiscrete([NUM_BUCKETS + 1] * NUM_WORDS),
            }
        )
        self._lab: Any = None
        self._latest: dict[str, np.ndarray] = {}

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Begin an episode; its seed is drawn from the environment's generator."""
        super().reset(seed=seed)
        if self._lab is None:
            self._lab = self._start()
        self._lab.reset(seed=int(self.np_random.integers(0, 2**31 - 1)))
        self._latest = self._observe()
        return self._latest, {}

    def step(self, action: int) -> tuple[dict[str, np.ndarray], float, bool, bool, dict[str, Any]]:
        """Repeat an action for `frame_skip` frames."""
        reward = self._lab.step(self._actions[int(action)], num_steps=self._config.frame_skip)
        terminated = not self._lab.is_running()
        if not terminated:
            self._latest = self._observe()
        return self._latest, float(reward), terminated, False, {}

    def render(self) -> Any:
        """Return the newest frame."""
        return self._latest["frame"]

    def close(self) -> None:
        """End the engine."""
        if self._lab is not None:
            self._lab.close()
            self._lab = None

    def _start(self) -> Any:
        import deepmind_lab

        settings = {"width": WIDTH, "height": HEIGHT, "logLevel": "WARN"}
        if self._held_out:
            settings |= {"allowHoldOutLevels": "true", "mixerSeed": _TEST_MIXER_SEED}
        if self._config.level_data is not None:
            settings["datasetPath"] = self._config.level_data
        cache = {} if self._config.level_cache is None else {"level_cache": LevelCache(self._config.level_cache)}
        return deepmind_lab.Lab(
            self._level,
            ["RGB_INTERLEAVED", "INSTR"],
            config={name: str(value) for name, value in settings.items()},
            renderer=self._config.renderer,
            **cache,
        )

    def _observe(self) -> dict[str, np.ndarray]:
        seen = self._lab.observations()
        return {"frame": np.array(seen["RGB_INTERLEAVED"], np.uint8), "instruction": hash_words(seen["INSTR"])}


def hash_words(text: str | bytes) -> np.ndarray:
    """Return bucket numbers in 1..1000 of the first 16 words, then zeros; int64 [16]. The same in every process."""
    words = (text.encode() if isinstance(text, str) else bytes(text)).lower().split()[:NUM_WORDS]
    buckets = np.zeros(NUM_WORDS, np.int64)
    buckets[: len(words)] = [1 + zlib.crc32(word) % NUM_BUCKETS for word in words]
    return buckets


class LevelCache:
    """A folder of compiled levels, which saves seconds per episode; processes may share it.

    The engine calls `fetch` before it compiles a level and `write` after.
    """

    def __init__(self, folder: Path):
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def fetch(self, key: str, pk3_path: str) -> bool:
        """Copy a cached level to the path that the engine gives; return False if the level is not cached."""
        try:
            shutil.copyfile(self._place(key), pk3_path)
        except FileNotFoundError:
            return False
        return True

    def write(self, key: str, pk3_path: str) -> None:
        """Add a compiled level to the cache."""
        place = self._place(key)
        if place.exists():
            return
        # Written to a file beside it first: another process must never read half of a level.
        handle, beside = tempfile.mkstemp(dir=self._folder)
        os.close(handle)
        shutil.copyfile(pk3_path, beside)
        os.replace(beside, place)

    def _place(self, key: str) -> Path:
        return self._folder / (hashlib.sha256(key.encode()).hexdigest() + ".pk3")
