"""The unrolls that rows become, each environment with a cursor of its own, beside lists of what was written."""

import numpy as np
import pytest

from actors.unroll_builder import Identity, UnrollBuilder
from laser.frames import decompress_frames
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, FramesSpec, VectorSpec
from laser.unroll import UnrollSpec, find_defects

LENGTH = 3


def make_spec(frames=False):
    observations = {"observation": VectorSpec((1,))}
    if frames:
        observations["image"] = FramesSpec((2, 2), stack=2)
    environment = EnvironmentSpec("Test-v0", observations, DiscreteActions(3))
    return UnrollSpec(LENGTH, environment, {"logits": ArraySpec((3,))}, {"state": ArraySpec((2,))})


class Script:
    """Environments whose row k shows number 100 * environment + k; some rows begin an episode."""

    def __init__(self, num_envs, begins=(), frames=False, **options):
        self.builder = UnrollBuilder(make_spec(frames), num_envs, Identity(7, 5, 2), 4, **options)
        self.begins, self.frames = begins, frames
        self.rows = [0] * num_envs

    def observe(self, environments):
        numbers = np.array([100.0 * e + self.rows[e] for e in environments], np.float32)
        seen = {"observation": numbers[:, None]}
        if self.frames:
            frames = [[np.full((2, 2), max(self.rows[e] - 1, 0)), np.full((2, 2), self.rows[e])] for e in environments]
            seen["image"] = np.array(frames, np.uint8)
        first = np.array([self.rows[e] == 0 or (e, self.rows[e]) in self.begins for e in environments])
        return seen, first

    def begin(self, environments, version=0):
        seen, first = self.observe(environments)
        numbers = seen["observation"][:, 0]
        states = {"state": np.stack([numbers, -numbers], 1), "of another agent": np.zeros((len(environments), 9))}
        self.builder.begin(np.array(environments), seen, first, numbers.astype(int) % 3, numbers, states, version)

    def append(self, environments):
        numbers, _ = self.observe(environments)
        numbers = numbers["observation"][:, 0]
        for environment in environments:
            self.rows[environment] += 1
        seen, first = self.observe(environments)
        logits = np.stack([numbers] * 3, 1)
        return self.builder.append(
            np.array(environments),
            numbers.astype(int) % 3,
            {"logits": logits},
            numbers,
            np.zeros(len(environments), bool),
            np.ones(len(environments), bool),
            seen,
            first,
        ).tolist()


def test_environments_complete_their_unrolls_by_themselves():
    script = Script(3)
    assert script.builder.without_rows.tolist() == [0, 1, 2]
    script.begin([0, 1, 2])
    assert script.builder.num_pending_rows == 0
    for environments in ([2, 0], [0], [0, 1]):
        finished = script.append(environments)
    assert finished == [0]
    assert script.builder.num_pending_rows == 5
    assert script.append([2]) == []
    assert script.append([2, 1]) == [2]
    unrolls = script.builder.take(np.array([0, 2]))
    assert unrolls.headers["environment"].tolist() == [0, 2]
    assert unrolls.fields["rewards"].tolist() == [[0.0, 1.0, 2.0], [200.0, 201.0, 202.0]]
    assert unrolls.fields["observations/observation"][:, :, 0].tolist() == [[0, 1, 2, 3], [200, 201, 202, 203]]
    assert unrolls.fields["core_state/state"].tolist() == [[0.0, 0.0], [200.0, -200.0]]
    assert find_defects(script.builder.spec, unrolls) is None
    # What is left goes on where it was.
    assert script.builder.without_rows.tolist() == [0, 2]
    assert script.builder.num_pending_rows == 2
    assert script.append([1]) == [1]
    assert script.builder.take(np.array([1])).fields["actions"].tolist() == [[100 % 3, 101 % 3, 102 % 3]]


