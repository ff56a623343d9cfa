"""A run over two machines as the network sees them: two network namespaces joined by a cable, a Ray node in each.

Usage, as root on Linux with `ip` (iproute2): python tests/distributed/two_namespaces.py [--cut SECONDS [--far]]

It starts a head and a worker with `ray start`, exactly as on two servers; trains CartPole over both, kills the actors
and then the shard of the second node, and checks that every unroll is accounted for. With `--cut` it pulls the cable
instead, for so many seconds, and says how long the learner stood still; where the cluster has given the second node up
meanwhile, the node is started again, and must get actors. With `--far` the first node has no CPUs, so that the second
one has the learner, all actors and all shards when it is lost, and they begin again on the first. It ends the
processes it started, by id, and deletes its namespaces, by name. With `--kill-head` it kills the head instead, waits
until nothing of the cluster is left, starts both nodes again, and says when the run went on by itself. Exit code 77:
this machine does not permit it.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil
from books import check

from laser.config import ConfigError
from launch.bench.chaos_run.accounts import read_accounts
from launch.bench.chaos_run.place import titled
from launch.bench.chaos_run.two_nodes import TwoNodes, joined_namespaces
from launch.bench.chaos_run.victim import read_progress

HERE = Path(__file__).parent
FIRST_UPDATES_S = 270.0


class Training:
    """A `laser train` on the first node, over both.

    Args:
        folder: gets the run and what it says.
        nodes: the cluster.
        more: further words of the command.
    """

    def __init__(self, folder, nodes, *more):
        self.run_dir, self.words, self._nodes = folder / "run", folder / "said.txt", nodes
        options = ["--num-actors", "3", "--num-envs", "4", "--replay.num-shards", "2", "--run-dir", str(self.run_dir)]
        options += ["--steps", "1000000000", "--stop-at-return", "inf", "--learner.compile", "off"]
        options += ["--learner.checkpoint-interval-s", "10", "--max-failures", "100", *nodes.words, *more]
        command = [*nodes.prefix, sys.executable, "-m", "launch", "train", "cartpole", *options]
        with self.words.open("w") as said:
            self.process = subprocess.Popen(command, env=nodes.environment, stdout=said, stderr=said, cwd=folder)

    def updates(self):
        """Return the learner's updates so far."""
        return (read_progress(self.run_dir) or (0, 0))[0]

    def await_updates(self, before):
        """Wait until there are more updates than these."""
        deadline = time.monotonic() + FIRST_UPDATES_S
        while self.updates() <= before:
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise SystemExit(f"the run made no updates:\n{self.words.read_text()[-3000:]}")
            time.sleep(0.5)

    def follow(self, seconds, what):
        """Watch for so long; return the updates made, and the longest time without one."""
        begun = last = time.monotonic()
        first = newest = self.updates()
        longest = 0.0
        while (now := time.monotonic()) - begun < seconds:
            if self.process.poll() is not None:
                raise SystemExit(f"the run ended {what}:\n{self.words.read_text()[-3000:]}")
            updates = self.updates()
            if updates > newest:
                newest, last = updates, now
            longest = max(longest, now - last)
            time.sleep(0.25)
        return newest - first, longest

    def places(self):
        """Say how many processes of learners and of actors each of the two nodes has."""
        learners, actors = (
            [len(titled(node.processes(), f"ray::_{kind}Host")) for node in (self._nodes.first, self._nodes.second)]
            for kind in ("Learner", "Actor")
        )
        return f"learners by node {learners}, actors {actors}"

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(120.0)


def left_of(node):
    """Return the processes of Ray that a node still has: raylets, parts of the run, and Ray's agents."""
    return [*named(node, "raylet"), *titled(node.processes(), "ray::")]


def named(node, program):
    """Return a node's processes that run a program."""
    found = []
    for process in node.processes():
        with contextlib.suppress(psutil.Error):  # it has just ended
            if program in process.name():
                found.append(process)
    return found


