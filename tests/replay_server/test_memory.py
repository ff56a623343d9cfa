"""The estimate is what a shard really holds, and the budget is kept."""

import pytest
from replay_helpers import make_atari_spec, make_real_spec, make_spec

from laser.ports import ColumnSpec
from replay_server.config import ReplayConfig
from replay_server.members import MemberSettings
from replay_server.memory import replay_bytes, shard_sizes
from replay_server.store import Store


@pytest.mark.parametrize(
    "spec", [make_spec(), make_spec(frames=True, core_state=True), make_atari_spec(), make_real_spec(1)]
)
@pytest.mark.parametrize("config", [ReplayConfig(capacity_steps=5000), ReplayConfig(999, 12_345, num_shards=3)])
def test_the_estimate_is_exact(spec, config):
    members = [MemberSettings(0, 17, columns=(ColumnSpec("priority"), ColumnSpec("value"))), MemberSettings(1)]
    assert Store(spec, config, members).num_bytes == shard_sizes(spec, config, members).num_bytes
    assert replay_bytes(spec, config, members) == config.num_shards * shard_sizes(spec, config, members).num_bytes


def test_a_million_atari_steps_take_at_most_800_megabytes():
    config = ReplayConfig(capacity_steps=1_000_000)
    num_bytes = replay_bytes(make_atari_spec(), config, [MemberSettings(0, online_capacity=64)])
    assert 0.6e9 < num_bytes <= 0.8e9


def test_a_small_replay_holds_frames_that_do_not_compress():
    spec = make_atari_spec()
    sizes = shard_sizes(spec, ReplayConfig(capacity_steps=320), [MemberSettings(0, online_capacity=64)])
    assert sizes.arena_bytes >= sizes.num_pages * 24 * 84 * 84
