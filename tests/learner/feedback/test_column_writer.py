"""What goes back to the replay belongs to the replayed columns alone, in the replay's order; failures are counted."""

import contextlib
from concurrent.futures import Future

import numpy as np
import pytest
import torch

from laser.algorithms.base import WriteOptions
from laser.ports import (
    KEY_DTYPE,
    ColumnWrites,
    PortClosedError,
    PortError,
    PortTimeoutError,
    Sample,
    Sweep,
    WriteReceipt,
)
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience.mixing import Mix
from learner.feedback.column_writer import ColumnWriter


class Replay:
    """Keeps what is written; the test says what becomes of it."""

    def __init__(self):
        self.writes, self.answers = [], []

    def write(self, writes):
        self.writes.append(writes)
        self.answers.append(Future())
        return self.answers[-1]


def sample(num: int, keys_shape: tuple[int, ...]) -> Sample:
    keys = np.zeros(keys_shape, KEY_DTYPE)
    keys["row"] = np.arange(keys.size).reshape(keys_shape)
    return Sample(Unrolls(np.zeros(num, HEADER_DTYPE), {}), keys, np.ones(num), num, {})


def test_values_of_replayed_columns_go_back_under_their_keys():
    replay = Replay()
    mix = Mix(sample(1, (1,)), sample(2, (2,)))
    values = {"td_error": torch.tensor([[0.0, 1.0, 2.0], [10.0, 11.0, 12.0]])}
    final = {"value": torch.tensor([[5.0, 6.0, 7.0]])}
    ColumnWriter(replay, 3).write_batch(mix, values, final, WriteOptions({"rho": 4.0}))
    (writes,) = replay.writes
    assert writes.member == 3
    assert writes.keys.tolist() == mix.replayed.keys.tolist()
    assert writes.values["td_error"].tolist() == [[1.0, 11.0], [2.0, 12.0]]
    assert writes.final_values["value"].tolist() == [6.0, 7.0]
    assert writes.far_bounds == {"rho": 4.0}


def test_rows_of_streams_go_back_one_by_one():
    replay = Replay()
    mix = Mix(None, sample(2, (2, 3)))
    # Of T = 3 rows the loss speaks of the first two.
    ColumnWriter(replay, 0).write_batch(mix, {"rho": torch.tensor([[0.0, 3.0], [1.0, 4.0]])}, {}, WriteOptions())
    (writes,) = replay.writes
    assert writes.keys["row"].tolist() == [0, 1, 3, 4]
    assert writes.values["rho"].tolist() == [[0.0], [1.0], [3.0], [4.0]]


def test_a_number_of_the_first_row_goes_back_beside_those_of_all_rows():
    replay = Replay()
    mix = Mix(None, sample(2, (2, 3)))
    values = {"rho": torch.tensor([[0.0, 3.0], [1.0, 4.0], [2.0, 5.0]]), "priority": torch.tensor([[7.0, 8.0]])}
    ColumnWriter(replay, 0).write_batch(mix, values, {}, WriteOptions({"rho": 4.0}))
    first, all_rows = replay.writes
    assert first.keys["row"].tolist() == [0, 3]
    assert {name: value.tolist() for name, value in first.values.items()} == {"priority": [[7.0], [8.0]]}
    assert all_rows.keys["row"].tolist() == [0, 1, 2, 3, 4, 5]
    assert {name: value.ravel().tolist() for name, value in all_rows.values.items()} == {"rho": [0, 1, 2, 3, 4, 5]}
    assert (first.far_bounds, all_rows.far_bounds) == ({}, {"rho": 4.0})


@pytest.mark.parametrize("mix", [Mix(sample(1, (1,)), None), Mix(None, sample(1, (1,)))])
def test_nothing_is_written_where_nothing_is_known(mix):
    replay = Replay()
    values = {} if mix.replayed is not None else {"rho": torch.zeros(1, 1)}
    ColumnWriter(replay, 0).write_batch(mix, values, {}, WriteOptions())
    assert not replay.writes


def test_what_fails_is_counted_once_and_ends_nothing():
    replay = Replay()
    writer = ColumnWriter(replay, 0)
    mix, values = Mix(None, sample(1, (1,))), {"rho": torch.zeros(1, 1)}
    for _ in range(3):
        writer.write_batch(mix, values, {}, WriteOptions())
    replay.answers[0].set_exception(PortClosedError("gone"))
    replay.answers[1].set_result(WriteReceipt(1, 0))
    writer.write_batch(mix, values, {}, WriteOptions())
    assert writer.take_failed() == 1
    assert writer.take_failed() == 0
    for answer in replay.answers[2:]:
        answer.set_result(WriteReceipt(1, 0))
    writer.settle()


def test_a_failure_that_comes_while_answers_are_looked_at_is_counted():
    class Late(Future):
        """Answered just after it was asked about for the first time."""

        num_asked = 0

        def done(self):
            self.num_asked += 1
            return self.num_asked > 1

    late = Late()
    late.set_exception(PortClosedError("gone"))
    replay = Replay()
    writer = ColumnWriter(replay, 0)
    writer._under_way.append(late)
    mix, values = Mix(None, sample(1, (1,))), {"rho": torch.zeros(1, 1)}
    for _ in range(2):
        writer.write_batch(mix, values, {}, WriteOptions())
    assert writer.take_failed() == 1


