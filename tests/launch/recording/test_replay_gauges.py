"""What a real shard says of itself, told as gauges."""

import numpy as np
import pytest

from laser.ports import SampleRequest, wait
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from launch.recording.replay_gauges import ReplayGauges
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

SPEC = UnrollSpec(
    4, EnvironmentSpec("Test-v0", {"observation": VectorSpec((1,))}, DiscreteActions(2)), {"logits": ArraySpec((2,))}
)


def unrolls(sequence, actor=0):
    header = np.zeros(1, HEADER_DTYPE)
    header["sequence"], header["actor"] = sequence, actor
    fields = {name: np.zeros((1, *SPEC.shape(name)), item.array.dtype) for name, item in SPEC.fields.items()}
    fields["valid"][:] = True
    return Unrolls(header, fields)


@pytest.fixture
def shards():
    made = [
        Shard(SPEC, ReplayConfig(capacity_steps=400, num_shards=2), [MemberSettings(0, 8)], shard=k) for k in range(2)
    ]
    yield made
    for shard in made:
        shard.close()


def look(look_, shards, now):
    return look_.gauges(wait(ShardedReplay(shards).stats(), 5, "stats"), now)


def test_fill_pace_and_both_ledgers(shards):
    replay, told = ShardedReplay(shards), ReplayGauges(0)
    before = look(told, shards, 100.0)
    assert before["replay/num_steps"] == before["ledger/inserted"] == 0.0
    assert "replay/samples_per_insert" not in before
    assert not any(name.startswith("throughput") for name in before)
    for sequence in range(3):
        for actor in (0, 1):
            wait(replay.insert(unrolls(sequence, actor)), 5, "insert")
    broken = unrolls(3)
    broken.fields["rewards"][:] = np.nan
    wait(replay.insert(broken), 5, "insert")
    wait(replay.sample(SampleRequest(0, 12, timeout_s=5)), 5, "sample")
    after = look(told, shards, 102.0)
    assert after["replay/num_steps"] == 24.0
    assert after["replay/capacity_steps"] >= 400.0
    assert after["replay/samples_per_insert"] == 2.0
    assert (after["throughput/inserting"], after["throughput/sampling"]) == (12.0, 24.0)
    assert after["ledger/received"] == after["ledger/inserted"] + after["ledger/rejected"] == 7.0
    assert after["ledger/rejected"] == sum(v for k, v in after.items() if k.startswith("ledger/rejected/")) == 1.0
    assert after["ledger/inserted"] == after["ledger/stored"] + after["ledger/removed"]
    assert after["ledger/online/inserted"] == after["ledger/online/queued"] == after["replay/online_queued"] == 6.0
    assert [after[f"ledger/imbalance/{name}"] for name in ("received", "inserted", "online")] == [0.0] * 3
    assert after["replay/shards_alive"] == 2.0


def test_a_lost_shard_makes_no_negative_pace(shards):
    told = ReplayGauges(0)
    wait(ShardedReplay(shards).insert(unrolls(0)), 5, "insert")
    look(told, shards, 1.0)
    shards[0].close()
    after = look(told, shards, 2.0)
    assert after["replay/shards_alive"] == 1.0
    assert "throughput/inserting" not in after
    assert look(told, shards, 3.0)["throughput/inserting"] == 0.0
