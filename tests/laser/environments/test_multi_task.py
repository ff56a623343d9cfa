import numpy as np
import pytest

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, describe_environment, make_environment, task_ids, tasks_of
from laser.environments.multi_task import share_out
from laser.environments.named_sets import ATARI57, DMLAB30
from laser.scoring import scores
from laser.specs import DiscreteActions, EnvironmentSpec, VectorSpec

CONFIG = EnvironmentConfig()
POLES = "CartPole-v1,custom_environments:ShortCartPole-v0"
# Same spaces, different ways to reset; the walks themselves are the same.
WALKS = "custom_environments:NextStep-v0,custom_environments:SameStep-v0,custom_environments:Disabled-v0"


def test_what_env_may_name():
    assert task_ids("CartPole-v1") == ("CartPole-v1",)
    assert task_ids("a, b,c") == ("a", "b", "c")
    assert task_ids("atari57") == ATARI57
    assert task_ids("dmlab30") == DMLAB30
    assert {scores.atari_id(game) for game in scores.ATARI57} == set(ATARI57)


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ("CartPole-v1,", "holds an empty id"),
        ("CartPole-v1,Acrobot-v1,CartPole-v1", "CartPole-v1 is named twice"),
        ("CartPole-v1,CartPol-v1", "unknown environment 'CartPol-v1'; did you mean CartPole-v1"),
        ("CartPole-v1,mini/Catch-v0", "the same observations: observation is 4 numbers for CartPole-v1 and .*50"),
        ("mini/Catch-v0,mini/Catch-v1", "unknown environment"),
        ("ALE/Pong-v5,ALE/Breakout-v5", "the same actions: one of 6 for ALE/Pong-v5 and one of 4 .*; use --env"),
    ],
)
def test_mistakes_are_one_line(env, words):
    with pytest.raises(ConfigError, match=words) as caught:
        describe_environment(env, CONFIG)
    assert "\n" not in str(caught.value)


def test_tasks_with_another_action_repeat_are_refused():
    from laser.environments.multi_task import join_specs

    one = EnvironmentSpec("a", {"x": VectorSpec((1,))}, DiscreteActions(2), action_repeat=4)
    other = EnvironmentSpec("b", {"x": VectorSpec((1,))}, DiscreteActions(2), action_repeat=2)
    with pytest.raises(ConfigError, match="the same frames per env step: 4 for a and 2 for b"):
        join_specs("a,b", [one, other])


@pytest.mark.parametrize(("num_tasks", "sizes"), [(3, [4, 4, 4]), (30, [8, 8, 8, 8]), (2, [1, 1, 1]), (5, [17])])
def test_no_task_has_two_environments_more_than_another(num_tasks, sizes):
    tasks, first = [], 0
    for size in sizes:
        tasks.extend(share_out(num_tasks, size, first))
        first += size
    counts = np.bincount(tasks, minlength=num_tasks)
    assert counts.max() - counts.min() <= 1


def test_the_spec_names_the_tasks():
    spec = describe_environment(POLES, CONFIG)
    assert spec.id == POLES
    assert spec.tasks == ("CartPole-v1", "custom_environments:ShortCartPole-v0")
    assert spec.same_spaces(describe_environment("CartPole-v1", CONFIG))
    environment = make_environment(POLES, 1, CONFIG, first_environment=1)  # an actor with one of the tasks
    assert environment.spec == spec
    assert tasks_of(environment).tolist() == [1]
    environment.close()
    alone = make_environment("CartPole-v1", 2, CONFIG)
    assert tasks_of(alone).tolist() == [0, 0]
    alone.close()


@pytest.mark.parametrize(("env", "num_envs"), [(POLES, 5), (WALKS, 7)])
def test_every_row_is_that_of_its_task_alone(env, num_envs):
    """Each task's rows equal those of a vector of that task alone, reset and moved alike."""
    ids = task_ids(env)
    together = make_environment(env, num_envs, CONFIG)
    tasks = tasks_of(together)
    assert tasks.tolist() == [index % len(ids) for index in range(num_envs)]
    alone = {task: make_environment(id, int((tasks == task).sum()), CONFIG) for task, id in enumerate(ids)}
    from laser.environments.suite import split_seed

    seeds = split_seed(4, len(ids))
    observations = together.reset(4)
    for task, environment in alone.items():
        assert_rows(observations, tasks == task, environment.reset(seeds[task]))
    generator = np.random.default_rng(0)
    num_resets = 0
    for _ in range(60):
        actions = generator.integers(0, 2, (num_envs, *together.spec.actions.array.shape))
        together.send(actions)
        received = together.recv()
        np.testing.assert_array_equal(received[0].environments, np.arange(num_envs))
        reset_rows = {}
        for part in received[1:]:
            for position, index in enumerate(part.environments):
                reset_rows[int(index)] = {name: value[position] for name, value in part.observations.items()}
                assert part.ignored[position]
        for task, environment in alone.items():
            where = np.flatnonzero(tasks == task)
            environment.send(actions[where])
            own = environment.recv()
            for name in ("rewards", "terminated", "truncated", "ignored"):
                np.testing.assert_array_equal(getattr(received[0], name)[where], getattr(own[0], name))
            assert_rows(received[0].observations, where, own[0].observations)
            for part in own[1:]:
                for position, index in enumerate(where[part.environments]):
                    found = reset_rows.pop(int(index))
                    num_resets += 1
                    for name, value in part.observations.items():
                        np.testing.assert_array_equal(found[name], value[position])
        assert not reset_rows
    assert num_resets > 0 or env == POLES
    for environment in (together, *alone.values()):
        environment.close()


def assert_rows(observations, where, wanted):
    for name, value in wanted.items():
        np.testing.assert_array_equal(observations[name][where], value)
