"""A head that is away: for how long a run waits for it, and what it says then."""

import socket
import threading
import time

import pytest

from launch.errors import RuntimeFailedError
from launch.runtimes.ray_head import Head


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener


def address_of(listener):
    return f"127.0.0.1:{listener.getsockname()[1]}"


class Clock:
    """The time of a test."""

    now = 1000.0

    def monotonic(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr("launch.runtimes.ray_head.time", clock)
    return clock


@pytest.mark.parametrize(("limit", "seconds"), [(None, 30.0), ("120", 60.0), ("soon", 30.0)])
def test_a_head_may_be_away_for_half_of_rays_own_limit(listener, clock, monkeypatch, limit, seconds):
    monkeypatch.delenv("RAY_gcs_rpc_server_reconnect_timeout_s", raising=False)
    if limit:
        monkeypatch.setenv("RAY_gcs_rpc_server_reconnect_timeout_s", limit)
    head = Head(address_of(listener))
    assert head.answers()
    clock.now += 1000.0  # nobody looked: that is no silence
    listener.close()
    assert not head.answers()
    clock.now += seconds
    assert not head.answers()
    clock.now += 1.0
    wrong = f"has not answered for {seconds + 1:.0f} seconds .Connection refused."
    with pytest.raises(RuntimeFailedError, match=wrong):
        head.answers()


def test_two_looks_that_are_far_apart_end_nothing(listener, clock):
    head = Head(address_of(listener))
    listener.close()
    assert not head.answers()
    clock.now += 40.0  # a long save: the head may have answered meanwhile
    assert not head.answers()
    with pytest.raises(RuntimeFailedError):
        head.answers()


def test_a_head_that_is_back_begins_anew(listener, clock):
    port = listener.getsockname()[1]
    head = Head(address_of(listener))
    listener.close()
    assert not head.answers()
    clock.now += 29.0
    with socket.create_server(("127.0.0.1", port)):
        assert head.answers()
    clock.now += 29.0
    assert not head.answers()


def test_wait_ends_when_the_head_is_back(listener):
    port = listener.getsockname()[1]
    head = Head(address_of(listener))
    listener.close()
    back = threading.Event()
    servers = []

    def come_back():
        time.sleep(0.7)
        servers.append(socket.create_server(("127.0.0.1", port)))
        back.set()

    threading.Thread(target=come_back).start()
    head.wait()
    assert back.wait(5.0)
    servers[0].close()


def test_wait_ends_with_the_error_if_the_head_stays_away(listener, clock):
    head = Head(address_of(listener))
    listener.close()
    with pytest.raises(RuntimeFailedError, match=r"has not answered for 3[01] seconds"):
        head.wait()
