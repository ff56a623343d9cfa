"""`--restart`: a run whose process dies goes on by itself, and ends by itself where that would not help."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import psutil
import pytest

from launch.__main__ import main
from launch.command_line import restarts
from launch.standard_output import name_long_waits
from learner.checkpoint import list_checkpoints

TRAIN = ["train", "cartpole", "--stop-at-return", "inf", "--restart"]

# Runs in place of `laser`: the run's directory and a list of ends are its arguments. Each start makes a checkpoint
# where its end says so, and then ends; with "!" without a word, with "?" before its run has begun.
ACTING = """
import os, signal, sys
from pathlib import Path
from launch.restart_link import announce, connect, note_end

assert connect()
run, ends = Path(os.environ["RUN"]), os.environ["ENDS"].split(",")
run.mkdir(exist_ok=True)
with (run / "starts.txt").open("a") as file:
    file.write(" ".join(sys.argv[1:]) + "\\n")
start = len((run / "starts.txt").read_text().splitlines())
saves, end = ends[start - 1].rstrip("!?").split(":")
if not ends[start - 1].endswith("?"):
    announce(run)
if saves:
    (run / "checkpoints" / f"{start:06d}-step-{saves}").mkdir(parents=True)
if int(end) <= 0 and not ends[start - 1].endswith("!"):
    note_end()
