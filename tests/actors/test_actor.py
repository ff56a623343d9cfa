import dataclasses
import itertools

import numpy as np
import pytest
from scripted import CountingAlgorithm, Estimates, FakeParameters, FakeReplay, ScriptedEnvironment

from actors.actor import Actor, EnvironmentBudgetError
from actors.config import ActorConfig
from actors.policy import Policy
from actors.unroll_builder import Identity
from laser.environments.statistics import Moments
from laser.failure_budget import FailureBudget
from laser.frames import decompress_frames
from laser.futures import failed
from laser.ops.frame_stacks import stack_frames
from laser.ports import PortAwayError, PortClosedError, PortTimeoutError
from laser.unroll import UnrollSpec, find_defects

LENGTHS = [[3, 5], [4, 1, 2], [7]]
T = 4
# Under same-step autoreset a reset is a row more, so that unrolls are complete before a round is over.
every_kind = pytest.mark.parametrize(
    ("lengths", "same_step"),
    [
        pytest.param(LENGTHS, False, id="next-step"),
        pytest.param(LENGTHS, True, id="out-of-step"),
        pytest.param([[3, 5]], True, id="one"),
        pytest.param([[T], [9, 4]], True, id="one-ends-on-the-last-row"),
        pytest.param([[T], [T]], True, id="both-end-on-the-last-row"),
        pytest.param([[1], [1]], True, id="alike"),
    ],
)


def make_actor(
    environments,
    replay,
    *,
    num_groups=1,
    max_restarts=1,
    rebuilds=None,
    num_incarnations=1000,
    insert_deadline_s=5.0,
    algorithm_class=CountingAlgorithm,
):
    algorithm = algorithm_class()
    spec = UnrollSpec(T, environments[0].spec, algorithm.behaviour, algorithm.core_state)
    policy = Policy(algorithm, environments[0].spec, seed=0)
    made = iter(environments)
    actor = Actor(
        lambda group: next(made),
        num_groups,
        policy,
        spec,
        replay,
        FakeParameters(),
        Identity(run=7, actor=3, member=2),
        ActorConfig(insert_deadline_s=insert_deadline_s),
        seed=0,
        rebuilds=rebuilds or FailureBudget(max_restarts),
        num_incarnations=num_incarnations,
    )
    return actor, spec


def streams(replay):
    """Unrolls by environment, in order of their sequence numbers."""
    by_environment: dict[int, list] = {}
    for unrolls in replay.inserted:
        for index, header in enumerate(unrolls.headers):
            by_environment.setdefault(int(header["environment"]), []).append((unrolls, index))
    return by_environment


def test_unrolls_and_episodes_say_which_task_they_are_of():
    environment = ScriptedEnvironment(LENGTHS)
    environment.tasks = np.array([2, 0, 2], np.int32)
    replay = FakeReplay()
    actor, _ = make_actor([environment], replay)
    episodes = [episode for _ in range(8) for episode in actor.run_unroll().episodes]
    for unrolls in replay.inserted:
        np.testing.assert_array_equal(unrolls.headers["task"], environment.tasks[unrolls.headers["environment"]])
    # Environment 1 has the episodes of 1, 2 and 4 steps.
    assert {episode.length for episode in episodes if episode.task == 0} == {1, 2, 4}
    assert {episode.length for episode in episodes if episode.task == 2} == {3, 5, 7}


@every_kind
def test_estimates_are_of_each_rows_own_observation_the_last_of_an_episode_too(lengths, same_step):
    replay = FakeReplay()
    actor, _ = make_actor([ScriptedEnvironment(lengths, same_step=same_step)], replay, algorithm_class=Estimates)
    for _ in range(12):
        actor.run_unroll()
    num_last = 0
    for unrolls in replay.inserted:
        seen = unrolls.fields["observations/place"][:, :T] @ np.float32([100.0, 10.0, 1.0])
        np.testing.assert_array_equal(unrolls.fields["mu/value"][..., 0], seen)
        num_last += int((~unrolls.fields["valid"]).sum())
    assert num_last > 5


