"""Actors that read a log put its episodes into the replay as they are."""

import dataclasses
import itertools

import numpy as np
import pytest
from scripted import CountingAlgorithm, FakeParameters, FakeReplay

from actors.config import ActorConfig
from actors.log_playback import LogActor, LogEnvironments, LogPolicy
from actors.unroll_builder import Identity
from laser.failure_budget import FailureBudget
from laser.logs.episodes import LoggedEpisode
from laser.specs import DiscreteActions, EnvironmentSpec, VectorSpec
from laser.unroll import UnrollSpec, find_defects

T = 4
ENVIRONMENT = EnvironmentSpec("logged", {"place": VectorSpec((2,))}, DiscreteActions(5))
LENGTHS = [3, 1, 6, 4, 2]


class CountedLog:
    """Observation t of episode n is [n, t]; its reward is 10 n + t; odd episodes terminate."""

    environment = ENVIRONMENT

    def __len__(self):
        return len(LENGTHS)

    def episode(self, number):
        length = LENGTHS[number]
        steps = np.arange(length + 1)
        places = np.stack([np.full(length + 1, number), steps], axis=1).astype(np.float32)
        logits = np.tile(steps[:-1, None] + 100.0 * number, (1, 5)).astype(np.float32)
        return LoggedEpisode(
            {"place": places},
            (steps[:-1] + number) % 5,
            (10.0 * number + steps[:-1]).astype(np.float32),
            terminated=bool(number % 2),
            mu={"logits": logits},
        )


class WithoutMemory(CountingAlgorithm):
    core_state = {}  # noqa: RUF012


def make_actor(num_envs=2, numbers=range(5), seed=3, algorithm=WithoutMemory, behaviour=None, **passes):
    made = algorithm()
    log = LogEnvironments(CountedLog(), num_envs, seed, np.array(numbers), behaviour, **passes)
    spec = UnrollSpec(T, ENVIRONMENT, made.behaviour, made.core_state)
    replay = FakeReplay()
    actor = LogActor(
        lambda group: log,
        1,
        LogPolicy(log, made, ENVIRONMENT, 0),
        spec,
        replay,
        FakeParameters(),
        Identity(run=1, actor=0),
        ActorConfig(),
        seed=0,
        rebuilds=FailureBudget(0),
    )
    return actor, replay, spec, made


def episodes_in(replay, environment):
    """Return the rows of an environment, cut into episodes by their first rows."""
    rows = []
    for unrolls in replay.inserted:
        index = list(unrolls.headers["environment"]).index(environment)
        fields = {name: value for name, value in unrolls.fields.items() if not name.startswith(("last_", "core"))}
        rows += [{name: value[index, t] for name, value in fields.items()} for t in range(T)]
    starts = [place for place, row in enumerate(rows) if row["first"]]
    return [rows[begin:end] for begin, end in itertools.pairwise(starts)]


@pytest.mark.parametrize("num_envs", [1, 2])
def test_episodes_arrive_whole_and_in_passes(num_envs):
    actor, replay, spec, _ = make_actor(num_envs)
    for _ in range(30):
        report = actor.run_unroll()
        assert report.episodes == ()  # they are not the agent's
    for unrolls in replay.inserted:
        assert not find_defects(spec, unrolls)
    order = []
    for environment in range(num_envs):
        for episode in episodes_in(replay, environment):
            number = int(episode[0]["observations/place"][0])
            logged = CountedLog().episode(number)
            *steps, last = episode
            order.append(number)
            assert [row["observations/place"].tolist() for row in episode] == logged.observations["place"].tolist()
            assert [row["actions"] for row in steps] == logged.actions.tolist()
            assert [row["rewards"] for row in steps] == logged.rewards.tolist()
            assert [row["mu/logits"].tolist() for row in steps] == logged.mu["logits"].tolist()
            assert [row["terminated"] for row in steps] == [False] * (len(steps) - 1) + [logged.terminated]
            assert all(row["valid"] for row in steps)
            assert not last["valid"]
    if num_envs == 1:
        passes = [order[place : place + 5] for place in range(0, len(order) - 4, 5)]
        assert all(sorted(one) == [0, 1, 2, 3, 4] for one in passes)
        assert len({tuple(one) for one in passes}) > 1  # shuffled anew
    assert report.counters["env_steps"] == sum(unrolls.fields["valid"].sum() for unrolls in replay.inserted)