os.kill(os.getpid(), int(end)) if int(end) > 0 else sys.exit(-int(end))
"""


@pytest.fixture
def acting(tmp_path, monkeypatch, capsys):
    """Supervises a process that ends as it is asked to; returns exit code, lines of standard error, and the starts."""
    monkeypatch.setattr(restarts, "_program", lambda words: ["-c", ACTING])
    monkeypatch.setattr(restarts, "_LONGEST_WAIT_S", 0.01)
    monkeypatch.setenv("RUN", str(tmp_path / "run"))

    def supervised(ends, words=("train", "cartpole", "--restart")):
        monkeypatch.setenv("ENDS", ends)
        code = main(list(words))
        return code, capsys.readouterr().err.splitlines(), (tmp_path / "run" / "starts.txt").read_text().splitlines()

    return supervised


def test_a_death_continues_the_same_command_from_its_checkpoint(acting, tmp_path):
    run = tmp_path / "run"
    code, said, starts = acting("40:9,90:11,:0", ["train", "cartpole", "--no-resume", "--restart"])
    assert code == 0
    assert starts[0] == "train cartpole --no-resume --restart"
    assert starts[1:] == [f"train cartpole --restart --resume --run-dir {run}"] * 2
    assert said == [
        "restarted (1): the trainer was ended by SIGKILL; continuing from checkpoint 000001-step-40",
        "restarted (2): the trainer was ended by SIGSEGV; continuing from checkpoint 000002-step-90",
    ]
    assert [line.split(" ", 2)[2] for line in (run / "log.txt").read_text().splitlines()] == said


def test_it_waits_only_while_there_is_no_new_checkpoint(acting, monkeypatch):
    waits = []
    monkeypatch.setattr(restarts, "_LONGEST_WAIT_S", 30.0)
    monkeypatch.setattr(restarts._Supervisor, "_wait", lambda _, seconds: waits.append(seconds))
    assert acting("40:9,:9,:9,90:9,:0")[0] == 0
    assert waits == [0.0, 1.0, 3.0, 0.0]


def test_directories_beside_the_checkpoints_are_none_of_them(acting, tmp_path):
    (tmp_path / "run" / "checkpoints" / "2026-11-backup").mkdir(parents=True)
    code, said, _ = acting("40:9,:0")
    assert code == 0
    assert said == ["restarted (1): the trainer was ended by SIGKILL; continuing from checkpoint 000001-step-40"]


def test_a_failure_of_ray_is_a_death(acting):
    code, said, starts = acting("40:-69,:0")
    assert (code, len(starts)) == (0, 2)
    assert said[0].startswith("restarted (1): the trainer was ended by a failure of Ray; ")


@pytest.mark.parametrize("end", [-1, -2, -66, -74, -75, -130, -143, signal.SIGTERM, signal.SIGINT])
def test_ends_that_would_come_back_and_stops_are_no_deaths(acting, end):
    code, said, starts = acting(f"40:{int(end)}")
    assert (code, said, len(starts)) == (128 + end if end > 0 else -end, [], 1)


def test_an_end_without_a_word_is_a_death(acting):
    code, said, starts = acting("40:-1!,:0")
    assert (code, len(starts)) == (0, 2)
    assert said[0].startswith("restarted (1): the trainer ended with code 1; ")


CLUSTER = ("train", "cartpole", "--restart", "--ray-address")


def test_on_a_cluster_a_run_that_cannot_begin_again_yet_is_tried_again(acting):
    with socket.create_server(("127.0.0.1", 0)) as head:
        on_cluster = (*CLUSTER, f"127.0.0.1:{head.getsockname()[1]}")
        code, said, starts = acting("40:9,:-1?,:-1?,:0", on_cluster)
        assert (code, len(starts)) == (0, 4)
        assert [line.partition(";")[0] for line in said] == [
            "restarted (1): the trainer was ended by SIGKILL",
            "restarted (2): the trainer ended with code 1",
            "restarted (3): the trainer ended with code 1",
        ]


def test_nodes_that_are_missing_are_waited_for_and_not_for_ever(acting, monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as head:
        on_cluster = (*CLUSTER, f"127.0.0.1:{head.getsockname()[1]}")
        code, said, starts = acting(",".join(["40:9", *[":-1?"] * 9, ":0"]), on_cluster)
        assert (code, len(starts)) == (0, 11)
        shutil.rmtree(os.environ["RUN"])
        monkeypatch.setattr(restarts, "_AWAY_DEADLINE_S", 0.05)
        code, said, starts = acting("40:9,:-1?,:-1?,:0", on_cluster)
        assert (code, len(starts)) == (1, 3)
        assert "ended with code 1; it could not begin again on this cluster for 0.05 s; to continue: " in said[-1]


def test_the_first_start_on_a_cluster_and_ends_of_a_run_that_has_begun_are_its_own(acting):
    with socket.create_server(("127.0.0.1", 0)) as head:
        on_cluster = (*CLUSTER, f"127.0.0.1:{head.getsockname()[1]}")
        assert acting("40:-1?", on_cluster)[0] == 1
        code, _, starts = acting("9:9,40:9,:-1", on_cluster)
        assert (code, len(starts)) == (1, 3)


def test_a_run_waits_for_its_head_and_gives_up_after_a_time(acting, monkeypatch):
    monkeypatch.setattr(restarts, "_HEAD_INTERVAL_S", 0.1)
    monkeypatch.setattr(restarts, "name_long_waits", partial(name_long_waits, after_s=0.2))
    with socket.create_server(("127.0.0.1", 0)) as reserved:
        port = reserved.getsockname()[1]
    timer = threading.Timer(1.0, lambda: heads.append(socket.create_server(("127.0.0.1", port))))
    heads = []
    timer.start()
    code, said, starts = acting("40:9,:0", (*CLUSTER, f"127.0.0.1:{port}"))
    timer.join()
    heads[0].close()
    assert (code, len(starts)) == (0, 2)
    assert said[0].startswith(f"waiting for the head at 127.0.0.1:{port} (")
    assert said[-1].startswith("restarted (1): ")
    monkeypatch.setattr(restarts, "_AWAY_DEADLINE_S", 0.3)
    shutil.rmtree(os.environ["RUN"])
    code, said, starts = acting("40:9,:0", (*CLUSTER, f"127.0.0.1:{port}"))
    assert (code, len(starts)) == (137, 1)
    assert "the head at 127.0.0.1:" in said[-1]
    assert "has been away for 0.3 s" in said[-1]


def test_deaths_without_progress_end_it(acting, tmp_path):
    code, said, starts = acting(",".join(["40:9", *[":9"] * 9]))
    assert (code, len(starts)) == (137, 5)
    assert [line.partition(":")[0] for line in said] == [f"restarted ({num})" for num in (1, 2, 3, 4)] + ["error"]
    assert "SIGKILL; it died 5 times without a new checkpoint between; to continue: " in said[-1]
    assert "failed: the trainer was ended by SIGKILL" in (tmp_path / "run" / "log.txt").read_text().splitlines()[-1]


def test_progress_renews_the_budget(acting):
    ends = ["40:9", ":9", ":9", ":9", "50:9", ":9", "50:9", ":9", "60:9", ":0"]
    code, said, starts = acting(",".join(ends))
    assert (code, len(starts), len(said)) == (0, 10, 9)


def test_a_death_before_the_first_checkpoint_is_the_end(acting):
    code, said, starts = acting(":9")
    assert (code, len(starts)) == (137, 1)
    assert said == ["error: restart: the trainer was ended by SIGKILL before its first checkpoint; start it again"]


def test_a_stop_between_two_starts_ends_it(acting, monkeypatch):
    monkeypatch.setattr(restarts, "_LONGEST_WAIT_S", 30.0)
    monkeypatch.setattr(restarts, "_saved_steps", lambda run: os.kill(os.getpid(), signal.SIGTERM) or 1)
    code, said, starts = acting("40:9,:0")
    assert (code, len(starts)) == (143, 1)
    assert said[-1].startswith("stopped: by SIGTERM; to continue: ")


def test_mistakes_end_it_at_once(capsys):
    assert main(["train", "cartpole", "--restart=maybe"]) == 2
    assert "error: restart: must be true or false, got 'maybe'" in capsys.readouterr().err
    ended = subprocess.run(
        [sys.executable, "-m", "launch", *TRAIN, "--num-envs", "0"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (ended.returncode, ended.stdout) == (2, "")
    assert [line.partition(": ")[2].partition(":")[0] for line in ended.stderr.splitlines()] == ["num-envs"]


def test_what_was_ignored_at_the_start_is_not_passed_on(acting, monkeypatch):
    monkeypatch.setattr(restarts, "_saved_steps", lambda run: os.kill(os.getpid(), signal.SIGINT) or 1)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        code, said, starts = acting("40:9,:0")
    finally:
        signal.signal(signal.SIGINT, before)
    assert (code, len(starts)) == (0, 2), said


def test_it_imports_nothing_heavy():
    script = "import sys, launch.command_line.restarts; print(sorted({'numpy', 'ray', 'torch'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


def start(folder, *words, what=TRAIN):
    return subprocess.Popen(
        [sys.executable, "-m", "launch", *what, *words],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def trainer_of(supervisor, folder, least_checkpoint=0):
    """Return the trainer once the run has a checkpoint of at least this number."""
    deadline = time.monotonic() + 60
    while not any(int(path.name[:6]) >= least_checkpoint for path in folder.glob("runs/**/checkpoints/0*")):
        assert supervisor.poll() is None, supervisor.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.02)
    (trainer,) = psutil.Process(supervisor.pid).children()
    return trainer


def newest_number(folder):
    return max(int(path.name[:6]) for path in folder.glob("runs/*/checkpoints/0*"))


def test_a_run_that_is_killed_twice_makes_its_steps(tmp_path):
    with start(tmp_path, "--steps", "15000", "--learner.checkpoint-interval-s", "0.3", "--json") as supervisor:
        trainer_of(supervisor, tmp_path).kill()
        time.sleep(0.5)
        trainer_of(supervisor, tmp_path, 1 + newest_number(tmp_path)).kill()
        out, err = supervisor.communicate(timeout=120)
    assert supervisor.returncode == 0, err
    result = json.loads(out)
    assert (result["finished"], result["env_steps"] >= 15_000) == ("steps", True)
    assert result["ledger"]["imbalance"] == dict.fromkeys(result["ledger"]["imbalance"], 0)
    assert [line for line in err.splitlines() if line.startswith("restarted (2): the trainer was ended by SIGKILL at ")]
    (run,) = tmp_path.glob("runs/*")
    assert (run / "log.txt").read_text().count(" restarted (") == 2


def test_a_sweep_that_is_killed_makes_the_steps_of_all_its_members(tmp_path):
    more = ["--steps", "8000", "--learner.checkpoint-interval-s", "0.3", "--json", "--seeds", "2", "--share-replay"]
    with start(tmp_path, *more, what=["sweep", *TRAIN[1:]]) as supervisor:
        trainer = trainer_of(supervisor, tmp_path)
        (path,) = tmp_path.glob("runs/*")
        deadline = time.monotonic() + 60
        while not all(list_checkpoints(path / "members" / str(number) / "checkpoints") for number in (0, 1)):
            assert time.monotonic() < deadline, "a member was never saved"
            time.sleep(0.02)
        trainer.kill()
        out, err = supervisor.communicate(timeout=120)
    assert supervisor.returncode == 0, err
    members = json.loads(out)["members"]
    assert [(member["finished"], member["env_steps"] >= 8000) for member in members] == [("steps", True)] * 2
    for member in members:
        assert member["ledger"]["imbalance"] == dict.fromkeys(member["ledger"]["imbalance"], 0)
    assert [line for line in err.splitlines() if line.startswith("restarted (1): the trainer was ended by SIGKILL")]


def test_a_stop_that_reaches_the_whole_group_saves_once(tmp_path):
    with start(tmp_path, "--steps", "100000000") as supervisor:
        trainer = trainer_of(supervisor, tmp_path)  # the first one is made before the first step
        os.killpg(supervisor.pid, signal.SIGTERM)
        out, err = supervisor.communicate(timeout=60)
    assert (supervisor.returncode, out) == (143, "")
    assert err.splitlines()[-1].startswith("stopped: by SIGTERM; saved at ")
    assert "restarted" not in err
    assert not trainer.is_running()


def test_a_killed_supervisor_stops_its_trainer(tmp_path):
    with start(tmp_path, "--steps", "100000000") as supervisor:
        trainer = trainer_of(supervisor, tmp_path)  # the first one is made before the first step
        supervisor.kill()
        _, err = supervisor.communicate(timeout=60)  # until the trainer has closed its standard error, too
    assert err.splitlines()[-1].startswith("stopped: by SIGTERM; saved at ")
    psutil.wait_procs([trainer], timeout=30)
    assert not trainer.is_running()