@every_kind
def test_every_row_says_what_happened_there(lengths, same_step):
    replay = FakeReplay()
    actor, spec = make_actor([ScriptedEnvironment(lengths, same_step=same_step)], replay)
    for _ in range(12):
        actor.run_unroll()
    ends = {"terminated": 0, "truncated": 0}
    for environment, items in streams(replay).items():
        episode, step, num_calls = 0, 0, 0
        for number, (unrolls, index) in enumerate(items):
            assert find_defects(spec, unrolls) is None
            fields = {name: value[index] for name, value in unrolls.fields.items()}
            header = unrolls.headers[index]
            assert (header["sequence"], header["run"], header["actor"], header["member"]) == (number, 7, 3, 2)
            assert (header["episode"], header["step_in_episode"]) == (episode, step)
            # Each round has the next version and T calls; the header names that of the unroll's first one.
            assert header["parameter_version"] == num_calls // T
            for t in range(T):
                length = lengths[environment][episode % len(lengths[environment])]
                assert fields["observations/place"][t].tolist() == [environment, episode, step]
                assert fields["first"][t] == (step == 0)
                num_calls += not (same_step and step == length)
                if step == length:  # the episode's final observation: a row without a transition
                    assert not fields["valid"][t]
                    assert fields["rewards"][t] == 0.0
                    assert not fields["terminated"][t]
                    ends["truncated" if episode % 2 else "terminated"] += 1
                    episode, step = episode + 1, 0
                    continue
                assert fields["valid"][t]
                action = fields["actions"][t]
                assert action == (num_calls - 1) % 5
                assert (fields["mu/logits"][t] == action).all()
                step += 1
                assert fields["rewards"][t] == step + 100.0 * action
                assert fields["terminated"][t] == (step == length and episode % 2 == 0)
            assert fields["observations/place"][T].tolist() == [environment, episode, step], "row T bootstraps"
            assert fields["first"][T] == (step == 0)
    assert min(ends.values()) > 3, "the data never reached an episode's end"


@every_kind
def test_row_zero_carries_what_came_before(lengths, same_step):
    replay = FakeReplay()
    actor, _ = make_actor([ScriptedEnvironment(lengths, same_step=same_step)], replay)
    for _ in range(10):
        actor.run_unroll()
    firsts = set()
    for items in streams(replay).values():
        for (before, i), (after, j) in itertools.pairwise(items):
            one = {name: value[i] for name, value in before.fields.items()}
            two = {name: value[j] for name, value in after.fields.items()}
            assert (one["observations/place"][T] == two["observations/place"][0]).all()
            firsts.add(bool(two["first"][0]))
            if two["first"][0]:
                assert two["last_action"] == 0
                assert two["last_reward"] == 0.0
            else:
                assert two["last_action"] == one["actions"][T - 1]
                assert two["last_reward"] == one["rewards"][T - 1]
                # The recurrent state before row 0 has seen every step of the episode so far.
                assert two["core_state/age"][0] == two["observations/place"][0][2]
    assert firsts == ({True} if lengths == [[1], [1]] else {False, True})


def test_frames_rebuild_the_environments_own_stacks():
    replay = FakeReplay()
    twin = ScriptedEnvironment(LENGTHS, frames=True)
    actor, spec = make_actor([ScriptedEnvironment(LENGTHS, frames=True)], replay)
    import torch

    actor.run_unroll()
    stacks = [twin.reset(0)["image"]]
    checked = 0
    for unrolls in replay.inserted:
        frames = np.empty((3, spec.num_frames("image"), 4, 4), np.uint8)
        decompress_frames(unrolls.frames["image"], frames)
        first = torch.from_numpy(unrolls.fields["first"].T.copy())
        rebuilt = stack_frames(torch.from_numpy(frames), first, 3, "zeros").numpy()
        for t in range(T):
            np.testing.assert_array_equal(rebuilt[t], stacks[-1])
            twin.send(unrolls.fields["actions"][:, t])
            stacks.append(twin.recv()[0].observations["image"])
            checked += 1
        np.testing.assert_array_equal(rebuilt[T], stacks[-1])
        actor.run_unroll() if checked < 8 * T else None
    assert checked == 8 * T


