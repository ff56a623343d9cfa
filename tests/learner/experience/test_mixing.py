"""The mixer: batches in order, nothing lost, and waits that end only when nothing arrives."""

import json
from concurrent.futures import Future

import numpy as np
import pytest

from laser.ports import KEY_DTYPE, PortAwayError, PortClosedError, PortTimeoutError, Sample
from laser.replay_stats import MemberStats, ReplayStats
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience import mixing
from learner.experience.mixing import LogShare, Mixer, PoissonReplays


class FakeReplay:
    """Answers when told to."""

    def __init__(self):
        self.asked, self.inserted_steps = [], 0

    def sample(self, request):
        self.asked.append((request, Future()))
        return self.asked[-1][1]

    def stats(self):
        done = Future()
        done.set_result(ReplayStats(members={0: MemberStats(inserted_steps=self.inserted_steps)}))
        return done

    def answer(self, index, result="sample"):
        _, future = self.asked[index]
        if isinstance(result, BaseException):
            future.set_exception(result)
        else:
            future.set_result(result)


@pytest.fixture
def clock(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(mixing.time, "monotonic", lambda: now[0])
    return now


def test_two_batches_are_in_flight_and_come_in_order():
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 3, 5, 2, 60.0)
    assert not mixer.poll(0.0)
    assert [(request.table, request.num_items) for request, _ in replay.asked] == 2 * [("online", 3), ("replay", 5)]
    replay.answer(2, "c")
    replay.answer(3, "d")
    assert not mixer.poll(0.0), "the second batch overtook the first"
    replay.answer(0, "a")
    replay.answer(1, "b")
    (mix,) = mixer.poll(0.0)
    assert (mix.online, mix.replayed) == ("a", "b")
    (mix,) = mixer.poll(0.0)
    assert (mix.online, mix.replayed) == ("c", "d")
    mixer.close()
    assert all(future.cancelled() for _, future in replay.asked[4:])


def test_batches_of_single_steps_are_drawn_together_and_never_more_than_are_wanted():
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 0, 2, 0, 60.0, n_step=1, batches_per_draw=3)
    seen = []
    for most in (5, 2):
        assert not mixer.poll(0.0, most)
        request, _ = replay.asked[-1]
        replay.answer(-1, steps(len(seen), request.num_items))
        mixes = mixer.next(most)
        assert len(mixes) == min(most, 3)
        for mix in mixes:
            assert mix.online is None
            seen += mix.replayed.keys["row"].tolist()
            assert mix.replayed.discounts[:, 0].tolist() == mix.replayed.keys["row"].tolist()
            assert mix.replayed.statistics == {"num": 7}
    assert [request.num_items for request, _ in replay.asked] == [6, 4]
    # Each batch has items from all over what was drawn together: shards and strata lie side by side there.
    assert seen == [0, 3, 1, 4, 2, 5, 6, 8, 7, 9]


def steps(first: int, num: int) -> Sample:
    """Return `num` items, numbered from `first` on."""
    keys = np.zeros(num, KEY_DTYPE)
    keys["row"] = np.arange(first, first + num)
    discounts = keys["row"].astype(np.float32)[:, None]
    unrolls = Unrolls(np.zeros(num, HEADER_DTYPE), {})
    return Sample(unrolls, keys, np.ones(num), num, discounts=discounts, statistics={"num": 7})


@pytest.mark.parametrize("share", [0.0, 0.1, 0.25, 1 / 3, 0.5, 0.999, 1.0])
@pytest.mark.parametrize("num_items", [1, 3, 32])
def test_the_share_of_a_log_is_exact_over_many_requests(share, num_items):
    share_of_log, total = LogShare(lambda: share), 0
    for number in range(1, 200):
        num = share_of_log.num_of(num_items)
        assert abs(num - share * num_items) < 1
        total += num
        assert abs(total - share * num_items * number) <= 0.5 + 1e-9


def test_the_share_of_a_log_is_the_one_of_now_in_every_kind_of_request():
    shares = iter([1.0, 0.5, 0.25, 0.25, 0.0])
    log_share = LogShare(lambda: next(shares))
    for how in ({}, {"n_step": 3}, {"view": "sequences"}):
        replay = FakeReplay()
        mixer = Mixer(replay, 0, 3, 6, 0, 60.0, log_share=log_share, **how)
        assert not mixer.poll(0.0)
        (fresh, _), (replayed, _) = replay.asked
        assert fresh.num_from_log is None
        assert replayed.num_from_log == {"view": 2, "n_step": 3}.get(next(iter(how), ""), 6)  # 1.5 is rounded up
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 0, 6, 0, 60.0, log_share=log_share)
    assert not mixer.poll(0.0)
    first = replay.asked[0][0]
    assert first.num_from_log == 1  # 1.5, of which half an item was given before
    replay.answer(0, PortTimeoutError("nothing yet"))
    assert not mixer.poll(0.0)
    assert replay.asked[1][0] == first  # sent again as it was


