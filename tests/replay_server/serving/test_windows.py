"""n-step windows against a literal loop over the stream they came from."""

import numpy as np
import pytest
from replay_helpers import Stream, make_spec

from laser.ports import PortError, SampleRequest, wait
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard


def literal_window(log, row, num_steps, discount, stored_rows, mistake=None):
    """Return (reward sum, what remains, terminated, row of the bootstrap observation) of the window from `row` on."""
    total, remaining = 0.0, 1.0
    for k in range(num_steps):
        _, _, valid, terminated = log[row + k]
        if row + k >= stored_rows or (not valid and mistake != "ignores truncation"):
            return total, remaining, False, row + k
        total += remaining * (row + k)
        remaining *= discount
        if terminated:
            if mistake == "bootstraps after termination":
                return total, remaining, True, row + k + 1
            return total, 0.0, True, row + k + 1
    return total, remaining, False, row + num_steps


def stored_shard(num_unrolls, unroll_length=4, **kwargs):
    spec = make_spec(unroll_length, **kwargs)
    shard = Shard(spec, ReplayConfig(capacity_steps=10_000), [MemberSettings(0)])
    stream = Stream(spec, np.random.default_rng(3), mean_length=7)
    for _ in range(num_unrolls):
        wait(shard.insert(stream.next_unroll()), 5, "insert")
    return shard, stream


def mismatches(shard, stream, num_unrolls, num_steps, mistake=None):
    sample = wait(shard.sample(SampleRequest(0, 600, view="steps", n_step=num_steps, discount=0.9)), 5, "sample")
    fields, wrong = sample.unrolls.fields, 0
    seen = set()
    for i in range(600):
        row = int(fields["observations/observation"][i, 0, 0])
        expected = literal_window(stream.log, row, num_steps, 0.9, num_unrolls * stream.spec.unroll_length, mistake)
        actual = (
            fields["rewards"][i, 0],
            sample.discounts[i, 0],
            bool(fields["terminated"][i, 0]),
            int(fields["observations/observation"][i, 1, 0]),
        )
        wrong += not (np.allclose(actual[:2], expected[:2], rtol=1e-5) and actual[2:] == expected[2:])
        length = expected[3] - row
        seen.add((expected[2], length < num_steps, row % 4 + length > 4))
    return wrong, seen


@pytest.mark.parametrize("num_steps", [1, 2, 3, 5, 11])
def test_windows_equal_the_literal_loop(num_steps):
    shard, stream = stored_shard(60)
    wrong, seen = mismatches(shard, stream, 60, num_steps)
    assert wrong == 0
    assert {terminated for terminated, _, _ in seen} == {True, False}
    if num_steps > 1:
        assert any(not terminated and short for terminated, short, _ in seen), "no truncation was reached"
        assert any(crosses for _, _, crosses in seen), "no window crossed a page"
    shard.close()


@pytest.mark.parametrize("mistake", ["ignores truncation", "bootstraps after termination"])
def test_the_data_can_tell_a_wrong_window(mistake):
    shard, stream = stored_shard(60)
    assert mismatches(shard, stream, 60, 5, mistake)[0] > 0
    shard.close()


def test_a_window_ends_where_a_lost_unroll_was():
    spec = make_spec()
    shard = Shard(spec, ReplayConfig(capacity_steps=10_000), [MemberSettings(0)])
    stream = Stream(spec, np.random.default_rng(0), mean_length=1000)
    for sequence in (0, 1, 3):  # 2 never comes
        wait(shard.insert(stream.unroll(sequence)), 5, "insert")
    sample = wait(shard.sample(SampleRequest(0, 300, view="steps", n_step=6)), 5, "sample")
    observations = sample.unrolls.fields["observations/observation"][:, :, 0]
    limits = np.where(observations[:, 0] < 8, 8, 16)
    np.testing.assert_array_equal(observations[:, 1], np.minimum(observations[:, 0] + 6, limits))
    shard.close()


