"""Waiting at a port, and the messages' own words."""

from concurrent.futures import CancelledError, Future

import numpy as np
import pytest

from laser.futures import done, failed
from laser.ports import (
    KEY_DTYPE,
    ORIGIN_DTYPE,
    PortClosedError,
    PortError,
    PortTimeoutError,
    SampleRequest,
    wait,
)
from laser.unroll import HEADER_DTYPE


def test_waiting_returns_the_result():
    assert wait(done(3), 0.0, "a number") == 3


def test_waiting_in_vain_says_for_what_and_takes_the_call_back():
    future = Future()
    with pytest.raises(PortTimeoutError, match=r"^waited 0.01 s for a batch$"):
        wait(future, 0.01, "a batch")
    assert future.cancelled()


def test_a_call_that_timed_out_at_the_other_side_keeps_its_own_message():
    with pytest.raises(PortTimeoutError, match=r"^5 of 10 steps stored$"):
        wait(failed(PortTimeoutError("5 of 10 steps stored")), 1.0, "a batch")


@pytest.mark.parametrize("error", [PortClosedError("gone"), PortError("full"), KeyError("x"), CancelledError()])
def test_other_errors_come_through_as_they_are(error):
    future = failed(error)
    with pytest.raises(type(error)) as raised:
        wait(future, 1.0, "a batch")
    assert raised.value is error


def test_whoever_catches_a_ports_errors_or_timeouts_catches_its_timeouts():
    assert issubclass(PortTimeoutError, PortError)
    assert issubclass(PortTimeoutError, TimeoutError)
    assert issubclass(PortClosedError, PortError)


def test_a_look_goes_past_the_sampler_and_other_requests_do_not():
    assert not SampleRequest(0, 3, view="steps").is_look
    assert SampleRequest(0, 3, view="steps", uniform=True).is_look
    # No key at all is a look as well: at nothing.
    assert SampleRequest(0, 0, view="steps", keys=np.empty(0, KEY_DTYPE)).is_look


def test_requests_are_compared_without_their_arrays():
    one, other = (SampleRequest(0, 2, keys=np.zeros(2, KEY_DTYPE)) for _ in range(2))
    assert one == other
    assert one != SampleRequest(0, 3)


def test_the_origin_of_a_row_is_what_its_header_says():
    for name in ORIGIN_DTYPE.names:
        assert ORIGIN_DTYPE[name] == HEADER_DTYPE[name]
