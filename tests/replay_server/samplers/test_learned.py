"""The samplers `ners` and `ero` against naive twins, through a shard in use."""

from collections import Counter

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec, saved

from laser.ports import ColumnSpec, ColumnWrites, SampleRequest, wait
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

LENGTH = 4
COLUMNS = {
    "ners": tuple(ColumnSpec(name, 1.0) for name in ("ners_score", "ners_td_error", "ners_q_target")),
    "ero": tuple(ColumnSpec(name, 1.0) for name in ("ero_keep", "ero_kept", "ero_td_error")),
}
WRITTEN = {"ners": "ners_score", "ero": "ero_keep"}


def make_shard(sampler, *, capacity_unrolls=40, shard=0, num_shards=1, **config):
    config = ReplayConfig(
        capacity_steps=capacity_unrolls * LENGTH, sampler=sampler, num_shards=num_shards, priority_uniform=0.5, **config
    )
    members = [MemberSettings(0, columns=COLUMNS[sampler])]
    return Shard(make_spec(LENGTH), config, members, shard=shard, seed=3)


def draw(shard, num=32, **how):
    return wait(shard.sample(SampleRequest(0, num, view="steps", **how)), 5, "sample")


def items(keys):
    return [tuple(key) for key in keys.tolist()]


def write(shard, sampler, keys, rng, redraw=False):
    """Write random numbers in (0, 1); return them by item, where two keys are the same the later one."""
    values = rng.random((len(keys), 1)).astype(np.float32)
    writes = ColumnWrites(0, keys, {WRITTEN[sampler]: values}, redraw=redraw)
    wait(shard.write(writes), 5, "write")
    return dict(zip(items(keys), values[:, 0].tolist(), strict=True))


def stored(shard):
    """Return the keys of all stored steps."""
    index = shard._store.index
    generation = index.pages.generation
    return {
        (shard.shard, page, int(generation[page]), row)
        for page in index.live_pages.items.tolist()
        for row in np.flatnonzero(index.episode_of_row[page] >= 0).tolist()
    }


@pytest.mark.parametrize("mean_length", [2, 20])
@pytest.mark.parametrize("exponent", [0.5, 1.0])
def test_ners_keeps_what_the_naive_twin_keeps(mean_length, exponent):
    """Scores in a dict: 1 for what is new, whatever the others have; no share of the draws is uniform."""
    rng = np.random.default_rng(mean_length)
    shard = make_shard("ners", priority_exponent=exponent)
    sources = [Stream(shard.spec, rng, environment=e, mean_length=mean_length) for e in range(2)]
    scores = {}
    for turn in range(60):
        wait(shard.insert(join([source.next_unroll() for source in sources[: 1 + turn % 2]])), 5, "insert")
        if not shard.stats().result().num_steps:
            continue
        scores = {key: scores.get(key, 1.0) for key in stored(shard)}
        sample = draw(shard)
        total = sum(score**exponent for score in scores.values())
        for key, probability in zip(items(sample.keys), sample.probabilities.tolist(), strict=True):
            assert probability == pytest.approx(scores[key] ** exponent / total, rel=1e-6)
        scores |= write(shard, "ners", sample.keys, rng)
        shard.check_valid()
    assert shard.stats().result().ledger.removed > 20
    shard.close()


@pytest.mark.parametrize("mean_length", [2, 20])
def test_ero_draws_from_the_subset_that_was_decided(mean_length):
    """The subset in a set: decided anew when asked, all that is new joins, what is forgotten leaves."""
    rng = np.random.default_rng(mean_length)
    shard = make_shard("ero")
    sources = [Stream(shard.spec, rng, environment=e, mean_length=mean_length) for e in range(2)]
    known, subset, num_decided = set(), set(), 0
    for turn in range(80):
        wait(shard.insert(join([source.next_unroll() for source in sources[: 1 + turn % 2]])), 5, "insert")
        if not shard.stats().result().num_steps:
            continue
        here = stored(shard)
        subset = (subset | (here - known)) & here
        known = here
        sample = draw(shard)
        assert set(items(sample.keys)) <= (subset or here)
        np.testing.assert_allclose(sample.probabilities, 1.0 / len(subset or here))
        assert sample.num_stored == len(here)
        for key, kept in zip(items(sample.keys), sample.columns["ero_kept"][:, 0].tolist(), strict=True):
            assert kept == (key in subset)
        redraw = turn % 7 == 6
        write(shard, "ero", sample.keys, rng, redraw)
        if redraw:
            everything = draw(shard, len(here) * 30, uniform=True)
            kept = everything.columns["ero_kept"][:, 0] > 0
            assert set(items(everything.keys)) == here, "the look is too small to see everything"
            subset = {key for key, keeps in zip(items(everything.keys), kept.tolist(), strict=True) if keeps}
            num_decided += 0 < len(subset) < len(here)
        shard.check_valid()
    assert num_decided > 5
    assert shard.stats().result().ledger.removed > 20
    shard.close()