def test_reports_count_decisions_frames_and_episodes():
    replay = FakeReplay()
    actor, _ = make_actor([ScriptedEnvironment(LENGTHS)], replay)
    episodes = []
    for _ in range(10):
        report = actor.run_unroll()
        episodes += report.episodes
    valid = sum(int(unrolls.fields["valid"].sum()) for unrolls in replay.inserted)
    assert report.counters["env_steps"] == valid
    assert report.counters["frames"] == 2 * valid
    assert report.counters["episodes"] == len(episodes) > 5
    assert {episode.length for episode in episodes} <= {1, 2, 3, 4, 5, 7}
    assert all(episode.member == 2 for episode in episodes)


def test_parameters_change_between_unrolls_only():
    replay = FakeReplay()
    actor, _ = make_actor([ScriptedEnvironment(LENGTHS)], replay)
    for _ in range(4):
        actor.run_unroll()
    versions = [set(unrolls.headers["parameter_version"].tolist()) for unrolls in replay.inserted]
    assert versions == [{0}, {1}, {2}, {3}]


def test_runs_at_most_two_unrolls_ahead_of_the_replay():
    replay = FakeReplay(automatic=False)
    actor, _ = make_actor([ScriptedEnvironment(LENGTHS)], replay)
    assert actor.tick() is not None
    assert actor.tick() is not None
    assert actor.tick() is None, "two inserts are unacknowledged"
    assert len(replay.inserted) == 2
    replay.answer()
    assert actor.tick() is not None


def test_a_replay_that_never_answers_ends_the_actor():
    actor, _ = make_actor([ScriptedEnvironment(LENGTHS)], FakeReplay(automatic=False), insert_deadline_s=0.3)
    actor.tick(), actor.tick()

    def tick_on():
        for _ in range(4):
            actor.tick()

    with pytest.raises(PortTimeoutError, match="accept an insert"):
        tick_on()


def test_a_turn_of_lockstep_ends_when_its_inserts_are_acknowledged():
    replay = FakeReplay()
    actor, _ = make_actor([ScriptedEnvironment(LENGTHS)], replay)
    assert actor.take_turn().counters["unrolls"] == len(LENGTHS)
    deaf, _ = make_actor([ScriptedEnvironment(LENGTHS)], FakeReplay(automatic=False), insert_deadline_s=0.1)
    with pytest.raises(PortTimeoutError, match="accept an insert"):
        deaf.take_turn()


def test_a_failed_environment_is_rebuilt_and_its_rows_are_counted():
    replay = FakeReplay()
    bad = ScriptedEnvironment(LENGTHS, fail_after=T + 3)  # fails after two whole rows of its second unroll
    actor, _ = make_actor([bad, ScriptedEnvironment(LENGTHS)], replay)
    actor.run_unroll()
    report = actor.run_unroll()
    assert report.counters["restarts/raised"] == 1
    assert report.counters["dropped_rows/raised"] == 2 * len(LENGTHS)
    assert bad.closed
    assert [unrolls.headers["incarnation"][0] for unrolls in replay.inserted] == [0, 1]
    assert [unrolls.headers["sequence"][0] for unrolls in replay.inserted] == [0, 0]
    assert replay.inserted[1].fields["first"][:, 0].all()


def test_an_environment_that_cannot_be_closed_is_rebuilt_all_the_same():
    stuck = [ScriptedEnvironment(LENGTHS, fail_after=2, fail_to_close=True) for _ in range(2)]
    actor, _ = make_actor(stuck + [ScriptedEnvironment(LENGTHS) for _ in range(2)], FakeReplay(), num_groups=2)
    report = actor.run_unroll()
    assert report.counters["restarts/raised"] == 1
    assert report.counters["close_failed"] == 2
    assert report.counters["unrolls"] == 2 * len(LENGTHS)
    assert all(environment.closed for environment in stuck)


def test_at_the_end_every_group_is_closed_before_one_that_cannot_be_is_told_of():
    environments = [ScriptedEnvironment(LENGTHS, fail_to_close=True) for _ in range(2)]
    actor, _ = make_actor(environments, FakeReplay(), num_groups=2)
    actor.warm_up()
    with pytest.raises(OSError, match="the door is stuck"):
        actor.close()
    assert all(environment.closed for environment in environments)


@pytest.mark.parametrize("fail_to_close", [False, True])
def test_an_environment_whose_first_reset_fails_is_closed(fail_to_close):
    bad = ScriptedEnvironment(LENGTHS, fail_after=0, fail_to_close=fail_to_close)
    actor, _ = make_actor([bad, ScriptedEnvironment(LENGTHS)], FakeReplay())
    report = actor.run_unroll()
    assert bad.closed
    assert report.counters["restarts/raised"] == 1
    assert report.counters.get("close_failed", 0) == fail_to_close


