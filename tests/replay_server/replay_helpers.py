"""Making streams of unrolls whose every number says where it came from."""

from __future__ import annotations

import json

import numpy as np

from laser.ports import KEY_DTYPE
from laser.specs import ArraySpec, ContinuousActions, DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, PackedFrames, Unrolls, UnrollSpec


def make_spec(unroll_length=4, frames=False, core_state=False, vector_size=1):
    """Return a small spec: a vector observation that holds the row's number, and an image on request."""
    observations = {"observation": VectorSpec((vector_size,))}
    if frames:
        observations["image"] = FramesSpec((6, 6), stack=2)
    environment = EnvironmentSpec("Test-v0", observations, DiscreteActions(3))
    core = {"state": ArraySpec((2,))} if core_state else {}
    return UnrollSpec(unroll_length, environment, {"logits": ArraySpec((3,))}, core)


def make_real_spec(unroll_length=20):
    """Return a spec with 17 numbers seen and 6 continuous actions, like HalfCheetah."""
    environment = EnvironmentSpec(
        "Real-v0", {"observation": VectorSpec((17,))}, ContinuousActions((-1.0,) * 6, (1.0,) * 6)
    )
    return UnrollSpec(unroll_length, environment, {"mean": ArraySpec((6,)), "deviation": ArraySpec((6,))})


def make_atari_spec(unroll_length=20, num_actions=6):
    """Return the spec of an Atari game: 84x84 grey frames, four of them stacked."""
    environment = EnvironmentSpec("Atari", {"observation": FramesSpec((84, 84), stack=4)}, DiscreteActions(num_actions))
    return UnrollSpec(unroll_length, environment, {"logits": ArraySpec((num_actions,))})


class Stream:
    """One environment of one actor; `next_unrolls` yields what an actor would ship.

    Rows are numbered from `base`: row k of the stream shows observation base + k, and its reward is base + k too. An
    episode's rows are steps, then one row with valid=False. `log` keeps every row as (episode, step, valid,
    terminated).
    """

    def __init__(self, spec, rng, *, actor=0, environment=0, member=0, incarnation=0, mean_length=6, run=1):
        self.spec, self.rng = spec, rng
        self.actor, self.environment, self.member = actor, environment, member
        self.incarnation, self.run = incarnation, run
        self.mean_length = mean_length
        self.base = (actor * 10 + environment) * 10_000.0
        self.sequence = 0
        self.log = []
        self._grow()

    def _grow(self):
        episode = self.log[-1][0] + 1 if self.log else 0
        # None: one episode longer than any test.
        length = 5000 if self.mean_length is None else 1 + int(self.rng.geometric(1.0 / self.mean_length))
        terminates = bool(self.rng.random() < 0.5)
        for step in range(length):
            self.log.append((episode, step, True, terminates and step == length - 1))
        self.log.append((episode, length, False, False))

    def next_unroll(self):
        """Return the next unroll of the stream."""
        return self.unroll(self.sequence)

    def unroll(self, sequence):
        """Return unroll number `sequence`; it becomes the newest if it lies ahead."""
        length = self.spec.unroll_length
        start = sequence * length
        while len(self.log) < start + length + 1:
            self._grow()
        self.sequence = max(self.sequence, sequence + 1)
        rows = self.log[start : start + length + 1]
        numbers = np.arange(start, start + length + 1)
        header = np.zeros(1, HEADER_DTYPE)
        header["run"], header["actor"], header["environment"] = self.run, self.actor, self.environment
        header["incarnation"], header["member"], header["sequence"] = self.incarnation, self.member, sequence
        header["episode"], header["step_in_episode"] = rows[0][:2]
        fields = {}
        for name, field in self.spec.fields.items():
            fields[name] = np.zeros((1, *self.spec.shape(name)), field.array.dtype)
        fields["observations/observation"][0] = (self.base + numbers)[:, None]
        fields["first"][0] = [row[1] == 0 for row in rows]
        fields["valid"][0] = [row[2] for row in rows[:-1]]
        fields["terminated"][0] = [row[3] for row in rows[:-1]]
        fields["rewards"][0] = self.base + numbers[:-1]
        fields["actions"][0] = numbers[:-1] % 3
        fields["mu/logits"][0] = (self.base + numbers[:-1])[:, None]
        if start:
            fields["last_action"][0] = (start - 1) % 3
            fields["last_reward"][0] = self.base + start - 1
        frames = {}
        for name in self.spec.frames:
            blob = self.blob(sequence)
            frames[name] = PackedFrames(blob, np.zeros(1, np.int64), np.array([len(blob)]))
        return Unrolls(header, fields, frames)

    def blob(self, sequence):
        """Return bytes that stand for the compressed frames of an unroll: length and content depend on its id."""
        rng = np.random.default_rng([self.actor % 2**32, self.environment, self.incarnation, sequence])
        return rng.integers(256, size=int(rng.integers(1, 1800)), dtype=np.uint8)


def join(parts):
    """Put unrolls side by side in one message, with some padding between their blobs."""
    frames = {}
    for name in parts[0].frames:
        blobs, starts, at = [], [], 0
        for part in parts:
            starts.append(at)
            blobs += [part.frames[name][0], np.zeros(3, np.uint8)]
            at += len(blobs[-2]) + 3
        lengths = np.array([int(part.frames[name].lengths[0]) for part in parts])
        frames[name] = PackedFrames(np.concatenate(blobs), np.array(starts), lengths)
    return Unrolls(
        np.concatenate([part.headers for part in parts]),
        {name: np.concatenate([part.fields[name] for part in parts]) for name in parts[0].fields},
        frames,
    )


def make_keys(shard, pages, generations, rows):
    """Return keys from their parts."""
    keys = np.empty(len(pages), KEY_DTYPE)
    keys["shard"], keys["page"], keys["generation"], keys["row"] = shard, pages, generations, rows
    return keys


def saved(value):
    """Return a shard's state as checkpoints keep it: arrays as they are, everything else through JSON.

    Nobody may write to the arrays, as to those that another process hands over.
    """
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
        return value
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        return {key: saved(item) for key, item in value.items()}
    return json.loads(json.dumps(value))


def stored_items(index, view):
    """Return the (page, generation, row) of all items of a view; the row is 0 for unrolls, the first for sequences."""
    live = set(index.live_pages.items.tolist())

    def is_item(page, row):
        if view == "unrolls":
            return row == 0
        goes_on = view == "steps" or row == 0 or int(index.next_page[page]) in live
        return index.episode_of_row[page, row] >= 0 and goes_on

    rows = range(index.unroll_length)
    return {(page, int(index.pages.generation[page]), row) for page in live for row in rows if is_item(page, row)}


def first_keys(sample):
    """Return the keys of the items of a draw, [N]: those of sequences are of their first rows."""
    return sample.keys if sample.keys.ndim == 1 else sample.keys[:, 0]
