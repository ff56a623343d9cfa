"""High-water marks against sets of everything that was seen."""

import numpy as np

from laser.unroll import HEADER_DTYPE
from replay_server.serving.high_water_marks import DUPLICATE, FRESH, OLD_INCARNATION, HighWaterMarks


def headers(*ids):
    """Return headers of (actor, incarnation, environment, sequence)."""
    array = np.zeros(len(ids), HEADER_DTYPE)
    for i, (actor, incarnation, environment, sequence) in enumerate(ids):
        array[i]["actor"], array[i]["incarnation"] = actor, incarnation
        array[i]["environment"], array[i]["sequence"] = environment, sequence
    return array


def test_each_number_is_fresh_once_and_the_ledger_balances():
    rng = np.random.default_rng(0)
    streams, accepted, num_lost, newest = HighWaterMarks(), set(), 0, {}
    for _ in range(400):
        ids = [
            (int(rng.integers(2)), int(rng.integers(3)), int(rng.integers(2)), int(rng.integers(40)))
            for _ in range(rng.integers(1, 4))
        ]
        plan = streams.plan(headers(*ids))
        assert plan.verdicts.tolist() == streams.plan(headers(*ids)).verdicts.tolist(), "planning changed something"
        streams.commit(plan)
        num_lost += plan.num_lost
        for each, verdict in zip(ids, plan.verdicts.tolist(), strict=True):
            actor, incarnation, _, sequence = each
            if incarnation < newest.get(actor, 0):
                assert verdict == OLD_INCARNATION
                continue
            newest[actor] = incarnation
            below = {item[3] for item in accepted if item[:3] == each[:3]}
            assert (verdict == FRESH) == (sequence > max(below, default=-1))
            if verdict == FRESH:
                assert each not in accepted
                accepted.add(each)
    marks = {}
    for item in accepted:
        marks[item[:3]] = max(marks.get(item[:3], 0), item[3] + 1)
    assert sum(marks.values()) == len(accepted) + num_lost
    assert num_lost > 0


def test_a_newer_incarnation_ends_the_streams_before_it():
    streams = HighWaterMarks()
    streams.commit(streams.plan(headers((0, 0, 0, 0), (0, 0, 1, 0), (1, 0, 0, 0))))
    ended = streams.commit(streams.plan(headers((0, 1, 0, 0))))
    assert sorted(ended) == [(0, 0, 0, 0), (0, 0, 0, 1)]
    assert streams.plan(headers((0, 0, 0, 1))).verdicts.tolist() == [OLD_INCARNATION]
    assert streams.plan(headers((1, 0, 0, 0), (0, 1, 0, 1))).verdicts.tolist() == [DUPLICATE, FRESH]


def test_marks_survive_a_restore():
    streams, other = HighWaterMarks(), HighWaterMarks()
    streams.commit(streams.plan(headers((0, 2, 0, 0), (0, 2, 0, 1))))
    other.load_state_dict(streams.state_dict())
    asked = headers((0, 2, 0, 1), (0, 2, 0, 2), (0, 1, 0, 9))
    assert other.plan(asked).verdicts.tolist() == [DUPLICATE, FRESH, OLD_INCARNATION]


def test_what_has_arrived_is_counted_by_start_with_what_was_lost():
    streams = HighWaterMarks()
    streams.commit(streams.plan(headers((0, 0, 0, 0), (0, 0, 1, 2), (0, 0, 0, 1), (0, 0, 0, 1))))
    assert dict(streams.arrived) == {(0, 0, 0): 2 + 3}
    plan = streams.plan(headers((0, 0, 0, 4), (0, 1, 0, 0), (0, 0, 1, 9), (1, 0, 0, 1)))
    assert plan.verdicts.tolist() == [FRESH, FRESH, OLD_INCARNATION, FRESH]
    assert plan.num_lost == 2 + 1
    streams.commit(plan)
    assert dict(streams.arrived) == {(0, 0, 0): 5 + 3, (0, 0, 1): 1, (0, 1, 0): 2}
    # Counted since this was made, not over restores.
    other = HighWaterMarks()
    other.load_state_dict(streams.state_dict())
    assert not other.arrived
