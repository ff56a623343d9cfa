"""The thread around a component, and the local runtime's workers: calls, failures, hangs, ends."""

from __future__ import annotations

import sys
import threading
import time
from functools import partial

import pytest

from laser.foreign_threads import left_behind
from laser.ports import PortClosedError, Report, wait
from launch.runtimes.host import Host
from launch.runtimes.local_runtime import LocalRuntime


class Ticker:
    """Counts its ticks, notes which thread does what, and hangs or fails when told to."""

    def __init__(self, incarnation=0):
        self.incarnation = incarnation
        self.heartbeat = time.monotonic()
        self.waiting_for = ""
        self.num_ticks = 0
        self.busy = False
        self.closed = threading.Event()
        self.fail = False
        self.error = ValueError("the rope broke")
        self.hang = threading.Event()
        self.release = threading.Event()
        self.pace = 0.0

    def tick(self):
        self.busy = True
        self.heartbeat = time.monotonic()
        if self.hang.is_set():
            self.waiting_for = "environment"
            self.release.wait(10.0)
        if self.fail:
            raise self.error
        time.sleep(0.001)
        self.num_ticks += 1
        self.busy = False
        return Report("ticker", {"ticks": float(self.num_ticks)})

    def set_pace(self, pace):
        self.pace = pace

    def look(self):
        return self.busy, self.num_ticks, threading.current_thread().name

    def refuse(self):
        raise KeyError("no such thing")

    def leave(self):
        sys.exit(3)

    def close(self):
        self.closed.set()


class Sink:
    def __init__(self):
        self.reports = []

    def report(self, report):
        self.reports.append(report)