def test_ero_decides_with_the_written_chances():
    rng = np.random.default_rng(0)
    shard = make_shard("ero", capacity_unrolls=400)
    source = Stream(shard.spec, rng, mean_length=None)
    for _ in range(300):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    sample = draw(shard, 1)
    keys = np.zeros(1200, sample.keys.dtype)
    for place, key in enumerate(sorted(stored(shard))):
        keys[place] = key
    chances = np.where(np.arange(1200) % 2, 0.8, 0.1).astype(np.float32)[:, None]
    counts = np.zeros(1200)
    for _ in range(50):
        wait(shard.write(ColumnWrites(0, keys, {"ero_keep": chances}, redraw=True)), 5, "write")
        counts += draw(shard, 1200, keys=keys).columns["ero_kept"][:, 0]
    for parity, chance in ((0, 0.1), (1, 0.8)):
        total, expected = counts[parity::2].sum(), 50 * 600 * chance
        assert abs(total - expected) < 5 * np.sqrt(expected * (1 - chance))
    shard.close()


def test_where_nothing_is_kept_every_step_is_alike():
    shard = make_shard("ero")
    source = Stream(shard.spec, np.random.default_rng(1))
    for _ in range(10):
        wait(shard.insert(source.next_unroll()), 5, "insert")
    keys = draw(shard, 400).keys
    wait(shard.write(ColumnWrites(0, keys, {"ero_keep": np.zeros((400, 1), np.float32)}, redraw=True)), 5, "write")
    sample = draw(shard, 400)
    assert set(items(sample.keys)) == stored(shard)
    np.testing.assert_allclose(sample.probabilities, 1.0 / len(stored(shard)))
    wait(shard.insert(source.next_unroll()), 5, "insert")
    assert not set(items(draw(shard).keys)) & set(items(keys)), "new steps are kept"
    shard.close()


@pytest.mark.parametrize("sampler", ["ners", "ero"])
def test_draws_over_shards_follow_the_stated_probabilities(sampler):
    rng = np.random.default_rng(1)
    shards = [make_shard(sampler, capacity_unrolls=80, shard=k, num_shards=2) for k in range(2)]
    client = ShardedReplay(shards, seed=3)
    for actor, num in ((0, 30), (1, 10)):
        source = Stream(shards[0].spec, rng, actor=actor)
        for _ in range(num):
            wait(client.insert(source.next_unroll()), 5, "insert")
    for _ in range(10):
        write(client, sampler, draw(client).keys, rng)
    # One key is enough for both shards to decide anew.
    write(client, sampler, draw(client, 1).keys, rng, redraw=True)
    if sampler == "ero":
        assert all(
            0 < len(shard._members[0].samplers["steps"]._kept) < shard._store.index.num_steps for shard in shards
        )
    num, counts, stated = 0, Counter(), {}
    for _ in range(100):
        sample = draw(client, 200)
        counts.update(items(sample.keys))
        stated |= dict(zip(items(sample.keys), sample.probabilities.tolist(), strict=True))
        num += 200
    assert sum(stated.values()) == pytest.approx(1.0, abs=1e-9)
    assert (len(stated) < sample.num_stored) == (sampler == "ero")
    statistic = sum((counts[key] - num * p) ** 2 / (num * p) for key, p in stated.items())
    freedom = len(stated) - 1
    limit = freedom + 3.1 * np.sqrt(2 * freedom) + 8
    assert statistic < limit
    even = num / len(stated)
    assert sum((count - even) ** 2 / even for count in counts.values()) > limit
    for shard in shards:
        shard.close()


@pytest.mark.parametrize("sampler", ["ners", "ero"])
def test_what_was_saved_draws_alike(sampler):
    rng = np.random.default_rng(1)
    shard = make_shard(sampler)
    source = Stream(shard.spec, rng)
    for turn in range(30):
        wait(shard.insert(source.next_unroll()), 5, "insert")
        write(shard, sampler, draw(shard).keys, rng, redraw=turn % 10 == 9)
    other = make_shard(sampler)
    other.load_state_dict(saved(shard.state_dict()))
    for _ in range(3):
        one, again = draw(shard), draw(other)
        np.testing.assert_array_equal(one.keys, again.keys)
        np.testing.assert_array_equal(one.probabilities, again.probabilities)
        np.testing.assert_array_equal(one.num_draws, again.num_draws)
        for each in (shard, other):
            write(each, sampler, one.keys, np.random.default_rng(5), redraw=True)
    other.check_valid()
    shard.close()
    other.close()
