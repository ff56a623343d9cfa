"""What every remover keeps: it chooses live, unpinned episodes until nothing is left."""

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import ColumnSpec, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.removers import find_removers, make_remover
from replay_server.serving.shard import Shard


def filled_store(num_messages=20, mean_length=6):
    rng = np.random.default_rng(1)
    spec = make_spec(4)
    shard = Shard(spec, ReplayConfig(capacity_steps=10_000), [MemberSettings(0)])
    streams = [Stream(spec, rng, environment=e, mean_length=mean_length) for e in range(3)]
    for _ in range(num_messages):
        wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")
    return shard._store


@pytest.mark.parametrize("kind", find_removers())
def test_everything_can_be_forgotten_but_what_is_pinned(kind):
    store, remover = filled_store(), kind()
    index = store.index
    pinned = list(index.finished.values())[:3]
    for episode in pinned:
        index.pin(episode)
    while (episode := remover.choose(index)) is not None:
        assert index.episodes[episode.slot] is episode
        assert episode.num_pins == 0
        store._freed(index.forget(episode))
        store.check_valid()
    assert sorted(index.episodes) == sorted(episode.slot for episode in pinned)


def test_an_unknown_remover_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"remover must be one of .*fifo.*, got 'lifo'"):
        make_remover("lifo")


def test_fifo_forgets_in_the_order_in_which_episodes_ended():
    store = filled_store()
    index, remover = store.index, make_remover("fifo")
    ends = []
    while (episode := remover.choose(index)) is not None:
        if not episode.finished:
            break
        ends.append(episode.last_order)
        store._freed(index.forget(episode))
    assert len(ends) > 5
    assert ends == sorted(ends)


@pytest.mark.parametrize("kind", find_removers())
def test_an_episode_that_never_ends_does_not_crowd_out_the_others(kind):
    rng = np.random.default_rng(1)
    spec = make_spec(4)
    all_far = MemberSettings(0, columns=(ColumnSpec("rho", initial=10.0, far_bound=2.0),))
    shard = Shard(spec, ReplayConfig(capacity_steps=400, remover=kind.name), [all_far])
    endless = Stream(spec, rng, environment=0, mean_length=None)
    others = Stream(spec, rng, environment=1, mean_length=6)
    for _ in range(300):
        wait(shard.insert(join([endless.next_unroll(), others.next_unroll()])), 5, "insert")
    lengths = shard._store.index.steps_of_episode
    (open_endless,) = [e for e in shard._store.index.open.values() if e.num_steps > 40]
    assert 150 <= lengths[open_endless.slot] <= 250
    assert shard._store.index.num_steps - lengths[open_endless.slot] > 100
    shard.close()
