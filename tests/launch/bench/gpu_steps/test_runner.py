"""Steps that hang, fail, die and run out of time."""

import os
import subprocess
import sys
import time

import psutil
import pytest

from launch.bench.gpu_steps.runner import Runner, Slot, Step

SAY = """
import json, os, subprocess, sys, time
def say(name, value):
    print(json.dumps({"kind": "result", "name": name, "value": value, "unit": "s"}), flush=True)
"""
SCRIPTS = {
    "fine": "say('a', 1.0); say('b', 2.0)",
    "hangs": "say('before', 1.0); time.sleep(600)",
    "fails": "say('before', 1.0); raise RuntimeError('CUDA error: an illegal memory access')",
    "dies": "say('before', 1.0); os.kill(os.getpid(), 9)",
    "babbles": "print('no entry'); print('[]'); print('{\"kind\": 1, \"nobody\": 2}'); say('a', 1.0)",
    "leaves": "subprocess.Popen(['sleep', '600']); say('a', 1.0)",
    "brief": "time.sleep(0.2); say('a', 1.0)",
}


def run(slots, seconds=60.0, scripts=SCRIPTS):
    """What was taken, by step, and the seconds that it took."""
    taken, lines = [], []
    runner = Runner(
        lambda step, left_s, folder: [sys.executable, "-c", SAY + scripts[step.name]], taken.append, lines.append
    )
    begun = time.monotonic()
    runner.run("A", slots, seconds)
    return taken, lines, time.monotonic() - begun


def slot(*names, seconds=20.0, least_s=0.5):
    return Slot(seconds, tuple(Step(name) for name in names), least_s)


def of(taken, step):
    return [(entry.kind, entry.name) for entry in taken if entry.step == step]


def test_results_are_taken_in_their_order_with_part_and_step():
    taken, lines, _ = run([slot("fine")])
    assert of(taken, "fine") == [("result", "a"), ("result", "b"), ("ended", "")]
    assert {(entry.part, entry.step) for entry in taken} == {("A", "fine")}
    assert [entry.value for entry in taken[:2]] == [1.0, 2.0]
    assert lines[0].startswith("-- part A, 0:59 left: fine, at most 0:")


def test_a_step_that_hangs_is_killed_at_its_deadline_and_the_next_runs():
    taken, _, seconds = run([slot("hangs", seconds=1.0), slot("fine")])
    assert of(taken, "hangs") == [("result", "before"), ("failed", "")]
    assert "killed at its deadline after 1 s" in taken[1].note
    assert of(taken, "fine") == [("result", "a"), ("result", "b"), ("ended", "")]
    assert seconds < 10.0


@pytest.mark.parametrize(
    ("own_session", "ends"),
    # Whose a process with a session of its own was, nobody knows once its parent is gone.
    [(False, "time.sleep(600)"), (True, "time.sleep(600)"), (False, "pass"), (False, "raise ValueError")],
)
def test_what_a_step_has_started_ends_with_it(tmp_path, own_session, ends):
    pid = tmp_path / "pid"
    script = (
        f"child = subprocess.Popen(['sleep', '600'], start_new_session={own_session})\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n{ends}"
    )
    run([slot("starts", seconds=2.0)], scripts={"starts": script})
    until = time.monotonic() + 5.0
    while is_alive(int(pid.read_text())) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_alive(int(pid.read_text()))


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_a_process_that_is_left_behind_with_the_output_does_not_hold_up_the_next():
    taken, _, seconds = run([slot("leaves"), slot("fine")])
    assert of(taken, "leaves") == [("result", "a"), ("ended", "")]
    assert of(taken, "fine")[-1] == ("ended", "")
    assert seconds < 10.0


def test_a_step_that_fails_is_one_line_with_its_last_words_and_the_next_runs():
    taken, _, _ = run([slot("fails"), slot("fine")])
    assert of(taken, "fails") == [("result", "before"), ("failed", "")]
    assert taken[1].note.startswith("RuntimeError: CUDA error: an illegal memory access (exit code 1, after ")
    assert len(str(taken[1]).splitlines()) == 1
    assert "Traceback" in taken[1].details["report"]
    assert of(taken, "fine")[-1] == ("ended", "")


