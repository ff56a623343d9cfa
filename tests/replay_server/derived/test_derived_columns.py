"""What a shard derives, against naive recounts and the torch scan, under random operations."""

import math

import numpy as np
import pytest
import torch
from replay_helpers import Stream, join, make_keys, make_spec

from laser.ops.q_retrace import q_retrace_targets
from laser.ports import ColumnSpec, ColumnWrites, PortError, RetraceSpec, SampleRequest, Sweep, wait
from laser.specs import ArraySpec
from laser.unroll import UnrollSpec
from replay_server.client.sharded_replay import ShardedReplay
from replay_server.config import ReplayConfig
from replay_server.derived.step_sums import StepSums
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

LENGTH = 4
RATIO = ColumnSpec("rho", 1.0, far_bound=2.0)
RACER = (
    RATIO,
    ColumnSpec("value", initial_from="value"),
    ColumnSpec("advantage"),
    ColumnSpec("q_retrace", retrace=RetraceSpec(0.9, "value", "rho", "advantage", lambda_=0.95)),
)


def make_shard(columns=(RATIO,), capacity_pages=15, spec=None, remover="far_policy", **options):
    config = ReplayConfig(capacity_steps=capacity_pages * LENGTH, remover=remover)
    return Shard(spec or make_spec(LENGTH), config, [MemberSettings(0, columns=columns, **options)])


