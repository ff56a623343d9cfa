"""Processes that get ready together and measure one at a time; locks are those of files, so threads do as well."""

import threading
import time

import pytest

from launch.bench.gpu_steps.turns import Turns


def test_nobody_measures_while_another_does_or_gets_ready(tmp_path):
    log, ready = [], threading.Barrier(3)

    def step(number):
        turns = Turns(tmp_path, patience_s=20.0, give_up_s=20.0)
        ready.wait()
        time.sleep(0.1 * number)
        log.append(("ready", number))
        with turns.alone() as is_quiet:
            log.append(("begin", number))
            assert is_quiet
            time.sleep(0.05)
            log.append(("end", number))

    threads = [threading.Thread(target=step, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [what for what, _ in log[:3]] == ["ready"] * 3
    pairs = list(zip(log[3::2], log[4::2], strict=True))
    assert len(pairs) == 3
    assert all(begin == ("begin", number) for begin, (_, number) in pairs)


def test_who_is_never_ready_does_not_hold_up_the_others_for_ever(tmp_path):
    Turns(tmp_path, patience_s=60.0, give_up_s=60.0)  # never ready
    begun = time.monotonic()
    with Turns(tmp_path, patience_s=0.3, give_up_s=60.0).alone() as is_quiet:
        assert not is_quiet
    assert 0.2 < time.monotonic() - begun < 5.0


def test_who_has_no_turn_gives_up(tmp_path):
    first = Turns(tmp_path, patience_s=0.0, give_up_s=60.0)
    second = Turns(tmp_path, patience_s=0.0, give_up_s=0.3)
    with first.alone(), pytest.raises(TimeoutError, match="turn did not come"), second.alone():
        pass
    with second.alone() as is_quiet:
        assert is_quiet
