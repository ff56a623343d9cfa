"""What every environment behind the vector interface keeps to, whatever suite it comes from."""

import copy
import dataclasses
import pathlib
import sys
from dataclasses import dataclass
from functools import cache

import gymnasium
import numpy as np
import pytest
from ale_py.vector_env import AtariVectorEnv

from laser.environments import EnvironmentConfig, describe_environment, make_environment
from laser.environments.spaces import action_writer
from laser.environments.suite import split_seed
from laser.specs import (
    CategorySpec,
    ContinuousActions,
    DiscreteActions,
    FramesSpec,
    VectorSpec,
    environment_spec_from_json,
)

sys.path.append(str(pathlib.Path(__file__).parent))  # `module:Name` ids, here and in child processes
sys.path.append(str(pathlib.Path(__file__).parents[1] / "probes" / "stand_ins"))  # deepmind_lab

NUM_ENVS = 3
AUTO, SYNC, ASYNC = (
    EnvironmentConfig(),
    EnvironmentConfig(vectorization="sync"),
    EnvironmentConfig(vectorization="async"),
)


@dataclass(frozen=True)
class Case:
    """One environment, and the ends of episodes that its rollout must reach for the tests to mean anything.

    Args:
        id: as a user writes it.
        num_steps: vector steps of a rollout.
        ends: "terminated" and "truncated", as far as they must be seen.
        config: how it is made.
        alone: how to seed the same environment alone: "split" or "consecutive"; None: a test of its own.
        seeded: whether anything is random.
    """

    id: str
    num_steps: int
    ends: tuple[str, ...]
    config: EnvironmentConfig = AUTO
    alone: str | None = "split"
    seeded: bool = True

    def make(self):
        return make_environment(self.id, NUM_ENVS, self.config)

    def __str__(self):
        return f"{self.id}-{self.config.vectorization}"


OWN = "custom_environments:"
BOTH = ("terminated", "truncated")
CASES = [
    Case("CartPole-v1", 120, ("terminated",), alone=None),
    Case(OWN + "ShortCartPole-v0", 80, BOTH, alone=None),
    Case("CartPole-v1", 120, ("terminated",), SYNC),
    Case(OWN + "ShortCartPole-v0", 80, BOTH, SYNC),
    Case("Acrobot-v1", 510, ("truncated",)),
    Case("FrozenLake-v1", 60, ("terminated",)),
    Case("Pendulum-v1", 210, ("truncated",)),
    Case("SparsePendulum-v0", 210, ("truncated",)),
    Case("Hopper-v5", 80, ("terminated",)),
    Case("ALE/Pong-v5", 50, ("truncated",), EnvironmentConfig(max_episode_frames=80), alone=None),
    Case("ALE/Breakout-v5", 60, ("terminated",), EnvironmentConfig(life_loss_ends_episode=True), alone=None),
    Case(OWN + "Walk-v0", 60, BOTH),
    Case(OWN + "Levers-v0", 60, BOTH),
    Case(OWN + "Stacked-v0", 60, BOTH),
    Case(OWN + "Walk-v0", 60, BOTH, ASYNC),
    Case(OWN + "NextStep-v0", 60, BOTH, alone="consecutive"),
    Case(OWN + "SameStep-v0", 60, BOTH, alone="consecutive"),
    Case(OWN + "DenseFinals-v0", 60, BOTH, alone="consecutive"),
    Case(OWN + "Disabled-v0", 60, BOTH, alone="consecutive"),
    Case("dm_control/cartpole-balance-v0", 1005, ("truncated",), alone=None),
    Case("mini/Catch-v0", 30, ("terminated",), alone=None),
    Case("mini/SparseCatch2-v0", 60, ("terminated",), alone=None),
    Case("mini/DeepSea8-v0", 30, ("terminated",), alone=None, seeded=False),
    Case("mini/TMaze10-v0", 200, BOTH, alone=None),
    Case("mini/KeyDoor3-v0", 300, BOTH, alone=None),
    Case("dmlab/language_execute_random_task", 40, ("terminated",), SYNC, alone=None),
    Case("dmlab/rooms_watermaze", 40, ("terminated",), ASYNC, alone=None),
    Case("CartPole-v1,custom_environments:ShortCartPole-v0", 80, BOTH, alone=None),
    Case(OWN + "SameStep-v0," + OWN + "Disabled-v0," + OWN + "NextStep-v0", 60, BOTH, alone=None),
]
every_environment = pytest.mark.parametrize("case", CASES, ids=str)


