"""One environment of a vector fails: it alone is rebuilt, its episode is cut, and the others go on without a change."""

import itertools
from functools import partial

import numpy as np
import pytest
from counting import ACTIONS, LENGTHS, LIVES, SPACE, Counting
from gymnasium.wrappers import NormalizeObservation
from scripted import FakeReplay
from test_actor import T, make_actor, streams

from actors.actor import EnvironmentBudgetError
from laser.environments.base import EnvironmentFailedError
from laser.environments.multi_task import MultiTaskEnvironments
from laser.environments.processes import ProcessEnvironments
from laser.environments.spaces import action_writer, observation_reader
from laser.environments.sync import SyncEnvironments
from laser.specs import EnvironmentSpec

READER, WRITER = observation_reader(SPACE), action_writer(ACTIONS)
SPEC = EnvironmentSpec("counting", READER.specs, WRITER.spec)


def vector(failing, kind="one", deed="raises"):
    """Return a vector of four environments; `failing` maps some to the call that misbehaves."""
    LIVES.clear()
    makers = [partial(Counting, index, failing.get(index), deed) for index in range(4)]
    if kind == "processes":
        return ProcessEnvironments(SPEC, makers, READER, WRITER, deadline_s=60.0)
    if kind == "one":
        return SyncEnvironments(SPEC, makers, READER, WRITER)
    parts = {task: SyncEnvironments(SPEC, makers[task::2], READER, WRITER) for task in (0, 1)}
    return MultiTaskEnvironments(SPEC, np.array([0, 1, 0, 1], np.int32), parts)


def unrolls_of(environment, num=4, **options):
    """Return the unrolls by environment, the newest report, and all episodes."""
    replay, episodes = FakeReplay(), []
    actor, _ = make_actor([environment], replay, max_restarts=5, **options)
    try:
        for _ in range(num):
            report = actor.run_unroll()
            episodes += report.episodes
    finally:
        actor.close()
    return streams(replay), report.counters, episodes


def rows(stream, name):
    return np.concatenate([unrolls.fields[name][index][:T] for unrolls, index in stream])


# At the first step of all, within an episode, at the last row of an unroll, at a reset; two at once.
ALONE = [{1: 1}, {1: 3}, {1: T}, {1: 0}, {1: 3, 2: 3}]
CASES = [*itertools.product(("one", "tasks"), ("raises", "nan"), ALONE), ("processes", "raises", {1: 0, 2: 3})]


@pytest.mark.parametrize(("kind", "deed", "failing"), CASES, ids=str)
def test_the_others_keep_their_episodes_and_every_row(kind, deed, failing):
    found, counters, episodes = unrolls_of(vector(failing, kind, deed))
    expected, _, without = unrolls_of(vector({}))
    assert counters["restarts/raised" if deed == "raises" else "restarts/not_finite"] == len(failing)
    assert not [name for name in counters if name.startswith("dropped_rows")]
    for index, stream in found.items():
        headers = np.array([unrolls.headers[place] for unrolls, place in stream])
        assert headers["sequence"].tolist() == [0, 1, 2, 3]
        assert set(headers["incarnation"]) == {0}
        if index in failing:
            continue
        for name in ("observations/observation", "first", "valid", "rewards", "terminated", "actions"):
            np.testing.assert_array_equal(rows(stream, name), rows(expected[index], name))
    for index, at in failing.items():
        stream = found[index]
        cut = at - 1 if at else LENGTHS[index]  # the row whose action had no result; a reset's row has none anyway
        valid, first, seen = (rows(stream, name) for name in ("valid", "first", "observations/observation"))
        assert not valid[cut]
        assert first[cut + 1]
        assert not rows(stream, "terminated")[cut]
        np.testing.assert_array_equal(seen[cut], [index, 0, 0, cut])  # the last one that it gave, to bootstrap from
        np.testing.assert_array_equal(seen[cut + 1], [index, 1, 0, 0])
        assert valid[cut + 1]
        assert set(seen[cut + 1 :, 1]) == {1}
    cut_short = len([index for index, at in failing.items() if at])
    assert all(episode.length in LENGTHS for episode in episodes)
    assert len(without) - 2 * cut_short <= len(episodes) <= len(without)
    assert counters["env_steps"] == sum(int(rows(stream, "valid").sum()) for stream in found.values())


def test_each_failure_spends_the_budget():
    environment = vector({0: 2, 1: 3, 2: 4})
    actor, _ = make_actor([environment], FakeReplay(), max_restarts=2)
    with pytest.raises(EnvironmentBudgetError, match="max-restarts allows; its last error: RuntimeError: the wheel"):
        actor.run_unroll()


def test_if_all_fail_the_vector_is_rebuilt():
    replay = FakeReplay()
    actor, _ = make_actor([vector(dict.fromkeys(range(4), 2)), vector({})], replay)
    report = actor.run_unroll()
    assert (report.counters["restarts/raised"], report.counters["dropped_rows/raised"]) == (1, 4)
    assert set(replay.inserted[0].headers["incarnation"]) == {1}


def test_one_that_cannot_be_made_again_fails_the_vector():
    LIVES.clear()

    def make():
        if LIVES[0]:
            raise RuntimeError("no wheel is left")
        return Counting(0, 2)

    bad = SyncEnvironments(SPEC, [make, partial(Counting, 1)], READER, WRITER)
    good = SyncEnvironments(SPEC, [partial(Counting, index) for index in (2, 3)], READER, WRITER)
    actor, _ = make_actor([bad, good], FakeReplay(), max_restarts=2)
    report = actor.run_unroll()
    assert (report.counters["restarts/raised"], report.counters["dropped_rows/raised"]) == (2, 2)


def test_the_statistics_of_its_wrappers_stay():
    LIVES.clear()
    makers = [lambda index=index: NormalizeObservation(Counting(index, 3 if index else None)) for index in (0, 1)]
    environment = SyncEnvironments(SPEC, makers, READER, WRITER)
    environment.reset(0)
    for _ in range(2):
        environment.send(np.zeros(2, np.int64))
        environment.recv()
    (before,) = environment.statistics()[0]
    environment.send(np.zeros(2, np.int64))
    with pytest.raises(EnvironmentFailedError) as caught:
        environment.recv()
    step = caught.value.others.complete(seed=1)
    (after,) = environment.statistics()[0]
    assert after.count == pytest.approx(before.count + 2)  # the other's step, and the first observation of the new one
    assert np.isfinite(step.observations["observation"]).all()