def test_environments_that_finish_in_another_order_are_handed_out_ascending():
    script = Script(3)
    script.begin([0, 1, 2])
    script.append([2, 0, 1])
    script.append([2, 0, 1])
    assert script.append([2, 0, 1]) == [0, 1, 2]
    assert script.builder.take(np.arange(3)).fields["rewards"][:, 0].tolist() == [0.0, 100.0, 200.0]


def test_headers_say_who_where_and_when():
    script = Script(2, begins={(1, 2)}, first_environment=10, tasks=np.array([0, 3]))
    for version in (8, 9):
        script.begin([0, 1], version)
        while not script.append([0, 1]):
            pass
        headers = script.builder.take(np.arange(2)).headers
    for name, values in {
        "run": [7, 7],
        "actor": [5, 5],
        "member": [2, 2],
        "incarnation": [4, 4],
        "environment": [10, 11],
        "task": [0, 3],
        "sequence": [1, 1],
        "parameter_version": [9, 9],
        # Row 2 of environment 1 began an episode, so its second unroll starts one step into it.
        "episode": [0, 1],
        "step_in_episode": [3, 1],
    }.items():
        assert headers[name].tolist() == values, name


@pytest.mark.parametrize("one_by_one", [False, True])
def test_what_was_handed_out_is_not_written_to_again(one_by_one):
    script = Script(2)
    taken = []
    for _ in range(2):
        script.begin([0, 1])
        while not script.append([0, 1]):
            pass
        taken += [script.builder.take(np.array(part)) for part in ([[0], [1]] if one_by_one else [[0, 1]])]
    rewards = np.concatenate([unrolls.fields["rewards"] for unrolls in taken])
    assert sorted(rewards[:, 0].tolist()) == [0.0, 3.0, 100.0, 103.0]


def test_a_new_policy_owns_unrolls_that_hold_no_action_yet():
    script = Script(3)
    script.begin([0, 1, 2], version=1)
    script.append([1])
    # Environment 2's first row is a reset alone: nobody acted.
    seen, _ = script.observe([2])
    script.builder.append(
        np.array([2]),
        np.array([0]),
        {"logits": np.zeros((1, 3))},
        np.zeros(1),
        np.array([False]),
        np.array([False]),
        seen,
        np.array([True]),
    )
    script.builder.policy_changed(2)
    script.append([0, 1, 2])
    script.builder.policy_changed(3)
    for environments in ([0, 1, 2], [0]):
        script.append(environments)
    headers = script.builder.take(np.arange(3)).headers
    assert headers["parameter_version"].tolist() == [1, 1, 2]


def test_frames_are_kept_once_each_and_before_the_first_row_those_of_its_stack():
    script = Script(2, frames=True)
    script.begin([0, 1])
    while not script.append([0, 1]):
        pass
    script.builder.take(np.arange(2))
    script.begin([0, 1])
    while not script.append([1]):
        pass
    packed = script.builder.take(np.array([1])).frames["image"]
    # Rows 3 to 6, and the frame before them that row 3's stack of two begins with.
    shown = np.empty((1, 5, 2, 2), np.uint8)
    decompress_frames(packed, shown)
    assert shown[0, :, 0, 0].tolist() == [2, 3, 4, 5, 6]


def test_restored_streams_go_on_with_their_numbers():
    script = Script(2, begins={(0, 2)})
    script.begin([0, 1])
    while not script.append([0, 1]):
        pass
    script.builder.take(np.arange(2))
    state = script.builder.state_dict()
    other = Script(2)
    other.builder.load_state_dict(state)
    for one in (script, other):
        one.begin([0, 1])
        while not one.append([0, 1]):
            pass
    one, two = (script.builder.take(np.arange(2)).headers, other.builder.take(np.arange(2)).headers)
    assert one.tolist() == two.tolist()
    assert two["sequence"].tolist() == [1, 1]
    # What goes on does not reach into what was saved.
    assert state["headers"]["sequence"].tolist() == [1, 1]
    assert state["episode"].tolist() == [1, 0]