def test_what_a_step_said_before_it_died_counts():
    taken, _, _ = run([slot("dies"), slot("fine")])
    assert of(taken, "dies") == [("result", "before"), ("failed", "")]
    assert "signal 9" in taken[1].note
    assert of(taken, "fine")[-1] == ("ended", "")


def test_what_is_no_entry_is_passed_over():
    taken, _, _ = run([slot("babbles")])
    assert of(taken, "babbles") == [("result", "a"), ("ended", "")]


def test_the_parts_time_skips_the_rest_and_says_so():
    taken, _, seconds = run([slot("hangs", seconds=5.0), slot("fine")], seconds=1.0)
    assert of(taken, "hangs")[-1] == ("failed", "")
    assert of(taken, "fine") == [("skipped", "")]
    assert taken[-1].note.startswith("the part's time is spent")
    assert seconds < 4.0


def test_a_steps_own_time_skips_it_and_says_so():
    taken, _, _ = run([slot("hangs", seconds=1.0), slot("fine", seconds=1.0, least_s=2.0), slot("brief")])
    assert of(taken, "fine") == [("skipped", "")]
    assert of(taken, "brief")[-1] == ("ended", "")


def test_time_that_a_step_leaves_over_is_the_next_ones():
    taken, _, _ = run([slot("fine", seconds=3.0), slot("brief", seconds=0.0)])
    assert of(taken, "brief") == [("result", "a"), ("ended", "")]


def test_steps_of_a_slot_run_at_the_same_time():
    scripts = {f"waits {number}": "time.sleep(1.0); say('a', 1.0)" for number in range(4)}
    taken, _, seconds = run([slot(*scripts)], scripts=scripts)
    assert [entry.kind for entry in taken].count("ended") == 4
    assert seconds < 3.0


def test_one_of_several_that_hangs_costs_the_others_nothing():
    taken, _, _ = run([slot("hangs", "fine", seconds=2.0)])
    assert of(taken, "hangs") == [("result", "before"), ("failed", "")]
    assert of(taken, "fine")[-1] == ("ended", "")


def test_an_interrupt_ends_the_step_too(tmp_path):
    pid = tmp_path / "pid"
    script = f"open({str(pid)!r}, 'w').write(str(os.getpid())); say('a', 1.0); time.sleep(600)"

    def interrupt(entry):
        raise KeyboardInterrupt

    runner = Runner(lambda *_: [sys.executable, "-c", SAY + script], interrupt, lambda line: None)
    with pytest.raises(KeyboardInterrupt):
        runner.run("A", [slot("waits")], 60.0)
    assert not is_alive(int(pid.read_text()))


# A step of its own, which the package finds in another folder, too.
HANGS = """
import os, sys, time
def run(context):
    open(os.environ["PID_FILE"], "w").write(str(os.getpid()))
    time.sleep(600)
"""
RUNS_IT = """
import sys
FIND = f"from launch.bench import gpu_steps; gpu_steps.__path__.append({sys.argv[1]!r}); "
from launch.bench.gpu_steps.child import command
from launch.bench.gpu_steps.runner import Runner, Slot, Step
def command_of(step, seconds, folder):
    *python, program, task = command(step, seconds, folder, "cpu", True, {})
    return [*python, FIND + program, task]
Runner(command_of, print, print).run("A", [Slot(60.0, (Step("x", "hangs_for_ever:run"),))], 60.0)
"""


def test_a_step_ends_with_a_runner_that_is_killed(tmp_path):
    pid = tmp_path / "pid"
    (tmp_path / "hangs_for_ever.py").write_text(HANGS)
    runner = subprocess.Popen([sys.executable, "-c", RUNS_IT, str(tmp_path)], env={**os.environ, "PID_FILE": str(pid)})
    until = time.monotonic() + 30.0
    while not (pid.exists() and pid.read_text()) and time.monotonic() < until:
        time.sleep(0.02)
    runner.kill()
    runner.wait()
    while is_alive(int(pid.read_text())) and time.monotonic() < until:
        time.sleep(0.02)
    assert not is_alive(int(pid.read_text()))