@dataclass(frozen=True)
class Record:
    """One row that came back for one environment, and the action that was sent for it."""

    observation: dict[str, np.ndarray]
    action: np.ndarray | None
    reward: float
    terminated: bool
    truncated: bool
    ignored: bool


def random_actions(spec, generator, num_envs):
    actions = spec.actions
    if isinstance(actions, ContinuousActions):
        # Policies may leave [-1, 1]; the adapter clips.
        return generator.normal(size=(num_envs, *actions.array.shape)).astype(np.float32)
    return generator.integers(0, np.array(actions.num_actions), (num_envs, *actions.array.shape), np.int64)


def scribble(array):
    array[...] = np.ones((), array.dtype)


def rollout(case, seed=7, scribbling=False):
    """Play with random actions; return the stream of records of each environment.

    Args:
        case: what to play.
        seed: of the environment; actions have a seed of their own.
        scribbling: overwrite every array after it was read, as a receiver that owns it may.
    """
    environment = case.make()
    generator = np.random.default_rng(0)
    try:
        observations = environment.reset(seed)
        streams = [[Record(row(observations, index), None, 0.0, False, False, True)] for index in range(NUM_ENVS)]
        for _ in range(case.num_steps):
            actions = random_actions(environment.spec, generator, NUM_ENVS)
            environment.send(actions)
            parts = environment.recv()
            assert 1 <= len(parts) <= 2
            np.testing.assert_array_equal(parts[0].environments, np.arange(NUM_ENVS))
            for part in parts:
                for position, index in enumerate(part.environments):
                    streams[index].append(
                        Record(
                            row(part.observations, position),
                            None if part.ignored[position] else actions[index].copy(),
                            float(part.rewards[position]),
                            bool(part.terminated[position]),
                            bool(part.truncated[position]),
                            bool(part.ignored[position]),
                        )
                    )
                if scribbling:
                    for array in (part.rewards, part.terminated, part.truncated, part.ignored, part.environments):
                        scribble(array)
                    for array in part.observations.values():
                        scribble(array)
    finally:
        environment.close()
    return streams


known_rollout = cache(rollout)


def row(observations, index):
    return {name: np.array(value[index]) for name, value in observations.items()}


def assert_same(one, other):
    for records, others in zip(one, other, strict=True):
        for record, twin in zip(records, others, strict=True):
            assert (record.reward, record.terminated, record.truncated, record.ignored) == (
                twin.reward,
                twin.terminated,
                twin.truncated,
                twin.ignored,
            )
            for name, value in record.observation.items():
                np.testing.assert_array_equal(value, twin.observation[name])


@every_environment
def test_shapes_and_dtypes_are_those_of_the_spec(case):
    environment = case.make()
    spec = environment.spec
    try:
        assert spec == describe_environment(case.id, case.config)
        assert environment_spec_from_json(spec.to_json()) == spec
        check_observations(spec, environment.reset(1), NUM_ENVS)
        environment.send(random_actions(spec, np.random.default_rng(0), NUM_ENVS))
        for part in environment.recv():
            num = len(part.environments)
            check_observations(spec, part.observations, num)
            assert (part.environments.dtype, part.rewards.dtype) == (np.int64, np.float32)
            for flags in (part.terminated, part.truncated, part.ignored):
                assert (flags.dtype, flags.shape) == (np.bool_, (num,))
    finally:
        environment.close()


def check_observations(spec, observations, num):
    assert observations.keys() == spec.observations.keys()
    for name, value in observations.items():
        match spec.observations[name]:
            case FramesSpec(frame_shape=frame_shape, stack=stack):
                assert (value.dtype, value.shape) == (np.uint8, (num, stack, *frame_shape))
            case VectorSpec(shape=shape):
                assert (value.dtype, value.shape) == (np.float32, (num, *shape))
            case CategorySpec(num_values=num_values):
                assert (value.dtype, value.shape) == (np.int32, (num, *spec.observations[name].shape))
                assert (value >= 0).all()
                assert (value < num_values).all()


@every_environment
def test_every_end_is_followed_by_one_ignored_row(case):
    streams = known_rollout(case)
    seen = set()
    for records in streams:
        over = True
        for record in records:
            assert record.ignored == over
            if record.ignored:
                assert (record.terminated, record.truncated, record.reward) == (False, False, 0)
            seen |= {end for end in BOTH if getattr(record, end)}
            over = record.terminated or record.truncated
        assert sum(record.ignored for record in records) > 1, "no second episode began"
    assert seen >= set(case.ends)


