"""The loader: batches in the order they were drawn in, ahead of need or not, and what goes wrong where it is asked."""

import threading
import time

import numpy as np
import pytest
import torch

from laser.gpu import ToDevice
from laser.ports import KEY_DTYPE, PortTimeoutError, Sample
from laser.unroll import HEADER_DTYPE, Unrolls
from learner.experience.batch_loader import BatchLoader
from learner.experience.mixing import Mix


class Draws:
    """Stands in for a mixer: what it draws is what it was given; an error ends it."""

    def __init__(self, *drawn):
        self._drawn = list(drawn)
        self.num_wanted, self.closed = [], False

    def next(self, most):
        self.num_wanted.append(most)
        return self.poll(1.0)

    def poll(self, timeout_s):
        if not self._drawn:
            time.sleep(timeout_s)
            return []
        if isinstance(self._drawn[0], Exception):
            raise self._drawn.pop(0)
        return self._drawn.pop(0)

    def close(self):
        self.closed = True


def mix(number, streams=None):
    keys = np.zeros(2, KEY_DTYPE)
    replayed = Sample(Unrolls(np.zeros(2, HEADER_DTYPE), {}), keys, np.ones(2), number, streams=streams)
    return Mix(None, replayed)


def number_of(mixed):
    return mixed.replayed.num_stored


@pytest.fixture
def load():
    """Returns a loader; batches are the numbers of their mixes, and `calls` tells which were made together."""
    loaders, calls = [], []

    def make(draws, *, one_by_one=False, num_prefetch=0):
        def collate(mixes):
            calls.append([number_of(each) for each in mixes])
            return [f"batch {number_of(each)}" for each in mixes]

        def prepare(mixes, batches):
            return [{"said": f"of {batch}"} for batch in batches]

        to_device = ToDevice(torch.device("cpu"))
        loaders.append(
            BatchLoader(draws, collate, prepare, to_device, one_by_one=one_by_one, num_prefetch=num_prefetch)
        )
        return loaders[-1], calls

    yield make
    for loader in loaders:
        loader.close()


@pytest.mark.parametrize("num_prefetch", [0, 1, 3])
def test_batches_come_in_the_order_of_their_draws_with_what_was_said_of_each(load, num_prefetch):
    loader, calls = load(Draws([mix(1), mix(2)], [mix(3)]), num_prefetch=num_prefetch)
    loaded = [loader.poll(5.0) for _ in range(3)]
    assert [(each.batch, number_of(each.mix), each.prepared["said"]) for each in loaded] == [
        (f"batch {number}", number, f"of batch {number}") for number in (1, 2, 3)
    ]
    assert calls == [[1, 2], [3]]
    assert loader.poll(0.01) is None
    assert loader.is_ahead == (num_prefetch > 0)
    assert loader.decode_s > 0.0


def test_where_images_are_decoded_each_is_collated_by_itself(load):
    loader, calls = load(Draws([mix(1), mix(2)]), one_by_one=True)
    assert [loader.poll(0.0).batch for _ in range(2)] == ["batch 1", "batch 2"]
    assert calls == [[1], [2]]


def test_what_was_drawn_together_is_given_together_and_what_waits_before_more_is_drawn(load):
    draws = Draws([mix(1), mix(2)], [mix(3), mix(4)])
    loader, _ = load(draws)
    given = [[loaded.batch for loaded in loader.next(most)] for most in (3, 1, 2)]
    assert given == [["batch 1", "batch 2"], ["batch 3"], ["batch 4"]]
    assert draws.num_wanted == [3, 1]


def test_batches_know_which_streams_their_columns_walk(load):
    loader, _ = load(Draws([mix(1, np.array([4, 7]))], [mix(2)]))
    assert loader.poll(0.0).streams.tolist() == [4, 7]
    assert loader.poll(0.0).streams is None


@pytest.mark.parametrize("num_prefetch", [0, 2])
def test_what_goes_wrong_is_raised_where_a_batch_is_asked_for(load, num_prefetch):
    loader, _ = load(Draws([mix(1)], PortTimeoutError("nothing arrived")), num_prefetch=num_prefetch)
    assert loader.poll(5.0).batch == "batch 1"
    with pytest.raises(PortTimeoutError, match="nothing arrived"):
        loader.poll(5.0)


def test_no_more_than_so_many_are_made_ahead_and_closing_ends_that(load):
    others = set(threading.enumerate())
    draws = Draws(*[[mix(number)] for number in range(20)])
    loader, calls = load(draws, num_prefetch=2)
    assert loader.poll(5.0).batch == "batch 0"
    deadline = time.monotonic() + 5.0
    while len(calls) < 4 and time.monotonic() < deadline:
        time.sleep(0.01)
    time.sleep(0.3)
    assert len(calls) == 4  # one was given, two are ready, one waits for room
    loader.close()
    assert draws.closed
    assert "prefetch" not in {thread.name for thread in set(threading.enumerate()) - others}
    assert len(calls) == 4
