"""Draws with a given number of items from a log: as many as asked for, and uniform in the log and outside of it."""

from collections import Counter

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec, saved

from laser.ports import ColumnSpec, PortError, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.samplers import find_samplers
from replay_server.samplers.prioritized import Prioritized
from replay_server.samplers.uniform_steps import UniformSteps
from replay_server.saving.spreading import spread
from replay_server.serving.shard import Shard

LENGTH = 4
SPEC = make_spec(LENGTH)
CASES = [(kind.name, view) for kind in find_samplers() if kind.draws_parts() for view in sorted(kind.views)]


def make(sampler="uniform", capacity_steps=520, log_share=0.5, shard=0, num_shards=1):
    """Return a shard that may draw from a log apart from others."""
    config = ReplayConfig(
        capacity_steps=capacity_steps,
        sampler=sampler,
        sequence_starts="step",
        log_share=log_share,
        num_shards=num_shards,
    )
    return Shard(SPEC, config, [MemberSettings(0, columns=(ColumnSpec("priority", 1.0),))], shard=shard, seed=5)


def fill(shard, num_of_log, num_own, mean_length=6):
    """Insert unrolls of a log and then of actors, so many of each of two environments; return their streams."""
    rng = np.random.default_rng(2)
    streams = {
        actor: [Stream(SPEC, rng, actor=actor, environment=e, mean_length=mean_length) for e in (0, 1)]
        for actor in (-1, 0)
    }
    for actor, num in ((-1, num_of_log), (0, num_own)):
        for _ in range(num):
            wait(shard.insert(join([stream.next_unroll() for stream in streams[actor]])), 5, "insert")
    shard.check_valid()
    return streams


def draw(shard, num_items, num_from_log, view="unrolls"):
    return wait(shard.sample(SampleRequest(0, num_items, view=view, num_from_log=num_from_log)), 5, "sample")


def items_of(sample):
    """Return (of a log, (page, row)) of each item, and count them."""
    keys = sample.keys if sample.keys.ndim == 1 else sample.keys[:, 0]
    places = zip(keys["page"].tolist(), keys["row"].tolist(), strict=True)
    return list(zip((sample.unrolls.headers["actor"] < 0).tolist(), places, strict=True))


def drawable(shard, view):
    """Return what may be drawn, of the log and of the rest, read from the pages one by one."""
    index = shard._store.index
    live = index.episode_of_row >= 0
    found = {True: set(), False: set()}
    for page in {page for episode in index.episodes.values() for page in episode.pages}:
        rows = [0] if view == "unrolls" else np.flatnonzero(live[page]).tolist()
        if view == "sequences":
            rows = np.flatnonzero(index.starts.allowed(np.array([page]))[0]).tolist()
        found[bool(index.pages.headers["actor"][page] < 0)] |= {(page, row) for row in rows}
    return found


def chi_square_limit(freedom):
    """Return a bound above the upper 0.001 quantile of chi-square: alpha = 0.001, and seeds are fixed."""
    return freedom + 3.1 * np.sqrt(2 * freedom) + 8


def test_some_sampler_of_each_view_can():
    assert {view for _, view in CASES} == {"unrolls", "steps", "sequences"}


class OtherDraws(UniformSteps):
    """Draws in another way; what it inherits for parts does not."""

    def draw(self, num_items, rng):
        return super().draw(num_items, rng)


class BothDraws(OtherDraws):
    def draw_part(self, part, num_items, rng):
        return super().draw_part(part, num_items, rng)


class Renamed(UniformSteps):
    pass


def test_a_sampler_with_other_draws_needs_its_own_for_parts():
    kinds = (UniformSteps, Renamed, OtherDraws, BothDraws, Prioritized)
    assert [kind.draws_parts() for kind in kinds] == [True, True, False, True, False]


@pytest.mark.parametrize("share", [0.0, 0.25, 1.0])
@pytest.mark.parametrize(("sampler", "view"), CASES)
def test_the_share_is_exact_and_draws_are_uniform_in_the_log_and_outside(sampler, view, share):
    shard = make(sampler)
    fill(shard, 30, 50)  # the oldest part of the log is forgotten by now
    expected = drawable(shard, view)
    assert all(len(items) > 20 for items in expected.values())
    num_items, num_draws = 400, 50
    counts, stated = Counter(), {}
    for _ in range(num_draws):
        sample = draw(shard, num_items, round(share * num_items), view)
        items = items_of(sample)
        assert sum(is_log for is_log, _ in items) == share * num_items
        counts.update(items)
        stated.update(zip(items, sample.probabilities.tolist(), strict=True))
        assert sample.num_stored == len(expected[True]) + len(expected[False])
        assert sample.num_stored_log == len(expected[True])
    for is_log, part in ((True, share), (False, 1.0 - share)):
        found = {item: num for (of_log, item), num in counts.items() if of_log == is_log}
        assert set(found) == (expected[is_log] if part else set())
        wanted = num_draws * num_items * part / len(expected[is_log])
        statistic = sum((num - wanted) ** 2 / wanted for num in found.values())
        assert statistic < chi_square_limit(len(expected[is_log]) - 1)
    assert sum(stated.values()) == pytest.approx(1.0)
    np.testing.assert_allclose([stated[item] for item in stated if item[0]], share / len(expected[True]))