@pytest.mark.parametrize("case", [case for case in CASES if case.alone], ids=str)
def test_rows_equal_those_of_the_environment_alone(case):
    streams = known_rollout(case)
    seeds = split_seed(7, NUM_ENVS) if case.alone == "split" else [7, 8, 9]
    spec = describe_environment(case.id, case.config)
    for seed, records in zip(seeds, streams, strict=True):
        single = gymnasium.make(case.id)
        writer = action_writer(single.action_space)
        for number, record in enumerate(records):
            if record.ignored:
                observation, _ = single.reset(seed=seed if number == 0 else None)
                reward, terminated, truncated = 0.0, False, False
            else:
                action = writer.write(record.action[None])[0]
                observation, reward, terminated, truncated, _ = single.step(action)
            assert record.reward == np.float32(reward)
            assert (record.terminated, record.truncated) == (terminated, truncated)
            for name, value in record.observation.items():
                own = observation[name] if isinstance(observation, dict) else observation
                if name == "phase":
                    own = own - 1
                wanted = np.asarray(own).reshape(value.shape)
                assert value.dtype != np.float32 or spec.observations[name] == VectorSpec(value.shape)
                np.testing.assert_array_equal(value, wanted.astype(value.dtype))
        single.close()


@every_environment
def test_the_seed_decides_everything(case):
    assert_same(known_rollout(case), rollout(case))
    if not case.seeded:
        return
    with pytest.raises(AssertionError):
        assert_same(known_rollout(case), rollout(case, seed=8))


@every_environment
def test_arrays_belong_to_the_receiver(case):
    assert_same(known_rollout(case), rollout(case, scribbling=True))


