"""A stand-in with the interface of the real `deepmind_lab`, as strict about types as the engine is.

A level is a clock that runs for some frames; the picture shows the frame, the seed and what the actions did.
"""

import tempfile
from pathlib import Path

import numpy as np

started = []  # (level, config, renderer) of every engine in this process


class Lab:
    def __init__(self, level, observations, config=None, renderer="software", level_cache=None, temp_folder=""):
        config = config or {}
        assert level.startswith("contributed/dmlab30/"), f"Error - Failed to find level script {level}"
        for name, value in config.items():
            if not isinstance(name, str) or not isinstance(value, str):
                raise TypeError("'config' must be a dictionary of strings")
        if renderer not in ("software", "hardware"):
            raise RuntimeError("Unrecognized renderer")
        self._height, self._width = int(config.get("height", 240)), int(config.get("width", 320))
        self._names, self._cache, self._level = list(observations), level_cache, level
        self._running = self._closed = False
        started.append((level, config, renderer))

    def reset(self, episode=-1, seed=None):
        assert not self._closed
        if not isinstance(seed, int) or not 0 <= seed < 2**31:
            raise TypeError("seed must be a 32 bit integer")
        if self._cache is not None:
            self._load_map(f"{self._level}/map {seed % 3}")
        self._seed, self._frame, self._place = seed, 0, np.zeros(7, np.int64)
        self._last_frame = 40 + seed % 30
        self._running = True
        return True

    def step(self, action, num_steps=1):
        if not self._running:
            raise RuntimeError("Environment in wrong status for call to step")
        if not isinstance(action, np.ndarray) or action.dtype != np.intc or action.shape != (7,):
            raise ValueError("action must have dtype intc and shape (7,)")
        reward = 0.0
        for _ in range(num_steps):
            self._frame += 1
            self._place += action
            reward += float(action[3])
            if self._frame >= self._last_frame:
                self._running = False
                break
        return reward

    def is_running(self):
        return self._running

    def observations(self):
        if not self._running:
            raise RuntimeError("Environment in wrong status for call to observations")
        picture = np.zeros((self._height, self._width, 3), np.uint8)
        picture[self._frame % self._height] = self._seed % 251
        picture[:, self._place[0] % self._width, 1] = 200
        seen = {"RGB_INTERLEAVED": picture, "INSTR": "pick up the  red hat" if "language" in self._level else ""}
        return {name: seen[name] for name in self._names}

    def close(self):
        self._closed = True
        self._running = False

    def _load_map(self, key):
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "map.pk3"
            if not self._cache.fetch(key, str(place)):
                place.write_text(key)
                self._cache.write(key, str(place))
            assert place.read_text() == key