def test_what_the_replay_refuses_is_said_once_and_counted():
    replay = Replay()
    writer = ColumnWriter(replay, 0)
    mix, values = Mix(None, sample(1, (1,))), {"rho": torch.zeros(1, 1)}
    writer.write_batch(mix, values, {}, WriteOptions())
    for number in range(2):
        replay.answers[-1].set_exception(PortError("column 'rho' got values that are not finite"))
        with pytest.warns(RuntimeWarning, match="column 'rho' got") if number == 0 else contextlib.nullcontext():
            writer.write_batch(mix, values, {}, WriteOptions())
    assert writer.take_failed() == 2


def test_values_of_several_batches_go_together_in_order():
    replay = Replay()
    writer = ColumnWriter(replay, 0, 3)
    mix = Mix(None, sample(2, (2,)))
    for number in range(4):
        options = WriteOptions({"rho": 10.0 - number}, Sweep("all" if number == 3 else "none", 0.9))
        writer.write_batch(mix, {"rho": torch.full((1, 2), number)}, {"value": torch.full((1, 2), -number)}, options)
        assert len(replay.writes) == (number >= 2)
    (writes,) = replay.writes
    assert writes.keys.tolist() == 3 * mix.replayed.keys.tolist()
    assert writes.values["rho"][:, 0].tolist() == [0, 0, 1, 1, 2, 2]
    assert writes.final_values["value"].tolist() == [0, 0, -1, -1, -2, -2]
    assert writes.far_bounds == {"rho": 8.0}, "not the newest bound"
    writer.write(ColumnWrites(0, mix.replayed.keys, {}))
    assert replay.writes[1].sweep == Sweep("all", 0.9), "what waited was overtaken"


def test_what_differs_does_not_go_together_and_nothing_overtakes():
    replay = Replay()
    writer = ColumnWriter(replay, 0, 8)
    mix = Mix(None, sample(1, (1,)))
    writer.write_batch(mix, {"rho": torch.zeros(1, 1)}, {}, WriteOptions(sweep=Sweep("none", 0.9)))
    writer.write_batch(mix, {"rho": torch.ones(1, 1)}, {}, WriteOptions(sweep=Sweep("all", 0.9)))
    writer.write_batch(mix, {"score": torch.ones(1, 1)}, {}, WriteOptions(sweep=Sweep("all", 0.9)))
    lesson = ColumnWrites(0, mix.replayed.keys, {"score": np.zeros((1, 1), np.float32)}, redraw=True)
    writer.write(lesson)
    assert [list(writes.values) for writes in replay.writes] == [["rho"], ["rho"], ["score"], ["score"]]
    assert [writes.sweep and writes.sweep.reach for writes in replay.writes] == ["none", "all", "all", None]
    assert replay.writes[3] is lesson


@pytest.mark.parametrize("batches_per_write", [1, 8])
def test_settling_has_a_deadline(monkeypatch, batches_per_write):
    replay = Replay()
    writer = ColumnWriter(replay, 0, batches_per_write)
    writer.write_batch(Mix(None, sample(1, (1,))), {"rho": torch.zeros(1, 1)}, {}, WriteOptions())
    monkeypatch.setattr("learner.feedback.column_writer.DEADLINE_S", 0.05)
    with pytest.raises(PortTimeoutError, match="column writes"):
        writer.settle()


def test_a_bound_told_by_an_earlier_batch_of_those_that_go_together_is_not_lost():
    replay = Replay()
    writer = ColumnWriter(replay, 0, 4)
    mix = Mix(None, sample(1, (1,)))
    for bounds in ({"rho": 5.0}, {}, {"rho": 3.0}, {}):
        writer.write_batch(mix, {"rho": torch.zeros(1, 1)}, {}, WriteOptions(bounds))
    (writes,) = replay.writes
    assert writes.far_bounds == {"rho": 3.0}


@pytest.mark.parametrize("batches_per_write", [1, 2])
def test_values_from_a_gpu_are_sent_with_the_next_batch_as_they_were(batches_per_write):
    replay = Replay()
    # No CPU, and no streams either: the copies are begun and sent as those of a GPU are.
    writer = ColumnWriter(replay, 0, batches_per_write, torch.device("meta"))
    mix = Mix(None, sample(1, (1,)))
    for number in range(4):
        value = torch.full((1, 1), float(number))
        writer.write_batch(mix, {"rho": value}, {"value": value}, WriteOptions({"rho": 1.0 + number}))
        value.fill_(99.0)
        assert len(replay.writes) == number // batches_per_write
    writer.hand_over()
    written = np.concatenate([writes.values["rho"][:, 0] for writes in replay.writes])
    assert written.tolist() == [0.0, 1.0, 2.0, 3.0]
    assert [writes.final_values["value"].tolist()[-1] for writes in replay.writes][-1] == 3.0
    assert replay.writes[-1].far_bounds == {"rho": 4.0}


def test_a_lesson_does_not_overtake_values_that_are_on_their_way():
    replay = Replay()
    writer = ColumnWriter(replay, 0, 8, torch.device("meta"))
    mix = Mix(None, sample(1, (1,)))
    writer.write_batch(mix, {"rho": torch.zeros(1, 1)}, {}, WriteOptions())
    writer.write(ColumnWrites(0, mix.replayed.keys, {"score": np.zeros((1, 1), np.float32)}))
    assert [list(writes.values) for writes in replay.writes] == [["rho"], ["score"]]
    writer.write_batch(mix, {"rho": torch.ones(1, 1)}, {}, WriteOptions())
    for answer in replay.answers:
        answer.set_result(WriteReceipt(1, 0))
    replay.write = lambda writes: replay.writes.append(writes) or _answered()
    writer.settle()
    assert len(replay.writes) == 3


def _answered():
    future = Future()
    future.set_result(WriteReceipt(1, 0))
    return future