@every_environment
def test_arrays_are_not_written_to_later(case):
    environment = case.make()
    generator = np.random.default_rng(0)
    try:
        kept = [environment.reset(3)]
        copies = [copy.deepcopy(kept[0])]
        for _ in range(5):
            environment.send(random_actions(environment.spec, generator, NUM_ENVS))
            for part in environment.recv():
                kept.append({**part.observations, "rewards": part.rewards, "ignored": part.ignored})
                copies.append(copy.deepcopy(kept[-1]))
    finally:
        environment.close()
    for one, other in zip(kept, copies, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@every_environment
def test_closing_with_a_step_in_flight_is_quiet(case):
    environment = case.make()
    environment.reset(None)
    environment.send(random_actions(environment.spec, np.random.default_rng(0), NUM_ENVS))
    environment.close()


RESTORABLE = ("CartPole-v1", OWN + "ShortCartPole-v0", "Acrobot-v1", "Pendulum-v1", "SparsePendulum-v0", "mini/")


@pytest.mark.parametrize("case", [case for case in CASES if not case.id.startswith(RESTORABLE)], ids=str)
def test_what_cannot_be_restored_says_so(case):
    environment = case.make()
    try:
        environment.reset(None)
        assert environment.state_dict() is None
    finally:
        environment.close()


@pytest.mark.parametrize("at_an_end", [False, True], ids=["within an episode", "at an end"])
@pytest.mark.parametrize("case", [case for case in CASES if case.id.startswith(RESTORABLE)], ids=str)
def test_a_restored_environment_continues_bitwise(case, at_an_end):
    environment, twin = case.make(), case.make()
    generator = np.random.default_rng(1)
    try:
        environment.reset(5)
        num_steps, over = 0, False
        while num_steps < 5 or over != at_an_end:
            environment.send(random_actions(environment.spec, generator, NUM_ENVS))
            newest = environment.recv()[-1]
            num_steps, over = num_steps + 1, (newest.terminated | newest.truncated).any()
        observations = copy.deepcopy(newest.observations)
        for value in newest.observations.values():
            scribble(value)  # a state never shares memory with what was handed out
        state = environment.state_dict()
        assert_json_and_arrays(state)
        state = copy.deepcopy(state)
        restored = twin.load_state_dict(state)
        for name, value in observations.items():
            np.testing.assert_array_equal(restored[name], value)
        num_ends = 0
        for _ in range(case.num_steps):
            actions = random_actions(environment.spec, generator, NUM_ENVS)
            environment.send(actions)
            twin.send(actions)
            (one,), (other,) = environment.recv(), twin.recv()
            for name, value in dataclasses.asdict(one).items():
                np.testing.assert_equal(getattr(other, name), value)
            num_ends += int(one.ignored.sum())
        assert num_ends > 0, "no episode began after the restore: its generator went untested"
    finally:
        environment.close()
        twin.close()


def assert_json_and_arrays(value):
    if isinstance(value, dict):
        assert all(isinstance(key, str) for key in value)
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            assert_json_and_arrays(item)
    else:
        assert value is None or type(value) in (bool, int, float, str, np.ndarray), type(value)
        assert not isinstance(value, np.ndarray) or value.dtype != object


@pytest.mark.parametrize("case", [case for case in CASES if case.id.startswith("ALE/")], ids=str)
def test_atari_rows_equal_those_of_one_emulator_reset_by_hand(case):
    """The emulator is reset as soon as an episode is over, so no observation of it can be an ignored one."""
    game = case.id[4:-3].lower()
    for seed, records in zip(split_seed(7, NUM_ENVS), known_rollout(case), strict=True):
        single = AtariVectorEnv(
            game,
            1,
            max_num_frames_per_episode=case.config.max_episode_frames,
            episodic_life=case.config.life_loss_ends_episode,
            reward_clipping=False,
        )
        for number, record in enumerate(records):
            if record.ignored:
                observations, _ = single.reset(seed=np.array([seed]) if number == 0 else None)
                reward, terminated, truncated = 0, False, False
            else:
                observations, (reward,), (terminated,), (truncated,), _ = single.step(record.action[None])
            assert (record.reward, record.terminated, record.truncated) == (reward, terminated, truncated)
            np.testing.assert_array_equal(record.observation["observation"], observations[0])
        single.close()


@pytest.mark.parametrize("limit", [15, 500])
def test_native_cartpole_moves_and_ends_as_the_single_one(limit):
    """Every step is repeated by the single environment from the same state; the policy balances up to the limit."""
    name = "CartPole-v1" if limit == 500 else OWN + "ShortCartPole-v0"
    environment = make_environment(name, NUM_ENVS, EnvironmentConfig())
    inner = environment._environments
    single = gymnasium.make("CartPole-v1").unwrapped
    single.reset(seed=0)
    observations = environment.reset(0)["observation"]
    lengths, num_truncated, num_terminated = np.zeros(NUM_ENVS, int), 0, 0
    generator = np.random.default_rng(0)
    for step in range(1200):
        x, speed, angle, turn = observations.T
        actions = (angle + 0.3 * turn + 0.02 * x + 0.06 * speed > 0).astype(np.int64)
        if step > 600:
            actions = generator.integers(0, 2, NUM_ENVS)
        states = inner.state.copy()
        environment.send(actions)
        (part,) = environment.recv()
        observations = part.observations["observation"]
        for index in range(NUM_ENVS):
            if part.ignored[index]:
                assert (np.abs(observations[index]) <= 0.05).all()
                lengths[index] = 0
                continue
            single.state, single.steps_beyond_terminated = states[:, index], None
            wanted, reward, terminated, _, _ = single.step(int(actions[index]))
            lengths[index] += 1
            np.testing.assert_allclose(observations[index], wanted, rtol=1e-6, atol=1e-7)
            assert part.rewards[index] == reward == 1.0
            assert part.terminated[index] == terminated
            assert part.truncated[index] == (lengths[index] == limit)
            num_truncated += int(part.truncated[index])
            num_terminated += int(terminated)
    environment.close()
    assert num_truncated > 0
    assert num_terminated > 0


def test_actions_are_clipped_and_mapped_to_the_bounds():
    writer = action_writer(gymnasium.spaces.Box(np.array([-2, 0], np.float32), np.array([2, 0.1], np.float32)))
    actions = writer.write(np.array([[0, 0], [1, 1], [-1, -1], [7, -7]], np.float32))
    np.testing.assert_array_equal(actions, np.array([[0, 0.05], [2, 0.1], [-2, 0], [2, 0]], np.float32))
    assert actions.dtype == np.float32
    shifted = action_writer(gymnasium.spaces.Discrete(3, start=-1))
    np.testing.assert_array_equal(shifted.write(np.array([0, 1, 2])), [-1, 0, 1])
    assert shifted.spec == DiscreteActions(3)
