import sys
import threading
import time

import pytest

from laser.ports import PortClosedError, wait
from launch.host import Host


class Reports:
    def report(self, report):
        pass


class Component:
    heartbeat = 0.0
    waiting_for = ""

    def __init__(self, act=lambda: None):
        self.act = act
        self.num_ticks = 0

    def tick(self):
        self.num_ticks += 1
        time.sleep(0.001)
        self.act()

    def number(self):
        return self.num_ticks

    def leave(self):
        sys.exit(3)


def test_it_ticks_only_between_start_and_stop_and_serves_calls_always():
    host = Host(Component, Reports(), "host")
    assert wait(host.call("number"), 5, "a call") == 0
    host.start()
    while wait(host.call("number"), 5, "a call") < 3:
        time.sleep(0.001)
    host.stop()
    before = wait(host.call("number"), 5, "a call")
    time.sleep(0.02)
    assert wait(host.call("number"), 5, "a call") <= before + 1
    assert host.close()


@pytest.mark.parametrize("error", [ValueError("broken"), SystemExit(3)])
def test_what_ends_a_component_is_known_to_its_owner(error):
    def act():
        raise error

    host = Host(lambda: Component(act), Reports(), "host")
    host.start()
    deadline = time.monotonic() + 5
    while host.failure() is None and time.monotonic() < deadline:
        time.sleep(0.001)
    assert isinstance(host.failure(), Exception)
    assert ("broken" if isinstance(error, ValueError) else "SystemExit(3)") in str(host.failure())
    with pytest.raises(type(host.failure())):
        wait(host.call("number"), 5, "a call")
    host.close()


def test_a_call_that_leaves_python_fails_and_the_host_lives_on():
    host = Host(Component, Reports(), "host")
    with pytest.raises(RuntimeError, match="SystemExit"):
        wait(host.call("leave"), 5, "a call")
    assert wait(host.call("number"), 5, "a call") == 0
    host.close()


def test_every_call_is_answered_however_it_meets_the_end():
    for _ in range(50):
        host = Host(Component, Reports(), "host")
        host.start()
        futures = []
        caller = threading.Thread(
            target=lambda host=host, into=futures: into.extend(host.call("number") for _ in range(200))
        )
        caller.start()
        host.close()
        caller.join()
        for future in futures:
            try:
                wait(future, 2, "an answer")
            except PortClosedError:
                continue