def insert(shard, streams):
    wait(shard.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")


def draw(shard, num_items=8, view="steps"):
    return wait(shard.sample(SampleRequest(0, num_items, view=view)), 5, "sample")


def live_numbers(shard):
    index = shard._store.index
    return index.pages.fields["observations/observation"][:, :LENGTH, 0][index.episode_of_row >= 0].tolist()


@pytest.mark.parametrize("mean_length", [2, 8, None])
@pytest.mark.parametrize("remover", ["fifo", "far_policy"])
def test_far_steps_are_those_of_a_recount_whatever_happens(mean_length, remover):
    rng = np.random.default_rng(3)
    shard = make_shard(remover=remover)
    streams = [Stream(make_spec(LENGTH), rng, environment=e, mean_length=mean_length) for e in range(3)]
    ratios, bound, old_samples, most = {}, 2.0, [], 0
    for step in range(80):
        insert(shard, [stream for stream in streams if rng.random() < 0.5] or streams[:1])
        if rng.random() < 0.2:
            bound = float(1.0 + rng.exponential(2.0))
        sample = draw(shard, 12)
        old_samples.append(sample)
        for written in (sample, old_samples[int(rng.integers(len(old_samples)))]):  # the second may be stale
            values = np.exp(rng.normal(0, 1.5, (12, 1))).astype(np.float32)
            bounds = {"rho": bound} if rng.random() < 0.5 else {}
            known = shard._store.derived[0].far["rho"].bound
            wait(shard.write(ColumnWrites(0, written.keys, {"rho": values}, far_bounds=bounds)), 5, "write")
            bound = bound if bounds else known
            numbers = written.unrolls.fields["observations/observation"][:, 0, 0]
            ratios |= dict(zip(numbers.tolist(), values[:, 0].tolist(), strict=True))
        shard.check_valid()
        live = live_numbers(shard)
        num_far = sum(not 1 / bound < ratios.get(number, 1.0) < bound for number in live)
        statistics = draw(shard).statistics
        assert statistics["num_far/rho"] == num_far
        assert statistics["num_steps"] == len(live)
        most = max(most, num_far)
        if step == 40:  # a saved shard counts on
            other = make_shard(remover=remover)
            other.load_state_dict(shard.state_dict())
            other.check_valid()
            assert draw(other).statistics["num_far/rho"] == num_far
    assert most > 5
    shard.close()


def test_a_count_that_forgets_to_subtract_is_noticed():
    rng = np.random.default_rng(0)
    shard = make_shard()
    stream = Stream(make_spec(LENGTH), rng, mean_length=5)
    for _ in range(6):
        insert(shard, [stream])
    sample = draw(shard, 20)
    wait(shard.write(ColumnWrites(0, sample.keys, {"rho": np.full((20, 1), 9.0, np.float32)})), 5, "write")
    shard.check_valid()
    store = shard._store
    episode = next(e for e in store.index.finished.values() if store.index.far_of_episode[e.slot])
    store._freed(store.index.forget(episode))  # not through the store
    with pytest.raises(AssertionError):
        store.check_valid()


def test_the_episode_with_the_largest_far_fraction_goes_first_and_ties_go_to_the_oldest():
    rng = np.random.default_rng(0)
    shard = make_shard(capacity_pages=40)
    stream = Stream(make_spec(LENGTH), rng, mean_length=6)
    for _ in range(20):
        insert(shard, [stream])
    index, remover = shard._store.index, shard._store._remover
    finished = list(index.finished.values())
    assert remover.choose(index) is finished[0]
    # Every step of the fourth and fifth episode, and one of a later and longer one.
    rows = index.episode_of_row
    later = max(finished[5:], key=lambda episode: episode.num_steps)
    chosen = [*np.argwhere(np.isin(rows, [finished[3].slot, finished[4].slot])), np.argwhere(rows == later.slot)[0]]
    pages, places = np.array(chosen).T
    keys = make_keys(0, pages, index.pages.generation[pages], places)
    wait(shard.write(ColumnWrites(0, keys, {"rho": np.full((len(keys), 1), 0.1, np.float32)})), 5, "write")
    assert later.num_steps > 1
    order = []
    for _ in range(4):
        episode = remover.choose(index)
        order.append(episode)
        for derived in shard._store.derived.values():
            derived.forget(episode)
        shard._store._freed(index.forget(episode))
    assert [episode.slot for episode in order] == [e.slot for e in (finished[3], finished[4], later, finished[0])]
    shard.check_valid()


def make_racer_spec():
    spec = make_spec(LENGTH)
    return UnrollSpec(LENGTH, spec.environment, {**spec.behaviour, "value": ArraySpec(())})


class RacerStream(Stream):
    def unroll(self, sequence):
        unroll = super().unroll(sequence)
        rng = np.random.default_rng([self.environment, sequence])
        unroll.fields["mu/value"][...] = rng.normal(size=(1, LENGTH))
        unroll.fields["rewards"][...] = rng.normal(size=(1, LENGTH))
        return unroll


def expected_retrace(index, arrays, episode, discount, lambda_):
    """Return Q-retrace of an episode's stored rows by the torch scan, and the rows."""
    rows = []
    for place, page in enumerate(episode.pages):
        start = episode.start_row if place == 0 else 0
        stop = episode.stop_row if place == len(episode.pages) - 1 else LENGTH
        rows += [(page, row) for row in range(start, stop)]
    at = tuple(np.array(rows).T)

    def column(array):
        return torch.tensor(array[at].astype(np.float64)).unsqueeze(-1)

    fields = index.pages.fields
    valid = fields["valid"][at].copy()
    terminated = fields["terminated"][at]
    known = valid.copy()
    known[-1] &= terminated[-1]  # what follows is not stored
    values = column(arrays["value"])
    targets = q_retrace_targets(
        torch.cat([values, values[-1:]]),
        column(arrays["advantage"]),
        column(arrays["rho"]),
        column(fields["rewards"]),
        torch.tensor(discount * ~terminated).unsqueeze(-1),
        lambda_=lambda_,
        valid=torch.tensor(known).unsqueeze(-1),
    )
    return at, valid, targets.squeeze(-1).numpy()


def worst_error(shard, discount, lambda_=0.95):
    index, arrays = shard._store.index, shard._store.members[0].columns.arrays
    worst = 0.0
    for episode in index.episodes.values():
        at, valid, targets = expected_retrace(index, arrays, episode, discount, lambda_)
        worst = max(worst, np.abs(arrays["q_retrace"][at] - targets)[valid].max(initial=0.0))
    return worst


@pytest.mark.parametrize("mean_length", [3, 20, None])
@pytest.mark.parametrize("reach", ["episodes", "changed", "all"])
def test_q_retrace_is_that_of_the_torch_scan(reach, mean_length):
    rng = np.random.default_rng(5)
    spec = make_racer_spec()
    shard = make_shard(RACER, capacity_pages=30, spec=spec)
    streams = [RacerStream(spec, rng, environment=e, mean_length=mean_length) for e in range(2)]
    discount = 0.9
    for step in range(60):
        insert(shard, streams)
        assert worst_error(shard, discount) < 2e-6
        discount = 0.9 if step < 30 else 0.97
        sample = draw(shard, 6)
        values = {
            "rho": np.exp(rng.normal(size=(6, 1))),
            "value": rng.normal(size=(6, 1)),
            "advantage": rng.normal(size=(6, 1)),
        }
        values = {name: value.astype(np.float32) for name, value in values.items()}
        final = {"value": rng.normal(size=6).astype(np.float32)}
        # Another discount concerns everything, not only the episodes written to.
        sweep = Sweep("all" if step in (30, 31) else reach, discount)
        before = shard._store.members[0].columns.arrays["value"].copy()
        wait(shard.write(ColumnWrites(0, sample.keys, values, final_values=final, sweep=sweep)), 5, "write")
        check_final_values(shard, sample, final["value"], before)
        assert worst_error(shard, discount) < 2e-6
    shard.check_valid()
    shard.close()


def check_final_values(shard, sample, final, before):
    """Where a drawn step is followed by an episode's final observation, its value has been written; else it has not."""
    index, after = shard._store.index, shard._store.members[0].columns.arrays["value"]
    written = {(int(key["page"]), int(key["row"])) for key in sample.keys}
    expected = {}
    for key, value in zip(sample.keys, final, strict=True):
        page, row = int(key["page"]), int(key["row"]) + 1
        if row == LENGTH:
            page, row = int(index.next_page[page]), 0
        if page >= 0 and not index.pages.fields["valid"][page, row]:
            expected[page, row] = value
    for place in np.argwhere(after != before).tolist():
        assert tuple(place) in written or tuple(place) in expected
    for place, value in expected.items():
        assert after[place] == value


def test_columns_start_from_what_the_own_policy_said_and_from_constants_elsewhere():
    spec, rng = make_racer_spec(), np.random.default_rng(0)
    shard = Shard(
        spec, ReplayConfig(capacity_steps=100), [MemberSettings(0, columns=RACER), MemberSettings(1, columns=RACER)]
    )
    insert(shard, [RacerStream(spec, rng, environment=0, member=0), RacerStream(spec, rng, environment=1, member=1)])
    store = shard._store
    said = store.pages.fields["mu/value"]
    members = store.pages.headers["member"]
    for number, member in store.members.items():
        own = members[store.index.live_pages.items] == number
        pages = store.index.live_pages.items
        assert (member.columns.arrays["value"][pages[own]] == said[pages[own]]).all()
        assert (member.columns.arrays["value"][pages[~own]] == 0.0).all()


def test_a_sweep_that_does_not_go_back_is_told_apart():
    rng, spec = np.random.default_rng(5), make_racer_spec()
    shard = make_shard(RACER, capacity_pages=30, spec=spec)
    stream = RacerStream(spec, rng, mean_length=None)
    for _ in range(25):
        insert(shard, [stream])
    sample = draw(shard, 2)
    values = {"value": rng.normal(size=(2, 1)).astype(np.float32)}
    wait(shard.write(ColumnWrites(0, sample.keys, values, sweep=Sweep("none", 0.9))), 5, "write")
    assert worst_error(shard, 0.9) > 1e-2
    wait(shard.write(ColumnWrites(0, sample.keys, values, sweep=Sweep("changed", 0.9, tolerance=10.0))), 5, "write")
    assert worst_error(shard, 0.9) > 1e-3, "the tolerance has no effect"
    wait(shard.write(ColumnWrites(0, sample.keys, values, sweep=Sweep("episodes", 0.9))), 5, "write")
    assert worst_error(shard, 0.9) < 2e-6


@pytest.mark.parametrize("num_shards", [1, 2])
def test_sums_are_those_of_what_is_stored(num_shards):
    rng, spec = np.random.default_rng(1), make_spec(LENGTH, vector_size=3)
    settings = [MemberSettings(0, needs_statistics=True)]
    config = ReplayConfig(capacity_steps=20 * LENGTH * num_shards, num_shards=num_shards)
    shards = [Shard(spec, config, settings, shard=k, seed=k) for k in range(num_shards)]
    replay = shards[0] if num_shards == 1 else ShardedReplay(shards, seed=0)
    streams = [Stream(spec, rng, actor=e, mean_length=7) for e in range(4)]
    for _ in range(60):
        wait(replay.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")
        for shard in shards:
            shard.check_valid()
        sums = wait(replay.sample(SampleRequest(0, 64, view="steps")), 5, "sample").statistics
        rewards, seen = [], []
        for shard in shards:
            index = shard._store.index
            live = index.episode_of_row >= 0
            rewards += index.pages.fields["rewards"][live].tolist()
            seen.append(index.pages.fields["observations/observation"][:, :LENGTH][live])
        assert (sums["num_steps"], sums["num_rewarded"]) == (len(rewards), np.count_nonzero(rewards))
        assert sums["reward_squares"] == pytest.approx(np.square(rewards).sum(), rel=1e-9)
        np.testing.assert_allclose(sums["observation/observation"], np.concatenate(seen).sum(0, dtype=float), rtol=1e-9)
        squares = np.square(np.concatenate(seen).astype(float)).sum(0)
        np.testing.assert_allclose(sums["observation_squares/observation"], squares, rtol=1e-9)


def test_a_huge_reward_that_has_left_leaves_nothing_behind():
    rng, spec = np.random.default_rng(1), make_spec(LENGTH, vector_size=3)
    shard = Shard(spec, ReplayConfig(capacity_steps=10 * LENGTH), [MemberSettings(0, needs_statistics=True)])
    stream = Stream(spec, rng, mean_length=7)
    for turn in range(80):
        unroll = stream.next_unroll()
        if turn == 2:
            unroll.fields["rewards"][:] = 1e12
        wait(shard.insert(unroll), 5, "insert")
    shard.check_valid()


def test_a_huge_reward_swallows_nothing_of_what_comes_and_goes_beside_it(monkeypatch):
    monkeypatch.setattr(StepSums, "recount", lambda sums: pytest.fail("it would hide what was swallowed"))
    rng, spec = np.random.default_rng(1), make_spec(LENGTH, vector_size=3)
    shard = Shard(spec, ReplayConfig(capacity_steps=40 * LENGTH), [MemberSettings(0, needs_statistics=True)])
    stream, largest = Stream(spec, rng, mean_length=7), []
    for turn in range(60):
        unroll = stream.next_unroll()
        unroll.fields["rewards"][:] = rng.random(unroll.fields["rewards"].shape)
        if turn == 10:
            unroll.fields["rewards"][:, 1] = 1e9
        wait(shard.insert(unroll), 5, "insert")
        index = shard._store.index
        rewards = index.pages.fields["rewards"][index.episode_of_row >= 0].astype(float)
        assert shard._store.derived[0].sums.sums["reward_squares"] == pytest.approx(math.fsum(rewards**2), rel=1e-12)
        largest.append(rewards.max())
    assert max(largest) == 1e9
    assert largest[-1] < 1.0, "it has left"


def test_when_the_last_reward_has_left_the_sum_is_0_and_not_the_rounding_of_others(monkeypatch):
    monkeypatch.setattr(StepSums, "recount", lambda sums: pytest.fail("it would hide what subtraction leaves"))
    rng, spec = np.random.default_rng(1), make_spec(LENGTH, vector_size=3)
    shard = Shard(spec, ReplayConfig(capacity_steps=40 * LENGTH), [MemberSettings(0, needs_statistics=True)])
    stream, sums = Stream(spec, rng, mean_length=7), []
    for turn in range(55):
        unroll = stream.next_unroll()
        unroll.fields["rewards"][:] = rng.random(unroll.fields["rewards"].shape) ** 9 if turn < 4 else 0.0
        wait(shard.insert(unroll), 5, "insert")
        sums.append(float(shard._store.derived[0].sums.sums["reward_squares"]))
    assert sums[3] > 0.0
    assert sums[-1] == 0.0


def test_summing_anew_bit_by_bit_gives_the_same(monkeypatch):
    monkeypatch.setattr("replay_server.derived.step_sums._ROWS_AT_ONCE", 5)
    test_sums_are_those_of_what_is_stored(1)


@pytest.mark.parametrize("writes", [{"far_bounds": {"rho": 1.5}}, {"sweep": Sweep("all", 0.5)}])
def test_what_holds_for_all_that_is_stored_reaches_shards_without_a_key(writes):
    rng, spec = np.random.default_rng(2), make_racer_spec()
    config = ReplayConfig(capacity_steps=20 * LENGTH, num_shards=2)
    shards = [Shard(spec, config, [MemberSettings(0, columns=RACER)], shard=k, seed=k) for k in range(2)]
    replay = ShardedReplay(shards, seed=0)
    streams = [Stream(spec, rng, actor=e, mean_length=7) for e in range(4)]
    for _ in range(4):
        wait(replay.insert(join([stream.next_unroll() for stream in streams])), 5, "insert")
    sample = draw(replay, 40)
    keys = sample.keys[sample.keys["shard"] == 0][:1]
    values = {"rho": np.ones((1, 1), np.float32)}
    wait(replay.write(ColumnWrites(0, keys, values, **writes)), 5, "write")
    for shard in shards:
        derived = shard._store.derived[0]
        assert [far.bound for far in derived.far.values()] == [writes.get("far_bounds", {"rho": 2.0})["rho"]]
        assert [each.discount for each in derived.retraces.values()] == [0.5 if "sweep" in writes else 0.9]


def test_members_without_a_need_get_no_statistics():
    rng = np.random.default_rng(0)
    shard = make_shard(columns=())
    insert(shard, [Stream(make_spec(LENGTH), rng)])
    assert draw(shard).statistics == {}


def test_what_makes_no_sense_is_refused():
    rng = np.random.default_rng(0)
    shard = make_shard()
    insert(shard, [Stream(make_spec(LENGTH), rng)])
    keys = draw(shard, 2).keys
    with pytest.raises(PortError, match="far_bounds must be above 1"):
        wait(shard.write(ColumnWrites(0, keys, {}, far_bounds={"rho": 0.5})), 5, "write")
    with pytest.raises(PortError, match="far_bounds"):
        wait(shard.write(ColumnWrites(0, keys, {}, far_bounds={"other": 2.0})), 5, "write")
    with pytest.raises(PortError, match="final values of column 'other'"):
        wait(shard.write(ColumnWrites(0, keys, {}, final_values={"other": np.zeros(2, np.float32)})), 5, "write")


def test_the_estimate_of_memory_holds():
    spec = make_racer_spec()
    shard = make_shard(RACER, spec=spec, needs_statistics=True)
    assert shard.stats().result().memory_bytes == shard._store.sizes.num_bytes
