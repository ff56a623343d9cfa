import os
import signal
import socket
import subprocess
import sys
import threading
import time

import pytest

from launch.restart_link import VARIABLE
from launch.supervision import signals
from launch.supervision.signals import stop_on_signals

# Says "ready", then "stopping" once a signal has come, then takes long to save.
_SCRIPT = """
import multiprocessing, time
from launch.supervision.signals import stop_on_signals
from launch.errors import run_reporting
from launch.restart_link import connect
if __name__ == "__main__":
    def command():
        connect()
        with stop_on_signals() as stop:
            child = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
            child.start()
            print("ready", child.pid, flush=True)
            deadline = time.monotonic() + 30
            while not stop.requested and time.monotonic() < deadline:
                time.sleep(0.01)
            print("stopping", flush=True)
            time.sleep({saving})
            child.kill()
            child.join()
            raise stop.error("saved")
    raise SystemExit(run_reporting(command))
"""


def start(saving, **options):
    process = subprocess.Popen(
        [sys.executable, "-c", _SCRIPT.format(saving=saving)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    word, child = process.stdout.readline().split()
    assert word == "ready"
    return process, int(child)


@pytest.mark.parametrize(
    ("number", "code", "name"),
    [(signal.SIGINT, 130, "Ctrl-C"), (signal.SIGTERM, 143, "SIGTERM"), (signal.SIGHUP, 129, "SIGHUP")],
)
def test_the_first_signal_asks_to_stop(number, code, name):
    process, _ = start(saving=0)
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == code
    assert out == "stopping\n"
    assert err.splitlines()[-1] == f"stopped: by {name}; saved"
    assert "Traceback" not in err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_the_second_leaves_at_once_and_takes_its_children_along(number, code):
    process, child = start(saving=60)
    process.send_signal(number)
    assert process.stdout.readline() == "stopping\n"
    begin = time.monotonic()
    process.send_signal(number)
    process.communicate(timeout=20)
    assert process.returncode == code
    assert time.monotonic() - begin < 5
    deadline = time.monotonic() + 5
    while alive(child) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert not alive(child)


@pytest.mark.parametrize(
    "pair",
    [
        (signal.SIGTERM, signal.SIGHUP),
        (signal.SIGHUP, signal.SIGTERM),
        (signal.SIGINT, signal.SIGHUP),
        (signal.SIGTERM, signal.SIGINT),
    ],
)
def test_two_different_signals_that_are_sent_together_are_one_stop(pair, leaving):
    with stop_on_signals() as stop:
        send_together(pair)
        assert (stop.number, leaving) == (min(pair), [])  # Python runs handlers in the order of the numbers
        os.kill(os.getpid(), max(pair))
    assert leaving == [128 + max(pair)]


def test_another_signal_leaves_at_once_if_it_comes_later(leaving, monkeypatch):
    monkeypatch.setattr(signals, "_SAME_S", 0.0)
    with stop_on_signals():
        send_together([signal.SIGINT, signal.SIGTERM])
    assert leaving == [143]


@pytest.fixture
def leaving(monkeypatch):
    """The exit codes with which the process would have left at once."""
    codes = []
    monkeypatch.setattr(os, "_exit", codes.append)
    return codes


def send_together(numbers):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, numbers)
    for number in numbers:
        signal.pthread_kill(threading.get_ident(), number)  # not to a thread of torch, where it is not blocked
    signal.pthread_sigmask(signal.SIG_SETMASK, before)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


def test_handlers_are_put_back():
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with stop_on_signals() as stop:
        assert signal.getsignal(signal.SIGTERM) not in before
        os.kill(os.getpid(), signal.SIGTERM)
        assert stop.requested  # the handler runs before the next line of the main thread
        assert (stop.requested, stop.exit_code) == (True, 143)
        assert stop.error("x").exit_code == 143
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_outside_the_main_thread_nothing_is_handled():
    codes = []

    def work():
        with stop_on_signals() as stop:
            codes.append((stop.requested, stop.exit_code))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert codes == [(False, 0)]


def test_a_second_hangup_does_not_cut_the_saving_short():
    process, _ = start(saving=1)
    process.send_signal(signal.SIGHUP)
    assert process.stdout.readline() == "stopping\n"
    process.send_signal(signal.SIGHUP)
    _, err = process.communicate(timeout=20)
    assert process.returncode == 129
    assert err.splitlines()[-1] == "stopped: by SIGHUP; saved"


def test_a_signal_that_a_supervisor_passes_on_too_does_not_cut_the_saving_short():
    ours, theirs = socket.socketpair()
    with ours, theirs:
        number = theirs.fileno()
        process, _ = start(saving=1, pass_fds=[number], env={**os.environ, VARIABLE: str(number)})
        process.send_signal(signal.SIGTERM)
        assert process.stdout.readline() == "stopping\n"
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=20)
    assert err.splitlines()[-1] == "stopped: by SIGTERM; saved"


@pytest.mark.parametrize("ignored", [signal.SIGHUP, signal.SIGINT])  # as under nohup, and by & in a script
def test_a_signal_that_was_ignored_at_the_start_stays_ignored(ignored):
    before = signal.signal(ignored, signal.SIG_IGN)  # inherited
    try:
        process, _ = start(saving=0)
    finally:
        signal.signal(ignored, before)
    process.send_signal(ignored)
    time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    assert process.returncode == 143
