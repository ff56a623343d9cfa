"""ERO's rule: what it writes, and in which direction it learns."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch
from random_batches import ACTIONS, make_environment
from replayed_steps import CPU, NUM_ITEMS, sample_of, steps_batch

from laser.prioritization.base import Replayed
from laser.prioritization.ero import KEEP, KEPT, TD_ERROR, Ero
from replay_server.config import ReplayConfig
from replay_server.samplers.ero import EroConfig


def rule(**settings):
    config = ReplayConfig(sampler="ero", ero=EroConfig(learning_rate=1e-2, **settings))
    return Ero(config, make_environment(ACTIONS["continuous"]), CPU, seed=1)


class Reader:
    """Steps of which the first half is kept and has a reward of 1, the other half neither."""

    def __init__(self, num_items=64):
        self.num_items = num_items
        batch = steps_batch(ACTIONS["continuous"], Ero.columns, num_items)
        first = (torch.arange(num_items) < num_items // 2).float().unsqueeze(0)
        columns = batch.columns | {KEPT: first}
        self.replayed = Replayed(sample_of(num_items), dataclasses.replace(batch, rewards=first, columns=columns))
        self.asked = []

    def draw_uniformly(self, num_items):
        self.asked.append(num_items)
        return self.replayed


@pytest.mark.parametrize("replay_reward", [1.0, -1.0])
def test_what_was_kept_becomes_likelier_when_the_agent_got_better(replay_reward):
    ero, reader = rule(), Reader()

    def keep():
        written = ero.values(reader.replayed, {"td_error": torch.full((1, 64), 9.0)})[KEEP][0]
        return float(written[:32].mean() - written[32:].mean())

    before = keep()
    for _ in range(4):
        lesson = ero.learn(replay_reward, reader)
    assert np.sign(keep() - before) == replay_reward
    assert lesson.redraw
    assert lesson.keys is reader.replayed.sample.keys
    assert set(lesson.values) == {KEEP}
    assert lesson.values[KEEP].shape == (1, 64)


def test_several_updates_each_have_steps_of_their_own():
    ero = rule(num_updates=4, batch_size=16)
    reader = Reader()
    ero.learn(1.0, reader)
    assert reader.asked == [64]
    assert ero.num_updates == 4
    assert ero.metrics()["sampler/kept_fraction"] == 0.5


def test_chances_come_from_reward_error_and_time_and_are_stored_with_the_error():
    ero = rule()
    replayed = Replayed(sample_of(), steps_batch(ACTIONS["continuous"], Ero.columns))
    errors = torch.linspace(-2, 2, NUM_ITEMS).unsqueeze(0)
    written = ero.values(replayed, {"td_error": errors})
    assert set(written) == {KEEP, TD_ERROR}
    torch.testing.assert_close(written[TD_ERROR], errors.tanh())
    assert ((written[KEEP] > 0) & (written[KEEP] < 1)).all()
    assert not torch.equal(ero.values(replayed, {"td_error": errors.flip(-1)})[KEEP], written[KEEP])
    assert not ero.corrects


def test_the_first_return_only_begins():
    ero, reader = rule(), Reader()
    assert ero.hear(3.0, reader) is None
    assert not reader.asked
    assert ero.hear(2.0, reader) is not None
    assert ero.metrics()["sampler/replay_reward"] == -1.0


def test_what_was_saved_goes_on_alike():
    one, other, reader = rule(), rule(), Reader()
    for _ in range(3):
        one.learn(1.0, reader)
    other.load_state_dict(one.state_dict())
    for ero in (one, other):
        ero.learn(-2.0, reader)
    for name, value in one.network.state_dict().items():
        assert torch.equal(value, other.network.state_dict()[name]), name
