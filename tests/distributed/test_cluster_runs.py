"""Runs over two real Ray nodes: every unroll is accounted for, and what is wrong with a cluster is said in one line."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import grpc
import optuna
import psutil
import pytest
from books import check, newest_totals

from launch.errors import LaunchError
from launch.planning.needs import Needs
from launch.runtimes.placement import Node, Placement
from launch.sweeps.tuning import STUDY_NAME
from learner.checkpoint import list_checkpoints

pytestmark = [pytest.mark.ray, pytest.mark.timeout(180)]

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
TOKEN = "0123456789abcdef" * 4
PATIENCE_S = 240.0


def environment(**changes):
    cleared = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    return {**cleared, "RAY_AUTH_TOKEN": TOKEN, "OMP_NUM_THREADS": "1", **changes}


class Nodes:
    """Nodes with so many CPUs, of which the first is the head."""

    def __init__(self, *cpus):
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "nodes.py"), *map(str, cpus)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=environment(),
        )
        self.address = self._read()

    def tell(self, line):
        self._process.stdin.write(line + "\n")
        self._process.stdin.flush()
        return self._read()

    def kill_that_of(self, host):
        """Kill the raylet of the node on which a process of this kind is; its other processes end by themselves."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        (found,) = [each for each in children if "".join(each.cmdline()).startswith(f"ray::{host}")]
        found.parent().kill()

    def hosts(self):
        """Return the processes of runs on all nodes, which Ray names after what they host."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        return [each for each in children if "".join(_command(each)).startswith("ray::_")]

    def head(self):
        """Return the process of the head."""
        children = psutil.Process(self._process.pid).children(recursive=True)
        (found,) = [each for each in children if each.name() == "gcs_server"]
        return found

    def close(self):
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _read(self):
        line = self._process.stdout.readline().strip()
        assert line, "the nodes did not start"
        return line


def _command(process):
    try:
        return process.cmdline()
    except psutil.Error:  # it has just ended
        return []


@pytest.fixture(scope="module")
def nodes():
    nodes = Nodes(2, 2)
    yield nodes
    nodes.close()


def train(tmp_path, address, **changes):
    """Return the exit code and the lines of a run from the command line, in a directory where no LASER is."""
    command = [str(Path(sys.executable).parent / "laser"), "train", "cartpole"]
    options = ["--ray-address", address, "--steps", "2000", "--run-dir", "run", "--quiet", "--json"]
    arguments = [*command, *options, *changes.pop("options", [])]
    done = subprocess.run(
        arguments, cwd=tmp_path, env=environment(**changes), capture_output=True, text=True, timeout=120, check=False
    )
    return done.returncode, done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.long
def test_two_nodes_account_for_every_unroll_while_one_loses_its_actors_and_its_shard(nodes):
    done = subprocess.run(
        [
            sys.executable,
            str(HERE / "cluster_run.py"),
            nodes.address,
            "--kill-actors",
            "--kill-shard",
            "--env-steps",
            "400",
        ],
        env=environment(PYTHONPATH=str(ROOT)),
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    check(json.loads(done.stdout.splitlines()[-1]))


def free_port():
    with contextlib.closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def test_an_address_where_nobody_listens():
    from launch.runtimes.ray_cluster import check_reachable

    address = f"127.0.0.1:{free_port()}"
    with pytest.raises(LaunchError, match=f"ray-address: {address} cannot be reached: Connection refused"):
        check_reachable(address)


def test_an_address_where_something_else_listens(monkeypatch):
    from launch.runtimes import ray_cluster

    monkeypatch.setattr(ray_cluster, "_REACH_DEADLINE_S", 0.5)
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        with pytest.raises(LaunchError, match=f"the server at {address} is not a Ray head"):
            ray_cluster.check_reachable(address)


@pytest.mark.parametrize(("token", "words"), [("f" * 64, "this token"), ("", "calls without a token")])
def test_a_token_that_the_cluster_does_not_know(nodes, tmp_path, monkeypatch, token, words):
    from launch.runtimes.ray_cluster import check_reachable

    monkeypatch.setenv("RAY_AUTH_TOKEN", TOKEN)
    check_reachable(nodes.address)
    monkeypatch.setenv("RAY_AUTH_TOKEN", token)
    monkeypatch.setenv("RAY_AUTH_TOKEN_PATH", str(tmp_path / "none"))
    with pytest.raises(LaunchError, match=f"the cluster at {nodes.address} refuses {words}"):
        check_reachable(nodes.address)


def test_a_cluster_that_asks_for_no_token_is_refused(nodes, monkeypatch):
    from launch.runtimes import ray_cluster

    monkeypatch.setattr(ray_cluster, "_answer", lambda address, token: grpc.StatusCode.OK)
    with pytest.raises(LaunchError, match="asks for no token: anyone who reaches it can run any program there"):
        ray_cluster.check_reachable(nodes.address)


def test_refusals_come_in_one_line_before_anything_is_made(nodes, tmp_path):
    code, output, errors = train(tmp_path, nodes.address, RAY_AUTH_TOKEN="f" * 64)
    assert (code, output) == (1, [])
    assert len(errors) == 1, errors  # Ray's own retries would have left a line per second
    assert errors[0].startswith("error: ray-address: the cluster at "), errors
    code, output, errors = train(tmp_path, nodes.address, options=["--num-actors", "9"])
    assert (code, output) == (2, [])
    assert len(errors) == 1, errors
    assert "9 actors need 10 CPUs and the cluster has 4 free" in errors[0], errors
    assert not (tmp_path / "run").exists()


def other_sources(tmp_path):
    """Return a directory with packages that are not quite ours."""
    other = tmp_path / "other"
    for package in ("laser", "actors", "learner", "replay_server", "launch"):
        shutil.copytree(ROOT / package, other / package, ignore=shutil.ignore_patterns("__pycache__"))
    with (other / "laser" / "frames.py").open("a") as file:
        file.write("# a line that only this node has\n")
    return other


def test_a_node_with_another_laser_is_named(nodes, tmp_path):
    nodes.tell(f"add {other_sources(tmp_path)}")
    try:
        code, output, errors = train(tmp_path, nodes.address)
    finally:
        nodes.tell("remove")
    assert (code, output) == (2, [])
    assert len(errors) == 1, errors
    assert "has other LASER sources" in errors[0], errors
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("name", "theirs", "words"),
    [
        ("Python", "3.12", "node 10.0.0.2 has Python 3.12, this machine has 3.11"),
        ("ray", "2.59.0", "node 10.0.0.2 has ray 2.59.0, this machine has 2.60.0"),
        ("torch", "2.12.1", "node 10.0.0.2 has torch 2.12.1, this machine has 2.13.0"),
        ("LASER", "0.2.0", "node 10.0.0.2 has LASER 0.2.0, this machine has 0.1.0"),
        ("LASER sources", "ff", "node 10.0.0.2 has other LASER sources"),
        ("error", "torch is not installed", "node 10.0.0.2 cannot run LASER: torch is not installed"),
    ],
)
def test_versions_that_differ(name, theirs, words):
    from launch.runtimes.ray_cluster import find_differences

    here = {"Python": "3.11", "ray": "2.60.0", "torch": "2.13.0", "LASER": "0.1.0", "LASER sources": "00"}
    assert not list(find_differences(here, {"10.0.0.1": here, "10.0.0.2": {**here, "nice": "0"}}))
    (problem,) = find_differences(here, {"10.0.0.1": here, "10.0.0.2": {**here, name: theirs}})
    assert words in str(problem)


class StandInHead:
    """A head that answers as long as the test lets it."""

    is_there = True

    def answers(self):
        return self.is_there

    def wait(self):
        assert self.is_there


def test_workers_go_to_no_node_whose_software_differs_or_that_has_not_answered(monkeypatch):
    from launch.runtimes import ray_cluster

    names = ("ours", "different", "silent", "unasked")
    nodes = [Node(name, name, num_cpus=4 + place, is_ours=not place) for place, name in enumerate(names)]
    monkeypatch.setattr(ray_cluster, "_living_nodes", lambda reserved: nodes)
    monkeypatch.setattr(ray_cluster, "_options", lambda seat: {"node": seat.node})
    cluster = object.__new__(ray_cluster.Cluster)
    cluster._head, cluster._reserved, cluster._placement = StandInHead(), {}, Placement(nodes[:1], Needs(1, 9))
    cluster._fits, cluster._asked = {"ours": True, "different": False}, {"silent": (None, 0.0)}
    places = [cluster.worker(f"actor/{number}")["node"] for number in range(9)]
    assert set(places) == {"ours", "unasked"}


def test_a_node_that_joins_and_does_not_answer_is_given_up_at_its_deadline(monkeypatch):
    from launch.runtimes import ray_cluster

    nodes = [Node("ours", "a", num_cpus=4, is_ours=True), Node("new", "b", num_cpus=4)]
    answers = {"new": None}
    monkeypatch.setattr(ray_cluster, "_living_nodes", lambda reserved: nodes)
    monkeypatch.setattr(ray_cluster, "_ask", lambda node: node.id)
    monkeypatch.setattr(ray_cluster, "_answered", lambda asked: answers[asked] or {"error": "it did not answer"})
    monkeypatch.setattr(ray_cluster.ray, "wait", lambda asked, timeout: ([each for each in asked if answers[each]], []))
    cluster = object.__new__(ray_cluster.Cluster)
    cluster._head, cluster._reserved, cluster._needs, cluster.notes = StandInHead(), {}, Needs(2, 2), []
    cluster._placement = Placement(nodes, cluster._needs)
    cluster._fits, cluster._asked = {"ours": True}, {}
    assert [cluster.room(), cluster.room()] == [2, 2]
    monkeypatch.setattr(ray_cluster, "_PROBE_DEADLINE_S", -1.0)
    assert [cluster.room(), cluster.room()] == [2, 2]
    (note,) = cluster.notes
    assert note.startswith("b joined and is not used: node b cannot run LASER: it did not answer")
    cluster._placement = Placement(nodes[:1], Needs(2, 5))
    seats = [cluster._placement.worker(f"actor/{number}", nodes[:1]) for number in range(5)]
    assert seats[4].num_cpus == 0
    nodes.append(Node("good", "c", num_cpus=4))
    answers["good"] = ray_cluster._facts_here()
    assert [cluster.crowded(), cluster.crowded()] == [[], ["actor/4"]]  # once the node has said what it runs
    assert cluster.room() == 2, "8 CPUs; each of two members has a learner and up to three actors"
    cluster._head.is_there = False
    monkeypatch.setattr(ray_cluster, "_living_nodes", lambda reserved: pytest.fail("Ray was asked, which blocks"))
    assert cluster.room() == 2
    assert cluster.crowded() == ["actor/4"]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_sweep_uses_what_joins_and_gives_back_what_leaves(nodes, tmp_path):
    """A member needs two CPUs: two members fit on two nodes of two, three with another node that has our sources."""
    command = [str(Path(sys.executable).parent / "laser"), "sweep", "cartpole", "--ray-address", nodes.address]
    command += ["--grid", "algorithm.learning-rate=1e-3,2e-3,3e-3,4e-3,5e-3,6e-3", "--concurrent", "5"]
    command += ["--steps", "60000", "--stop-at-return", "inf", "--learner.compile", "off", "--run-dir", "run"]
    said = tmp_path / "said.txt"
    with said.open("wb") as file:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=file, stderr=file)
        try:
            _wait_for(said, "at most 5 at a time, of which the cluster has room for 2 now", process)
            _wait_for_member(tmp_path / "run", 1, process)
            assert not (tmp_path / "run" / "members" / "2").exists()
            nodes.tell(f"add {other_sources(tmp_path)} 2")
            _wait_for(said, "joined and is not used: node ", process)
            nodes.tell("remove")
            nodes.tell(f"add {ROOT} 2")
            _wait_for(said, "the cluster has room for 3 members at once now, more than before", process)
            _wait_for_member(tmp_path / "run", 2, process)
            nodes.tell("remove")
            _wait_for(said, "the cluster has room for 2 members at once now, fewer than before", process)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
        finally:
            process.kill()
            process.wait()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("cpus", "lost"),
    [
        pytest.param((0, 2, "1:1"), {"learner_died": 1}, id="learner with a GPU"),  # actors and shards are elsewhere
        pytest.param((0, 3), {"learner_died": 1, "shard_died": 2, "died": 2}, id="learner, actors and all shards"),
    ],
)
def test_a_run_outlasts_the_loss_of_its_learners_node(tmp_path, cpus, lost):
    """The first node has the main process and the parameter store alone. A learner that had a GPU waits for one."""
    has_gpu = "1:1" in cpus
    nodes = Nodes(*cpus)
    command = [str(Path(sys.executable).parent / "laser"), "train", "cartpole", "--ray-address", nodes.address]
    command += ["--network.hidden-sizes", "(256,256)"] if has_gpu else []  # smaller ones do not ask for a GPU
    command += ["--num-actors", "2", "--replay.num-shards", "2", "--learner.checkpoint-interval-s", "2"]
    command += ["--steps", "10000000", "--stop-at-return", "inf", "--learner.compile", "off", "--run-dir", "run"]
    said, checkpoints = tmp_path / "said.txt", tmp_path / "run" / "checkpoints"
    with said.open("wb") as file:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=file, stderr=file)
        try:
            _wait_for(said, "first 100 updates: ", process)
            _wait_until(lambda: len(list_checkpoints(checkpoints)) > 1, process)
            nodes.kill_that_of("_LearnerHost")
            if has_gpu:
                _wait_for(said, "another one waits, 10 minutes at most: no node of the cluster has a free GPU", process)
                nodes.tell(f"add {ROOT} 1:1")
            _wait_for(said, "learner died: another one continues from ", process)
            saved = list_checkpoints(checkpoints)[-1]
            _wait_until(lambda: list_checkpoints(checkpoints)[-1] != saved, process)
            process.send_signal(signal.SIGINT)
            assert process.wait(120) == 130
        finally:
            process.kill()
            process.wait()
            nodes.close()
    totals = newest_totals(tmp_path / "run")
    restarts = {name.removeprefix("restarts/"): num for name, num in totals.items() if name.startswith("restarts/")}
    assert restarts == lost, "another part was lost than was on the node"
    assert totals.get("shards_lost", 0) == lost.get("shard_died", 0)
    assert totals["steps_learned/replayed"] > 0
    assert not any(num for name, num in totals.items() if name.startswith("ledger/imbalance")), totals


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_driver_leaves_nothing_on_any_node_and_its_run_goes_on(nodes, tmp_path):
    command = [str(Path(sys.executable).parent / "laser"), "train", "cartpole", "--ray-address", nodes.address]
    command += ["--num-actors", "2", "--replay.num-shards", "2", "--learner.checkpoint-interval-s", "1"]
    command += ["--steps", "10000000", "--stop-at-return", "inf", "--learner.compile", "off", "--run-dir", "run"]
    said, checkpoints = tmp_path / "said.txt", tmp_path / "run" / "checkpoints"
    with said.open("wb") as file:
        process = subprocess.Popen(command, cwd=tmp_path, env=environment(), stdout=file, stderr=file)
        try:
            _wait_until(lambda: len(list_checkpoints(checkpoints)) > 1, process)
            kinds = {"".join(_command(each)).split("Host")[0] for each in nodes.hosts()}
            assert {"ray::_Learner", "ray::_Actor", "ray::_Shard", "ray::_Parameter"} <= kinds
        finally:
            process.kill()
            process.wait()
    _wait_until_nothing_is_left(nodes)
    saved = newest_saved(checkpoints)
    options = ["--resume", "--steps", str(saved + 500)]
    code, output, errors = train(tmp_path, nodes.address, options=options)
    assert code == 0, errors
    assert json.loads(output[-1])["env_steps"] >= saved + 500
    assert not any(n for name, n in newest_totals(tmp_path / "run").items() if name.startswith("ledger/imbalance"))
    assert not nodes.hosts()


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_tuned_sweep_outlasts_its_killed_driver(nodes, tmp_path):
    """Its members wait for two places; those that had ended stay as they were, and the study keeps their scores."""
    command = [str(Path(sys.executable).parent / "laser"), "sweep", "cartpole", "--ray-address", nodes.address]
    search = ["--space", "algorithm.learning-rate=log(1e-4,1e-2)", "--sample", "6", "--tuner", "optuna"]
    options = ["--steps", "4000", "--stop-at-return", "inf", "--learner.compile", "off", "--run-dir", "run"]
    limits = ["--concurrent", "5", "--learner.checkpoint-interval-s", "1"]
    run_dir, said = tmp_path / "run", tmp_path / "said.txt"
    with said.open("wb") as file:
        first = [*command, *search, *options, *limits]
        process = subprocess.Popen(first, cwd=tmp_path, env=environment(), stdout=file, stderr=file)
        try:
            _wait_for(said, "at most 5 at a time, of which the cluster has room for 2 now", process)
            _wait_until(lambda: len(_scores(run_dir)) >= 2, process)
        finally:
            process.kill()
            process.wait()
    _wait_until_nothing_is_left(nodes)
    scored, settings = _scores(run_dir), _learning_rates(run_dir)
    assert 2 <= len(scored) < 6
    done = subprocess.run(
        [*command, "--resume", *options[-2:], "--json"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    members = json.loads(done.stdout.splitlines()[-1])["members"]
    assert [member["env_steps"] >= 4000 for member in members] == [True] * 6
    assert scored.items() <= _scores(run_dir).items()
    assert settings.items() <= _learning_rates(run_dir).items()
    assert len(_scores(run_dir)) == len(set(_learning_rates(run_dir).values())) == 6
    assert not nodes.hosts()


@pytest.mark.slow
def test_a_killed_head_ends_the_run_with_one_line_after_a_last_checkpoint(tmp_path):
    nodes = Nodes(4)
    try:
        command = [str(Path(sys.executable).parent / "laser"), "train", "cartpole", "--ray-address", nodes.address]
        command += ["--learner.checkpoint-interval-s", "2", "--learner.compile", "off", "--quiet", "--run-dir", "run"]
        command += ["--steps", "10000000", "--stop-at-return", "inf"]
        checkpoints = tmp_path / "run" / "checkpoints"
        with subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE, text=True) as process:
            _wait_until(lambda: list_checkpoints(checkpoints), process)
            nodes.head().kill()
            killed_at, before = time.monotonic(), newest_saved(checkpoints)
            _, said = process.communicate(timeout=120)
        assert time.monotonic() - killed_at < 55.0, "Ray itself ends the process after a minute"
        assert process.returncode == 69, said
        *waits, last = said.splitlines()
        assert not [line for line in waits if not line.startswith("waiting for ")], said
        assert last.startswith(f"error: runtime: Ray's head at {nodes.address} has not answered for 3"), said
        assert "start the cluster again; to continue from the last checkpoint: " in last
        assert newest_saved(checkpoints) > before
    finally:
        nodes.close()


def _scores(run_dir):
    """Return the scores that the study has, by the number of the setting."""
    path = run_dir / STUDY_NAME
    if not path.exists():
        return {}
    study = optuna.load_study(study_name="laser", storage=f"sqlite:///{path}")
    return {trial.number: trial.value for trial in study.trials if trial.state == optuna.trial.TrialState.COMPLETE}


def _learning_rates(run_dir):
    """Return the step sizes of the members that have begun, by number."""
    configs = {path.parent.name: json.loads(path.read_text()) for path in run_dir.glob("members/*/config.json")}
    return {number: config["config"]["algorithm"]["learning_rate"] for number, config in configs.items()}


def newest_saved(checkpoints):
    """Return the env steps of the newest checkpoint."""
    return int(list_checkpoints(checkpoints)[0].name.rpartition("-")[2])


def _wait_for(path, words, process):
    deadline = time.monotonic() + PATIENCE_S
    while words not in path.read_text(errors="replace"):
        assert process.poll() is None, path.read_text(errors="replace")[-2000:]
        assert time.monotonic() < deadline, path.read_text(errors="replace")[-2000:]
        time.sleep(0.2)


def _wait_for_member(run_dir, number, process):
    _wait_until((run_dir / "members" / str(number) / "metrics.db").exists, process)


def _wait_until_nothing_is_left(nodes):
    deadline = time.monotonic() + 60.0
    while left := nodes.hosts():
        assert time.monotonic() < deadline, left
        time.sleep(0.2)


def _wait_until(condition, process):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.2)