def test_when_the_budget_is_spent_the_environments_words_come_through():
    environments = [ScriptedEnvironment(LENGTHS, fail_after=1) for _ in range(3)]
    actor, _ = make_actor(environments, FakeReplay(), max_restarts=2)
    with pytest.raises(EnvironmentBudgetError, match="the wheel came off"):
        actor.run_unroll()


def test_failures_between_which_there_is_progress_never_spend_the_budget():
    replay = FakeReplay()
    # Each fails in its second unroll, after a whole window of env steps.
    environments = [ScriptedEnvironment(LENGTHS, fail_after=T + 1) for _ in range(8)]
    rebuilds = FailureBudget(1, window_steps=len(LENGTHS))
    actor, _ = make_actor([*environments, ScriptedEnvironment(LENGTHS)], replay, rebuilds=rebuilds)
    for _ in range(9):
        report = actor.run_unroll()
    assert report.counters["restarts/raised"] == 8
    incarnations = [int(unrolls.headers["incarnation"][0]) for unrolls in replay.inserted]
    assert incarnations == list(range(9))


def test_an_actor_uses_no_incarnation_of_the_next_one():
    environments = [ScriptedEnvironment(LENGTHS, fail_after=1) for _ in range(4)]
    actor, _ = make_actor(environments, FakeReplay(), max_restarts=100, num_incarnations=3)
    with pytest.raises(EnvironmentBudgetError, match="no number is left for its unrolls"):
        actor.run_unroll()
    assert all(environment.closed for environment in environments[:2])
    assert not environments[3].closed


def read_only(value):
    """Return a state with the arrays that another process hands over: nobody may write to them."""
    if isinstance(value, np.ndarray):
        value = value.copy()
        value.flags.writeable = False
        return value
    if isinstance(value, dict):
        return {name: read_only(item) for name, item in value.items()}
    return [read_only(item) for item in value] if isinstance(value, list) else value


def test_saved_and_restored_it_goes_on_as_if_nothing_had_happened():
    one, other = FakeReplay(), FakeReplay()
    actor, _ = make_actor([ScriptedEnvironment(LENGTHS)], one)
    for _ in range(3):
        actor.run_unroll()
    state = actor.state_dict()
    twin, _ = make_actor([ScriptedEnvironment(LENGTHS)], other)
    twin._policy.algorithm.calls = actor._policy.algorithm.calls
    twin._policy.version = actor._policy.version
    twin._parameters.version = actor._parameters.version
    twin.load_state_dict(read_only(state))
    for _ in range(3):
        actor.run_unroll()
        twin.run_unroll()
    for a, b in zip(one.inserted[3:], other.inserted, strict=True):
        np.testing.assert_array_equal(a.headers, b.headers)
        for name, value in a.fields.items():
            np.testing.assert_array_equal(value, b.fields[name], err_msg=name)


def test_an_actor_acts_on_while_no_parameters_can_be_read():
    actor, _ = make_actor([ScriptedEnvironment(LENGTHS)], FakeReplay())
    actor.run_unroll()
    version = actor._policy.version
    actor._parameters.newest = lambda newer_than: failed(PortAwayError("the store is being started anew"))
    assert actor.run_unroll().counters["unrolls"] == 2 * len(LENGTHS)
    assert actor._policy.version == version
    actor._parameters.newest = lambda newer_than: failed(PortClosedError("the store has ended"))
    with pytest.raises(PortClosedError):
        actor.run_unroll()


def test_an_actor_whose_statistics_cannot_be_read_at_the_moment_does_not_say_that_it_has_none():
    environment = ScriptedEnvironment(LENGTHS)
    environment.spec = dataclasses.replace(environment.spec, saved_statistics=("A.rms",))
    seen = {0: [Moments("A.rms", np.float64(1.0), np.float64(2.0), 3.0)]}
    reads = iter([{}, seen, {}])
    environment.statistics = lambda: next(reads)
    actor, _ = make_actor([environment], FakeReplay())
    actor.run_unroll()
    assert [actor.statistics() for _ in range(3)] == [None, seen, seen]
