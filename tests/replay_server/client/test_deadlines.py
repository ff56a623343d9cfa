"""What is not answered in time fails with the name of whom it waited for; nothing else changes."""

import threading
from concurrent.futures import Future

import pytest

from laser.futures import done
from laser.ports import PortClosedError, wait
from replay_server.client import deadlines as module
from replay_server.client.deadlines import Deadlines


@pytest.fixture
def deadlines(monkeypatch):
    monkeypatch.setattr(module, "_LOOK_INTERVAL_S", 0.01)
    kept = Deadlines()
    yield kept
    kept.close()


def test_answers_in_time_come_as_they_are(deadlines):
    assert deadlines.within(60.0, done(1), "who").result() == 1
    late, wrong = Future(), Future()
    answers = [deadlines.within(60.0, future, "who") for future in (late, wrong)]
    assert not any(answer.done() for answer in answers)
    late.set_result(2)
    wrong.set_exception(KeyError("x"))
    assert answers[0].result() == 2
    with pytest.raises(KeyError):
        answers[1].result()


def test_who_does_not_answer_is_named_and_may_answer_later(deadlines):
    silent, other = Future(), Future()
    failing, going_on = deadlines.within(0.05, silent, "shard 3"), deadlines.within(60.0, other, "shard 4")
    with pytest.raises(PortClosedError, match=r"shard 3 has not answered for 0.05 s"):
        wait(failing, 5.0, "the deadline")
    silent.set_result(1)
    assert not going_on.done()
    assert not deadlines._waiting.keys() - {going_on}, "what is over is not kept"


def test_closing_ends_the_thread(deadlines):
    deadlines.within(60.0, Future(), "who")
    thread = deadlines._thread
    assert thread in threading.enumerate()
    deadlines.close()
    thread.join(5.0)
    assert not thread.is_alive()
