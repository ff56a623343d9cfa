"""What the tests place in other processes: a component to kill or hang, a small shard, a learner that keeps batches."""

from __future__ import annotations

import dataclasses
import os
import sys
import threading
import time
from functools import partial

import numpy as np

from laser.ports import Report
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

NUM_BATCHES = 20


class Ticker:
    """Counts its ticks."""

    def __init__(self, incarnation):
        self.incarnation = incarnation
        self.heartbeat = time.monotonic()
        self.waiting_for = ""
        self.num_ticks = 0
        self.mark = None
        self.error = None

    def tick(self):
        self.heartbeat = time.monotonic()
        if self.error is not None:
            raise self.error
        time.sleep(0.01)
        self.num_ticks += 1
        return Report("ticker", {"ticks": float(self.num_ticks)}, {"incarnation": float(self.incarnation)})

    def set_mark(self, mark):
        self.mark = mark

    def look(self):
        process = {"pid": os.getpid(), "nice": os.nice(0), "thread": threading.current_thread().name}
        return {**process, "mark": self.mark, "num_ticks": self.num_ticks}

    def fail_oddly(self):
        class OddError(Exception):
            def __init__(self, one, two):
                super().__init__(f"{one} and {two}")

        self.error = OddError("salt", "pepper")


def make_small_shard(spec, index=0, online_capacity=64):
    """Return a shard with room for a few thousand rows and an online queue."""
    config = ReplayConfig(capacity_steps=4000)
    return Shard(spec, config, [MemberSettings(0, online_capacity)], shard=index, seed=index)


class WithModules:
    """Makes a shard whose state also says which modules its process has imported."""

    def __init__(self, factory):
        self._factory = factory

    def __call__(self):
        shard = self._factory()
        accounts = shard.accounts
        shard.accounts = lambda: accounts() | {"modules": set(sys.modules)}
        return shard


class RecordingRuntime:
    """A runtime whose learner keeps its first batches."""

    def __init__(self, runtime):
        self._runtime = runtime

    def __getattr__(self, name):
        return getattr(self._runtime, name)

    def worker(self, name, factory, reports, **options):
        """Place a worker; the learner with a memory."""
        return self._runtime.worker(
            name, partial(_recorded, factory) if name == "learner" else factory, reports, **options
        )


def first_batches(learner):
    """Return the batches that a recorded learner kept."""
    return learner.first_batches()


def _recorded(factory, incarnation):
    learner = factory(incarnation)
    load, kept = learner.loader.load, []

    def load_and_keep(mixes):
        loaded = load(mixes)
        for mix, ready in zip(mixes, loaded, strict=True):
            if len(kept) < NUM_BATCHES:
                keys = [part.keys.copy() for part in mix.parts]
                kept.append(_arrays(ready.batch) | {f"keys/{index}": value for index, value in enumerate(keys)})
        return loaded

    learner.loader.load = load_and_keep
    learner.first_batches = lambda: kept
    return learner


def _arrays(batch):
    """Return every tensor of a batch as an array of its own, by name."""
    arrays: dict[str, np.ndarray] = {}
    for field in dataclasses.fields(batch):
        value = getattr(batch, field.name)
        for name, tensor in value.items() if isinstance(value, dict) else [("", value)]:
            if tensor is not None:
                arrays[f"{field.name}/{name}"] = tensor.cpu().numpy().copy()
    return arrays
