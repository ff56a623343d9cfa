"""The estimate is what a shard really holds, and the budget is kept."""

import pytest
from replay_helpers import make_atari_spec, make_real_spec, make_spec

from laser.ports import ColumnSpec
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings, RateLimit
from replay_server.samplers.prioritized import Prioritized
from replay_server.store.sizes import replay_bytes, shard_sizes
from replay_server.store.store import Store


@pytest.mark.parametrize(
    "spec", [make_spec(), make_spec(frames=True, core_state=True), make_atari_spec(), make_real_spec(1)]
)
@pytest.mark.parametrize(
    "config",
    [
        ReplayConfig(capacity_steps=5000),
        ReplayConfig(999, 12_345, num_shards=3),
        ReplayConfig(capacity_steps=5000, log_share=0.5),
    ],
)
def test_the_estimate_is_exact(spec, config):
    members = [MemberSettings(0, 17, columns=(ColumnSpec("priority"), ColumnSpec("value"))), MemberSettings(1)]
    assert Store(spec, config, members).num_bytes == shard_sizes(spec, config, members).num_bytes
    assert replay_bytes(spec, config, members) == config.num_shards * shard_sizes(spec, config, members).num_bytes


def test_what_a_sampler_keeps_counts_for_each_member_that_has_its_column(monkeypatch):
    spec, members = make_spec(), [MemberSettings(0, columns=(ColumnSpec("priority"),)), MemberSettings(1)]
    sizes = []
    for column in ("priority", ""):  # without a column it serves both members
        monkeypatch.setattr(Prioritized, "column", column)
        for bytes_per_step in (0, 10):
            monkeypatch.setattr(Prioritized, "bytes_per_step", bytes_per_step)
            sizes.append(shard_sizes(spec, ReplayConfig(1000, sampler="per"), members).num_bytes)
    assert sizes[1] - sizes[0] == 10 * 1000
    assert sizes[3] - sizes[2] == 2 * 10 * 1000


def test_positions_are_those_of_the_capacities():
    config = ReplayConfig(999, 12_345)
    assert (config.capacity_steps, config.capacity_bytes) == (999, 12_345)


def test_a_million_atari_steps_take_at_most_800_megabytes():
    config = ReplayConfig(capacity_steps=1_000_000)
    num_bytes = replay_bytes(make_atari_spec(), config, [MemberSettings(0, online_capacity=64)])
    assert 0.6e9 < num_bytes <= 0.8e9


def test_a_small_replay_holds_frames_that_do_not_compress():
    spec = make_atari_spec()
    sizes = shard_sizes(spec, ReplayConfig(capacity_steps=320), [MemberSettings(0, online_capacity=64)])
    assert sizes.arena_bytes >= sizes.num_pages * 24 * 84 * 84


def test_what_waits_for_the_learner_has_room_whatever_it_compresses_to():
    """Unrolls in queues are not forgotten, and none is taken before `min_steps`: without room all would wait."""
    spec, raw_bytes = make_atari_spec(), 24 * 84 * 84
    large = ReplayConfig(capacity_steps=100_000)
    rate = RateLimit(min_steps=80_000, max_insert_steps=320)
    queued = MemberSettings(0, online_capacity=64, rate=rate)
    assert shard_sizes(spec, large, [queued]).arena_bytes >= (4_000 + 16) * raw_bytes
    few = MemberSettings(0, rate=rate)  # without a queue any unroll may be forgotten
    assert shard_sizes(spec, large, [few]).arena_bytes < 1_000 * raw_bytes