def cut_the_cable(seconds, folder, nodes):
    """Train, pull the cable for so many seconds, plug it in again, and check what became of the run."""
    training = Training(folder, nodes)
    training.await_updates(0)
    calm, _ = training.follow(20.0, "before the cut")
    print(f"before: {calm / 20.0:.1f} updates/s, {training.places()}", flush=True)
    nodes.first.pull_cable()
    made, stood = training.follow(seconds, "while the cable was cut")
    print(f"cut for {seconds:g} s: {made} updates, none for {stood:.1f} s at a time", flush=True)
    nodes.first.plug_cable()
    made, stood = training.follow(60.0, "after the cable was back")
    lost = not left_of(nodes.second)
    print(
        f"a minute with the cable: {made} updates, none for {stood:.1f} s at a time; node given up: {lost}", flush=True
    )
    if lost:
        nodes.start_second()
        made, stood = training.follow(90.0, "after the second node was back")
        print(f"with the second node again: {made} updates, none for {stood:.1f} s; {training.places()}")
    return ending(training)


def ending(training):
    """Watch a run to its end, which Ctrl-C asks for, and check its accounts; return an exit code."""
    after, _ = training.follow(20.0, "at the end")
    print(f"after: {after / 20.0:.1f} updates/s, {training.places()}", flush=True)
    code = training.end()
    accounts = read_accounts(training.run_dir)
    print(json.dumps({"exit_code": code, **accounts}), flush=True)
    print((training.run_dir / "log.txt").read_text(), flush=True)
    wrong = [name for name in ("unaccounted", "imbalance", "duplicates", "invalid_checkpoints") if accounts[name]]
    return 1 if wrong or code != 130 or not after else 0


def kill_the_head(folder, nodes):
    """Train under `--restart`, kill the head, start the cluster anew once it is gone, and check what became of it."""
    training = Training(folder, nodes, "--restart", "--checkpoint-replay")
    training.await_updates(0)
    training.follow(30.0, "before the death")
    (head,) = named(nodes.first, "gcs_server")
    head.kill()
    killed_at = time.monotonic()
    while left := [process.pid for node in (nodes.first, nodes.second) for process in left_of(node)]:
        if time.monotonic() - killed_at > 300.0:
            print(f"left behind after 300 s: {left}", flush=True)
            return 1
        time.sleep(1.0)
    print(f"nothing of the cluster was left after {time.monotonic() - killed_at:.0f} s", flush=True)
    nodes.start()
    started_at, before = time.monotonic(), training.updates()
    training.await_updates(before)
    print(f"it went on {time.monotonic() - started_at:.0f} s after the cluster was back", flush=True)
    return ending(training)


def kill_parts(nodes):
    """Train, kill the actors and then the shard of the second node, and check that every unroll is accounted for."""
    command = [*nodes.prefix, sys.executable, str(HERE / "cluster_run.py"), nodes.address, "--kill-actors"]
    done = subprocess.run(
        [*command, "--kill-shard"], env=nodes.environment, capture_output=True, text=True, timeout=300, check=False
    )
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n")
        return 1
    result = json.loads(done.stdout.splitlines()[-1])
    print(json.dumps(result["books"]))
    check(result)
    print("every unroll is accounted for")
    return 0


def main():
    parser = argparse.ArgumentParser(description="a run over two network namespaces")
    parser.add_argument("--cut", type=float, default=0.0, help="seconds for which the cable is pulled")
    parser.add_argument("--kill-head", action="store_true", help="kill the head, and start the cluster again")
    parser.add_argument("--far", action="store_true", help="the node that is cut off has the learner, too")
    options = parser.parse_args()
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="laser-nodes-", ignore_cleanup_errors=True))
        )
        try:
            namespaces = stack.enter_context(joined_namespaces())
        except ConfigError as error:
            print(f"skipped: {error}")
            return 77
        nodes = stack.enter_context(TwoNodes(namespaces, folder, num_cpus=(0, 4) if options.far else (2, 2)))
        nodes.start()
        print(f"two nodes: {nodes.first.host}, {nodes.second.host}", flush=True)
        if options.cut:
            return cut_the_cable(options.cut, folder, nodes)
        if options.kill_head:
            return kill_the_head(folder, nodes)
        return kill_parts(nodes)


if __name__ == "__main__":
    sys.exit(main())