@pytest.mark.parametrize(("num_envs", "num_passes"), [(1, 1), (2, 1), (5, 1), (2, 2)])
def test_after_the_last_pass_nothing_more_is_played(num_envs, num_passes):
    actor, replay, _, _ = make_actor(num_envs, num_passes=num_passes)
    for _ in range(20):
        actor.run_unroll()
    log = actor._groups[0].environment
    assert log.is_over
    rows = [unrolls.fields["valid"].sum() for unrolls in replay.inserted]
    assert sum(rows) == num_passes * sum(LENGTHS)
    assert rows[-1] == 0
    seen = [
        int(fields["observations/place"][index, t, 0])
        for fields in (unrolls.fields for unrolls in replay.inserted)
        for index in range(num_envs)
        for t in range(T)
        if fields["valid"][index, t]
    ]
    assert sorted(seen) == sorted(number for number in range(5) for _ in range(num_passes * LENGTHS[number]))


def test_actors_share_out_the_episodes():
    played = []
    for index in range(2):
        actor, replay, _, _ = make_actor(1, numbers=np.arange(5)[index::2])
        for _ in range(20):
            actor.run_unroll()
        played.append({int(episode[0]["observations/place"][0]) for episode in episodes_in(replay, 0)})
    assert played == [{0, 2, 4}, {1, 3}]


def test_it_goes_on_where_it_was_saved():
    whole, all_of_it, _, _ = make_actor()
    for _ in range(12):
        whole.run_unroll()
    first, _, _, _ = make_actor()
    for _ in range(5):
        first.run_unroll()
    second, rest, _, _ = make_actor()
    second.load_state_dict(first.state_dict())
    for _ in range(7):
        second.run_unroll()
    for one, other in zip(all_of_it.inserted[5:], rest.inserted, strict=True):
        for name in ("sequence", "episode", "step_in_episode"):
            np.testing.assert_array_equal(one.headers[name], other.headers[name])
        for name, value in one.fields.items():
            np.testing.assert_array_equal(value, other.fields[name])


def test_memories_are_those_of_the_agents_own_networks():
    actor, replay, _, algorithm = make_actor(1, algorithm=CountingAlgorithm)
    for _ in range(10):
        actor.run_unroll()
    assert algorithm.calls > 0
    for unrolls in replay.inserted:  # the algorithm's memory counts the rows since the episode began
        if not unrolls.fields["first"][0, 0]:
            assert unrolls.fields["core_state/age"][0] == unrolls.headers["step_in_episode"][0]
    rows = [row for episode in episodes_in(replay, 0) for row in episode[:-1]]
    assert all(row["mu/logits"][0] == row["observations/place"] @ [100, 1] for row in rows)  # the log's, not its own


def test_a_fitted_behaviour_is_that_of_episodes_without_one(monkeypatch):
    class Fitted:
        names = frozenset({"logits"})

        def statistics(self, episode):
            return {"logits": np.full((len(episode), 5), -7.0, np.float32)}

    whole = CountedLog.episode

    def without_the_even(self, number):
        episode = whole(self, number)
        return episode if number % 2 else dataclasses.replace(episode, mu={"other": episode.rewards[:, None]})

    monkeypatch.setattr(CountedLog, "episode", without_the_even)
    actor, replay, _, algorithm = make_actor(behaviour=Fitted())
    for _ in range(10):
        actor.run_unroll()
    seen = {True: set(), False: set()}
    for unrolls in replay.inserted:
        fields, valid = unrolls.fields, unrolls.fields["valid"]
        is_even = fields["observations/place"][..., 0] % 2 == 0
        for even in seen:
            seen[even] |= set(fields["mu/logits"][valid & (is_even[:, :T] == even)][:, 0].tolist())
    assert seen[True] == {-7.0}
    assert -7.0 not in seen[False]
    assert len(seen[False]) == LENGTHS[1] + LENGTHS[3]
    assert algorithm.calls == 0
