"""What every sampler keeps: it draws what is stored, with the probabilities it states."""

from collections import Counter

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import ColumnSpec, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.samplers import find_samplers, samplers_called
from replay_server.serving.shard import Shard
from replay_server.storage.columns import Columns

CASES = [(kind, view) for kind in find_samplers() for view in sorted(kind.views)]


def make_sampler(kind, index, view):
    """A sampler as a member makes it when it first draws."""
    names = [name for name in (kind.column, *kind.writes) if name]
    columns = Columns(index.pages, index.unroll_length, [ColumnSpec(name, 1.0) for name in names])
    sampler = kind(index, view, columns, ReplayConfig(sampler=kind.name))
    sampler.inserted(index.live_pages.items)
    return sampler


def chi_square_limit(freedom):
    """Return a bound above the upper 0.001 quantile of chi-square: alpha = 0.001, and seeds are fixed."""
    return freedom + 3.1 * np.sqrt(2 * freedom) + 8


@pytest.fixture(params=[3, 30])
def index(request):
    """A replay in use: short or long episodes, some forgotten, some open, pages shared by episodes."""
    rng = np.random.default_rng(1)
    spec = make_spec(4)
    shard = Shard(spec, ReplayConfig(capacity_steps=160, sequence_starts="step"), [MemberSettings(0)])
    streams = [Stream(spec, rng, environment=e, mean_length=request.param) for e in range(3)]
    for _ in range(25):
        wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")
    shard.check_valid()
    return shard._store.index


def test_names_and_views_are_unique():
    assert len({(kind.name, view) for kind, view in CASES}) == len(CASES) >= 6


def test_an_unknown_sampler_is_refused_with_those_there_are():
    with pytest.raises(ValueError, match=r"sampler must be one of .*uniform.*, got 'unifrom'"):
        samplers_called("unifrom")


@pytest.mark.parametrize(("kind", "view"), CASES)
def test_draws_follow_the_stated_probabilities(kind, view, index):
    num_draws = 40_000
    draw = make_sampler(kind, index, view).draw(num_draws, np.random.default_rng(7))
    live = index.episode_of_row >= 0
    items = list(zip(draw.pages.tolist(), draw.rows.tolist(), strict=True))
    counts, stated = Counter(items), dict(zip(items, draw.probabilities.tolist(), strict=True))
    stored = (
        {(p, r) for p, r in np.argwhere(live).tolist()}
        if view == "steps"
        else {(p, r) for p, r in np.argwhere(index.starts.allowed(np.arange(len(live)))).tolist()}
        if view == "sequences"
        else {(p, 0) for p in index.live_pages.items.tolist()}
    )
    assert draw.num_stored == len(stored)
    assert set(items) <= stored
    assert (draw.probabilities > 0).all()
    # Every item was drawn, so the stated probabilities are those of all items.
    drawable = {item for item in stored if view != "unrolls" or live[item[0]].any() or "episodes" not in kind.name}
    assert set(items) == drawable
    assert sum(stated.values()) == pytest.approx(1.0, abs=1e-9)
    statistic = sum((counts[i] - num_draws * p) ** 2 / (num_draws * p) for i, p in stated.items())
    assert statistic < chi_square_limit(len(stated) - 1)
    # The test can fail: every item's probability taken from its neighbour in another order.
    if len(set(np.round(list(stated.values()), 9))) > 1:
        shuffled = np.random.default_rng(0).permutation(list(stated.values()))
        wrong = sum((counts[i] - num_draws * p) ** 2 / (num_draws * p) for i, p in zip(stated, shuffled, strict=True))
        assert wrong > chi_square_limit(len(stated) - 1)


def test_a_biased_sampler_is_noticed(index):
    """Steps of a uniform page, without rejection, are not uniform: the limit above tells."""
    rng = np.random.default_rng(7)
    live = index.episode_of_row >= 0
    per_page = {page: np.flatnonzero(live[page]) for page in index.live_pages.items.tolist() if live[page].any()}
    pages = rng.choice(list(per_page), 40_000)
    counts = Counter((int(page), int(rng.choice(per_page[page]))) for page in pages)
    expected = 40_000 / index.num_steps
    assert sum((n - expected) ** 2 / expected for n in counts.values()) > chi_square_limit(index.num_steps - 1)


@pytest.mark.parametrize(("kind", "view"), CASES)
def test_the_same_generator_gives_the_same_draws(kind, view, index):
    draws = [make_sampler(kind, index, view).draw(64, np.random.default_rng(3)) for _ in range(2)]
    np.testing.assert_array_equal(draws[0].pages, draws[1].pages)
    np.testing.assert_array_equal(draws[0].rows, draws[1].rows)


def test_episodes_are_equally_likely_or_by_length(index):
    rng = np.random.default_rng(0)
    slots = np.array(sorted(slot for slot, episode in index.episodes.items() if episode.num_steps))
    lengths = index.steps_of_episode[slots]
    for name, expected in (
        ("episodes", np.full(len(slots), 1 / len(slots))),
        ("episodes_by_length", lengths / lengths.sum()),
    ):
        drawn = make_sampler(samplers_called(name)["steps"], index, "steps").draw_episodes(20_000, rng)
        counts = (drawn[:, None] == slots).sum(axis=0)
        assert ((counts - 20_000 * expected) ** 2 / (20_000 * expected)).sum() < chi_square_limit(len(slots) - 1)