def test_without_a_share_of_a_log_no_request_says_one():
    replay = FakeReplay()
    for how in ({}, {"n_step": 3}, {"view": "sequences"}):
        assert not Mixer(replay, 0, 0, 6, 0, 60.0, **how).poll(0.0)
    assert [request.num_from_log for request, _ in replay.asked] == [None] * 3


def test_streams_are_asked_for_one_after_the_other():
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 0, 5, 2, 60.0, stream_set=11)
    for sequence in range(4):
        assert not mixer.poll(0.0)
        assert [request.sequence for request, _ in replay.asked] == list(range(sequence + 1))
        assert {(request.view, request.stream_set) for request, _ in replay.asked} == {("streams", 11)}
        replay.answer(sequence)
        assert mixer.poll(0.0)[0].replayed == "sample"


def test_a_request_that_found_nothing_is_repeated_with_its_number():
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 2, 5, 0, 60.0, stream_set=11)
    assert not mixer.poll(0.0)
    replay.answer(0, "fresh")
    replay.answer(1, PortTimeoutError("no episode has finished yet"))
    assert not mixer.poll(0.0)
    assert mixer.waiting_for == "no episode has finished yet"
    assert replay.asked[2][0] == replay.asked[1][0]
    replay.answer(2, "replayed")
    (mix,) = mixer.poll(0.0)
    assert (mix.online, mix.replayed) == ("fresh", "replayed")
    assert len(replay.asked) == 3


def test_a_wait_goes_on_while_anything_arrives_and_says_what_it_lacked(clock):
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 2, 5, 0, 20.0)
    for second in range(100):  # five times the deadline
        clock[0] = float(second)
        replay.inserted_steps = second // 15
        if second == 40:
            replay.answer(1, PortTimeoutError("512 of 1000 steps stored"))
        assert not mixer.poll(0.0)
    for second in range(100, 111):
        clock[0] = float(second)
        assert not mixer.poll(0.0)
    clock[0] = 112.0  # the last arrival was noticed at 91
    with pytest.raises(PortTimeoutError, match="nothing arrived in the replay for 20 s: 512 of 1000 steps stored"):
        mixer.poll(0.0)
    replay.answer(0)
    replay.answer(2)
    assert mixer.poll(0.0)[0].replayed == "sample"


def test_other_failures_are_raised_at_once():
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 2, 5, 0, 20.0)
    assert not mixer.poll(0.0)
    replay.answer(1, PortClosedError("the shard is gone"))
    with pytest.raises(PortClosedError):
        mixer.poll(0.0)


def replays_after_each(seed, num_batches):
    """Return how many batches from the replay alone followed each batch."""
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 3, 0, 0, 60.0, replays=PoissonReplays(2.5, 4, seed))
    counts: list[int] = []
    while len(counts) <= num_batches:
        assert not mixer.poll(0.0)
        request = replay.asked[-1][0]
        assert (request.table, request.num_items) in (("online", 3), ("replay", 4))
        if request.table == "online":
            counts.append(0)
        else:
            counts[-1] += 1
        replay.answer(-1)
        (mix,) = mixer.poll(0.0)
        assert (mix.online is None) is (request.table == "replay")
        assert (mix.replayed is None) is (request.table == "online")
    return counts[:num_batches]


def test_a_poisson_number_of_replayed_batches_follows_each():
    counts = np.array(replays_after_each(seed=3, num_batches=2000))
    # Mean and variance 2.5; standard errors sqrt(2.5 / n) and about sqrt((2.5 + 2 * 2.5^2) / n).
    assert abs(counts.mean() - 2.5) < 5 * (2.5 / len(counts)) ** 0.5
    assert abs(counts.var() - 2.5) < 5 * (15.0 / len(counts)) ** 0.5
    assert counts[:50].tolist() == replays_after_each(3, 50)
    assert counts[:50].tolist() != replays_after_each(4, 50)


def test_their_generator_goes_on_where_it_was():
    one, other = PoissonReplays(3.0, 4, 1), PoissonReplays(3.0, 4, 2)
    for _ in range(7):
        one.draw()
    other.load_state_dict(json.loads(json.dumps(one.state_dict())))
    assert [one.draw() for _ in range(20)] == [other.draw() for _ in range(20)]


def test_a_replay_that_is_away_is_asked_again_and_one_that_has_ended_is_not(monkeypatch):
    monkeypatch.setattr(mixing, "_PAUSE_S", 0.0)
    replay = FakeReplay()
    mixer = Mixer(replay, 0, 3, 0, 1, 60.0)
    assert not mixer.poll(0.0)
    for number in range(3):
        replay.answer(number, PortAwayError("being started anew"))
        assert not mixer.poll(0.0)
        assert mixer.waiting_for == "being started anew"
    assert len(replay.asked) == 4
    replay.answer(3, PortClosedError("the replay has ended"))
    with pytest.raises(PortClosedError, match="has ended"):
        mixer.poll(0.0)