def test_nothing_after_a_termination_is_summed_even_where_the_rows_go_on():
    """A lost life may end an episode for the learner while the environment goes on."""
    spec = make_spec()
    shard = Shard(spec, ReplayConfig(capacity_steps=100), [MemberSettings(0)])
    unroll = Stream(spec, np.random.default_rng(0), mean_length=None).next_unroll()
    unroll.fields["terminated"][0, 1] = True
    wait(shard.insert(unroll), 5, "insert")
    sample = wait(shard.sample(SampleRequest(0, 100, view="steps", n_step=4)), 5, "sample")
    rows, rewards = sample.keys["row"], sample.unrolls.fields["rewards"][:, 0]
    assert (sample.discounts[rows <= 1] == 0).all()
    assert rewards[rows == 0].tolist() == [1.0] * (rows == 0).sum()  # rewards 0 and 1
    assert rewards[rows == 2].tolist() == [5.0] * (rows == 2).sum()  # rewards 2 and 3
    shard.close()


def test_single_steps_carry_their_own_headers_and_last_actions():
    shard, stream = stored_shard(30)
    sample = wait(shard.sample(SampleRequest(0, 400, view="steps")), 5, "sample")
    fields = sample.unrolls.fields
    rows = fields["observations/observation"][:, 0, 0].astype(int)
    log = [stream.log[row] for row in rows]
    np.testing.assert_array_equal(sample.unrolls.headers["episode"], [row[0] for row in log])
    np.testing.assert_array_equal(sample.unrolls.headers["step_in_episode"], [row[1] for row in log])
    np.testing.assert_array_equal(fields["first"][:, 0], [row[1] == 0 for row in log])
    last_actions = [0 if entry[1] == 0 else (row - 1) % 3 for row, entry in zip(rows, log, strict=True)]
    np.testing.assert_array_equal(fields["last_action"], last_actions)
    last_rewards = [0 if entry[1] == 0 else row - 1 for row, entry in zip(rows, log, strict=True)]
    np.testing.assert_array_equal(fields["last_reward"], last_rewards)
    np.testing.assert_array_equal(fields["actions"][:, 0], rows % 3)
    np.testing.assert_array_equal(sample.keys["row"], rows % 4)
    shard.close()


def test_image_windows_point_at_the_rows_that_were_drawn():
    shard, stream = stored_shard(30, frames=True)
    sample = wait(shard.sample(SampleRequest(0, 200, view="steps", n_step=3)), 5, "sample")
    assert sample.unrolls.frames == {}
    windows = sample.frame_windows
    observations = sample.unrolls.fields["observations/observation"][:, :, 0].astype(int)
    for i in range(200):
        for boundary in range(2):
            unroll, row = windows.unrolls[i, boundary], int(windows.rows[i, boundary])
            sequence = (observations[i, boundary] - row) // 4
            assert sequence * 4 + row == observations[i, boundary]
            np.testing.assert_array_equal(windows.frames["image"][unroll], stream.blob(sequence))
            first = [entry[1] == 0 for entry in stream.log[sequence * 4 : sequence * 4 + 5]]
            np.testing.assert_array_equal(windows.first[unroll], first)
    assert len(windows.first) <= 30
    shard.close()


def test_each_reward_is_clipped_before_the_sum():
    shard, _ = stored_shard(60)
    for num_steps in (1, 5):
        request = SampleRequest(0, 300, view="steps", n_step=num_steps, discount=0.9, reward_clip=7.0)
        sample = wait(shard.sample(request), 5, "sample")
        rows = sample.unrolls.fields["observations/observation"][:, 0, 0].astype(int)
        ends = sample.unrolls.fields["observations/observation"][:, 1, 0].astype(int)
        expected = [
            sum(0.9**k * min(row + k, 7) for k in range(end - row)) for row, end in zip(rows, ends, strict=True)
        ]
        np.testing.assert_allclose(sample.unrolls.fields["rewards"][:, 0], expected, rtol=1e-5)
        assert (rows > 7).any()
        assert (rows < 7).any()
    with pytest.raises(PortError, match="reward_clip must be above 0, got 0"):
        wait(shard.sample(SampleRequest(0, 3, view="steps", reward_clip=0.0)), 5, "sample")
    shard.close()
