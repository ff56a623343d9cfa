"""Delayed draws: of a chosen age in versions, or of the nearest age there is."""

import numpy as np
import pytest
from replay_helpers import Stream, make_spec

from laser.ports import ColumnSpec, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.samplers.delayed import Delayed, DelayedSettings
from replay_server.serving.shard import Shard
from replay_server.storage.columns import Columns


def drawn_ages(made_at, num_draws=2_000, **settings):
    """Return the ages that are drawn, in order, and how often; one unroll of each of these versions is stored."""
    spec = make_spec(4)
    config = ReplayConfig(capacity_steps=400, sampler="delayed", sampler_settings=DelayedSettings(**settings))
    shard = Shard(spec, config, [MemberSettings(0)])
    stream = Stream(spec, np.random.default_rng(0))
    for version in made_at:
        unroll = stream.next_unroll()
        unroll.headers["parameter_version"] = version
        wait(shard.insert(unroll), 5, "insert")
    index = shard._store.index
    sampler = Delayed(index, "unrolls", Columns(index.pages, 4, [ColumnSpec("unused", 1.0)]), config)
    draw = sampler.draw(num_draws, np.random.default_rng(1))
    ages, counts = np.unique(max(made_at) - index.pages.headers["parameter_version"][draw.pages], return_counts=True)
    np.testing.assert_allclose(draw.probabilities, 1.0 / len(ages))
    np.testing.assert_allclose(counts, num_draws / len(ages), atol=4 * np.sqrt(num_draws))
    return ages.tolist()


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"versions": 0, "window": 1}, [0]),
        ({"versions": 0, "window": 3}, [0, 1, 2]),
        ({"versions": 5, "window": 2}, [5, 6]),
        ({"versions": 19, "window": 1}, [19]),
        ({"versions": 18, "window": 16}, [18, 19]),
    ],
)
def test_draws_lie_in_the_window(settings, expected):
    assert drawn_ages(range(20), **settings) == expected


def test_while_everything_is_too_young_the_oldest_is_drawn():
    assert drawn_ages(range(20), versions=64) == [19]


def test_where_everything_left_is_too_old_the_youngest_of_it_is_drawn():
    assert drawn_ages([0, 1, 2, 50, 51], versions=40, window=5) == [49]


def test_versions_do_not_have_to_come_in_order():
    assert drawn_ages([9, 3, 7, 10, 2, 8], versions=2, window=2) == [2, 3]