@pytest.mark.parametrize("view", ["unrolls", "steps", "sequences"])
def test_without_a_number_draws_are_those_of_a_replay_that_knows_no_logs(view):
    drawn = []
    for log_share in (None, 0.5):
        shard = make(log_share=log_share)
        fill(shard, 30, 50)
        samples = [wait(shard.sample(SampleRequest(0, 64, view=view)), 5, "sample") for _ in range(3)]
        drawn.append([(sample.keys.tolist(), sample.probabilities.tolist(), sample.num_stored) for sample in samples])
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("view", ["unrolls", "steps", "sequences"])
def test_where_there_is_nothing_of_one_all_come_from_the_other(view):
    for num_of_log, num_own in ((9, 0), (0, 9)):
        shard = make()
        fill(shard, num_of_log, num_own)
        for num_from_log in (0, 3, 8):
            sample = draw(shard, 8, num_from_log, view)
            assert [is_log for is_log, _ in items_of(sample)] == [num_of_log > 0] * 8
            np.testing.assert_allclose(sample.probabilities, 1 / sample.num_stored)


@pytest.mark.parametrize("mean_length", [2, 6, None])
def test_the_parts_stay_right_while_a_full_replay_forgets_the_log(mean_length):
    shard = make(capacity_steps=25 * LENGTH)
    streams = fill(shard, 20, 0, mean_length)
    num_of_log = [shard.stats().result().num_stored_log]
    while num_of_log[-1].unrolls:
        wait(shard.insert(join([stream.next_unroll() for stream in streams[0]])), 5, "insert")
        shard.check_valid()  # recounts the parts
        num_of_log.append(shard.stats().result().num_stored_log)
        for view in ("unrolls", "steps", "sequences"):
            assert num_of_log[-1].of(view) == (len(drawable(shard, view)[True]) if num_of_log[-1].unrolls else 0)
    assert len(num_of_log) > 5
    assert not any(is_log for is_log, _ in items_of(draw(shard, 20, 10)))


def test_a_restored_replay_draws_on_from_the_same_log():
    shard = make()
    fill(shard, 30, 50)
    draw(shard, 7, 3)
    state = saved(shard.state_dict())
    restored = make()
    restored.load_state_dict(state)
    restored.check_valid()
    for view in ("unrolls", "steps", "sequences"):
        one, other = draw(shard, 40, 10, view), draw(restored, 40, 10, view)
        assert one.keys.tolist() == other.keys.tolist()
    # Whoever saved it may have drawn all items alike, and the other way round.
    plain = make(log_share=None)
    plain.load_state_dict(state)
    again = make()
    again.load_state_dict(saved(plain.state_dict()))
    again.check_valid()
    assert again.stats().result().num_stored_log == shard.stats().result().num_stored_log
    assert plain.stats().result().num_stored_log.unrolls == 0


def test_a_replay_on_another_number_of_shards_knows_the_log():
    shard = make()
    fill(shard, 30, 10)
    state, contents = shard.partial_state((), 0)
    shards = [make(shard=k, num_shards=2) for k in range(2)]
    for part, refill in zip(shards, spread([{**state, "contents": contents}], 2), strict=True):
        part.refill(refill)
        part._store.check_valid()
    # The log was read by actor -1, which belongs to the last shard now.
    assert [part.stats().result().num_stored_log.unrolls > 0 for part in shards] == [False, True]


def test_what_cannot_be_drawn_is_refused():
    plain, able = make(log_share=None), make()
    fill(plain, 3, 3)
    fill(able, 3, 3)
    for shard, request, wrong in (
        (plain, SampleRequest(0, 4, num_from_log=2), "cannot draw unrolls of a log apart from others"),
        (able, SampleRequest(0, 4, num_from_log=5), r"num_from_log must be in \[0, 4\], got 5"),
        (able, SampleRequest(0, 4, num_from_log=-1), r"num_from_log must be in \[0, 4\], got -1"),
        (able, SampleRequest(0, 4, view="streams", num_from_log=2), "cannot draw streams of a log"),
        (able, SampleRequest(0, 4, view="steps", uniform=True, num_from_log=2), "cannot draw steps of a log"),
        (make("per"), SampleRequest(0, 4, num_from_log=2), "cannot draw unrolls of a log"),
    ):
        with pytest.raises(PortError, match=wrong):
            wait(shard.sample(request), 5, "sample")