def until(condition, timeout_s=5.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "the condition never came true"
        time.sleep(0.005)


@pytest.fixture
def hosted():
    sink, made = Sink(), []

    def factory():
        made.append(Ticker())
        return made[0]

    host = Host(factory, sink, "ticker")
    wait(host.call(Ticker.look), 5.0, "the component")
    yield host, made[0], sink
    made[0].release.set()
    host.close()


def test_calls_are_served_between_ticks_by_the_thread_that_ticks(hosted):
    host, ticker, sink = hosted
    host.start()
    until(lambda: ticker.num_ticks > 3)
    looks = [wait(host.call(Ticker.look), 5.0, "a look") for _ in range(50)]
    assert not any(busy for busy, _, _ in looks)
    assert {name for _, _, name in looks} == {"ticker"}
    assert looks[-1][1] > looks[0][1], "it ticks on between the calls"
    until(lambda: len(sink.reports) > 3)


def test_calls_are_served_before_it_starts_and_after_it_stops(hosted):
    host, ticker, _ = hosted
    assert wait(host.call(Ticker.look), 5.0, "a look")[1] == 0
    host.start()
    until(lambda: ticker.num_ticks > 0)
    host.stop()
    _, stopped_at, _ = wait(host.call(Ticker.look), 5.0, "a look")
    time.sleep(0.05)
    assert wait(host.call(Ticker.look), 5.0, "a look")[1] == stopped_at
    host.start()
    until(lambda: ticker.num_ticks > stopped_at)


def test_an_error_of_a_call_belongs_to_the_caller(hosted):
    host, ticker, _ = hosted
    host.start()
    with pytest.raises(KeyError, match="no such thing"):
        wait(host.call(Ticker.refuse), 5.0, "a refusal")
    assert host.failure() is None
    ticks = ticker.num_ticks
    until(lambda: ticker.num_ticks > ticks)


def test_a_failed_tick_is_kept_and_given_to_every_later_call(hosted):
    host, ticker, _ = hosted
    ticker.fail = True
    host.start()
    until(lambda: host.failure() is not None)
    assert isinstance(host.failure(), ValueError)
    assert ticker.closed.wait(5.0), "what failed is closed too"
    with pytest.raises(ValueError, match="the rope broke"):
        wait(host.call(Ticker.look), 5.0, "a look")


def test_leaving_python_in_a_tick_is_a_failure_like_any_other(hosted):
    host, ticker, _ = hosted
    ticker.error, ticker.fail = SystemExit(3), True
    host.start()
    until(lambda: host.failure() is not None)
    assert isinstance(host.failure(), Exception)
    assert "SystemExit: 3" in str(host.failure())


def test_a_call_that_leaves_python_fails_and_the_host_lives_on(hosted):
    host, _, _ = hosted
    with pytest.raises(RuntimeError, match="SystemExit"):
        wait(host.call(Ticker.leave), 5.0, "a call")
    assert wait(host.call(Ticker.look), 5.0, "a look")[1] == 0


def test_every_call_is_answered_however_it_meets_the_end():
    for _ in range(50):
        host = Host(Ticker, Sink(), "ticker")
        host.start()
        futures = []
        caller = threading.Thread(
            target=lambda host=host, into=futures: into.extend(host.call(Ticker.look) for _ in range(200))
        )
        caller.start()
        host.close()
        caller.join()
        for future in futures:
            try:
                wait(future, 2.0, "an answer")
            except PortClosedError:
                continue


def test_a_factory_that_fails_shows_as_failure():
    host = Host(partial(int, "seven"), Sink(), "numbers")
    until(lambda: host.failure() is not None)
    with pytest.raises(ValueError, match="seven"):
        wait(host.call(Ticker.look), 5.0, "a look")


def test_closing_ends_the_thread_and_refuses_calls(hosted):
    host, ticker, sink = hosted
    host.start()
    until(lambda: ticker.num_ticks > 0)
    assert host.close()
    assert ticker.closed.is_set()
    with pytest.raises(PortClosedError):
        wait(host.call(Ticker.look), 5.0, "a look")
    num_reports = len(sink.reports)
    time.sleep(0.05)
    assert len(sink.reports) == num_reports


def test_closing_interrupts_a_long_call():
    class Player:
        def __init__(self):
            self.interrupted = threading.Event()

        def play(self):
            self.interrupted.wait(30.0)
            raise InterruptedError("asked to end")

        def interrupt(self):
            self.interrupted.set()

    host = Host(Player, None, "player")
    playing = host.call(Player.play)
    until(playing.running)
    assert host.close()
    assert "player" not in left_behind()
    with pytest.raises(InterruptedError):
        wait(playing, 5.0, "the call")


def test_a_hung_component_is_seen_and_does_not_hold_up_closing(hosted):
    host, ticker, _ = hosted
    ticker.hang.set()
    host.start()
    until(lambda: host.silent_s("environment") > 0.1)
    assert host.silent_s("replay") == 0.0
    waiting = host.call(Ticker.look)
    begun = time.monotonic()
    assert not host.close(timeout_s=0.1)
    assert time.monotonic() - begun < 2.0
    ticker.release.set()
    with pytest.raises(PortClosedError):
        wait(waiting, 5.0, "a call that came while it hung")


def test_it_can_be_told_something_while_it_ticks(hosted):
    host, ticker, _ = hosted
    host.start()
    host.tell("set_pace", (0.5,), {})
    until(lambda: ticker.pace == 0.5)


def test_a_hung_worker_is_replaced_by_the_next_incarnation():
    runtime, sink, made = LocalRuntime(), Sink(), []

    def factory(incarnation):
        made.append(Ticker(incarnation))
        return made[-1]

    worker = runtime.worker("actor/0", factory, sink)
    wait(worker.call(Ticker.look), 5.0, "the component")
    made[0].hang.set()
    worker.start()
    until(lambda: worker.silent_s("environment") > 0.05)
    worker.replace()
    worker.start()
    assert worker.incarnation == 1
    until(lambda: len(made) == 2 and made[1].num_ticks > 2)
    assert made[1].incarnation == 1
    assert worker.silent_s("environment") == 0.0
    ticks = made[0].num_ticks
    made[0].release.set()
    assert made[0].closed.wait(5.0), "the old thread ends when its call returns"
    assert made[0].num_ticks <= ticks + 1
    runtime.close()
    assert made[1].closed.is_set()


def test_closing_the_runtime_frees_those_who_wait_for_the_shards():
    class WaitingShard:
        def __init__(self):
            self.closed = threading.Event()

        def close(self):
            self.closed.set()

    class Waiter(Ticker):
        def __init__(self, shard):
            super().__init__()
            self.shard = shard

        def tick(self):
            assert self.shard.closed.wait(10.0)
            raise PortClosedError("the shard is closed")

    runtime = LocalRuntime()
    (shard,) = runtime.shards([WaitingShard])
    worker = runtime.worker("actor/0", lambda incarnation: Waiter(shard), Sink())
    worker.start()
    time.sleep(0.05)
    begun = time.monotonic()
    runtime.close()
    assert time.monotonic() - begun < 4.0
    assert worker.close()


def test_the_runtime_names_environments_that_do_not_return_from_close(monkeypatch):
    monkeypatch.setattr("launch.runtimes.local_runtime.CLOSE_DEADLINE_S", 0.3)

    class Clinging(Ticker):
        def close(self):
            self.waiting_for = "environment's close()"
            self.release.wait(10.0)

    made = []

    def cling(incarnation):
        made.append(Clinging())
        return made[-1]

    runtime = LocalRuntime()
    for name, factory in (("actor/0", cling), ("actor/1", Ticker), ("actor/2", cling)):
        wait(runtime.worker(name, factory, Sink()).call(Ticker.look), 5.0, "the component")
    begun = time.monotonic()
    complaints = runtime.close()
    assert time.monotonic() - begun < 5.0  # all together, not each in turn
    assert [complaint.split(" did not return")[0] for complaint in complaints] == [
        "an environment of actor/0",
        "an environment of actor/2",
    ]
    for each in made:
        each.release.set()
