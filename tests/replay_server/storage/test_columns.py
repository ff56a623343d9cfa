"""Mutable columns: a naive dict of rows, stale writes, refusals."""

import numpy as np
import pytest
from replay_helpers import Stream, join, make_spec

from laser.ports import ColumnSpec, ColumnWrites, PortError, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

COLUMNS = (ColumnSpec("priority", 1.0), ColumnSpec("value", -2.0))


def make_shard(capacity_steps=60):
    members = [MemberSettings(0, columns=COLUMNS), MemberSettings(1, columns=COLUMNS[:1])]
    return Shard(make_spec(), ReplayConfig(capacity_steps=capacity_steps), members)


@pytest.mark.parametrize("view", ["unrolls", "steps"])
def test_columns_equal_a_dict_keyed_by_observation(view):
    rng = np.random.default_rng(0)
    shard, naive, held, num_stale = make_shard(), {}, [], 0
    streams = [Stream(shard.spec, rng, environment=e) for e in range(2)]
    for _ in range(200):
        wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")
        sample = wait(shard.sample(SampleRequest(0, 4, view=view)), 5, "sample")
        observations = sample.unrolls.fields["observations/observation"][:, : sample.columns["value"].shape[1], 0]
        expected = np.vectorize(lambda row: naive.get(row, -2.0))(observations)
        np.testing.assert_array_equal(sample.columns["value"], expected)
        assert (sample.columns["priority"] == 1.0).all()
        held.append((sample.keys, observations))
        if len(held) < 8:
            continue
        keys, rows = held.pop(int(rng.integers(len(held))))  # some writes come late
        values = rng.normal(size=rows.shape).astype(np.float32)
        generations = shard._store.pages.generation[keys["page"]]
        receipt = wait(shard.write(ColumnWrites(0, keys, {"value": values})), 5, "write")
        fresh = generations == keys["generation"]
        assert (receipt.num_written, receipt.num_stale) == (fresh.sum() * rows.shape[1], (~fresh).sum() * rows.shape[1])
        num_stale += receipt.num_stale
        for i in np.flatnonzero(fresh):
            naive.update(zip(rows[i].tolist(), values[i].tolist(), strict=True))
    assert num_stale > 0
    assert shard.stats().result().ledger.stale_rows == num_stale
    foreign = wait(shard.sample(SampleRequest(1, 8)), 5, "sample")
    assert set(foreign.columns) == {"priority"}
    shard.close()


def test_writes_that_make_no_sense_are_refused_and_change_nothing():
    shard = make_shard()
    wait(shard.insert(Stream(shard.spec, np.random.default_rng(0)).next_unroll()), 5, "insert")
    sample = wait(shard.sample(SampleRequest(0, 2)), 5, "sample")
    keys, good = sample.keys, np.zeros((2, 4), np.float32)
    far, outside = keys.copy(), keys.copy()
    far["row"], outside["page"] = 1, 99
    wrong = [
        (ColumnWrites(7, keys, {"value": good}), "member must be one of"),
        (ColumnWrites(0, keys, {"valeu": good}), "column 'valeu' was not declared"),
        (ColumnWrites(1, keys, {"value": good}), "column 'value' was not declared"),
        (ColumnWrites(0, keys, {"value": good[:1]}), "needs values of shape"),
        (ColumnWrites(0, far, {"value": good}), "rows must stay within"),
        (ColumnWrites(0, outside, {"value": good}), "pages outside"),
        (ColumnWrites(0, keys, {"priority": good, "value": good * np.nan}), "not finite"),
    ]
    for writes, message in wrong:
        with pytest.raises(PortError, match=message):
            wait(shard.write(writes), 5, "write")
    stored = wait(shard.sample(SampleRequest(0, 20)), 5, "sample")
    assert (stored.columns["priority"] == 1.0).all()
    assert (stored.columns["value"] == -2.0).all()
    shard.close()
