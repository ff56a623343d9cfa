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
import os
import secrets
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from books import check

from launch.bench.chaos_run.accounts import read_accounts

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
BIN = Path(sys.executable).parent
PORT = 6379
NAMES = [f"laser-{os.getpid()}-{letter}" for letter in "ab"]
HOSTS = ["10.213.77.1", "10.213.77.2"]
START_DEADLINE_S = 90.0


def ip(*arguments, namespace=None):
    prefix = ["ip", "-n", namespace] if namespace else ["ip"]
    subprocess.run([*prefix, *arguments], check=True, capture_output=True, text=True)


@contextlib.contextmanager
def namespaces():
    """Make both, with a cable between them; delete them in the end, which takes the cable along."""
    made = []
    try:
        for name in NAMES:
            ip("netns", "add", name)
            made.append(name)
        ends = [f"lsr{os.getpid() % 100_000}{letter}" for letter in "ab"]
        ip("link", "add", ends[0], "netns", NAMES[0], "type", "veth", "peer", "name", ends[1], "netns", NAMES[1])
        for name, end, host in zip(NAMES, ends, HOSTS, strict=True):
            ip("address", "add", f"{host}/24", "dev", end, namespace=name)
            ip("link", "set", end, "up", namespace=name)
            ip("link", "set", "lo", "up", namespace=name)
        yield
    finally:
        for name in made:
            end_processes_in(name)
            ip("netns", "delete", name)


def end_processes_in(name):
    """End what still runs in one of our namespaces: only what we started can be there."""
    for kind in (signal.SIGTERM, signal.SIGKILL):
        deadline = time.monotonic() + 10.0
        while pids := subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split():
            for pid in map(int, pids):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, kind)
            if time.monotonic() > deadline:
                break
            time.sleep(0.5)


def start(name, environment, log, cpus, *arguments):
    command = ["ip", "netns", "exec", name, str(BIN / "ray"), "start", *arguments, f"--num-cpus={cpus}", "--block"]
    return subprocess.Popen(
        [*command, "--disable-usage-stats"], env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL
    )


def await_starts(log, count):
    """Wait until `count` nodes say that they have started."""
    deadline = time.monotonic() + START_DEADLINE_S
    while log.read_text().count("Ray runtime started.") < count:
        if time.monotonic() > deadline:
            raise SystemExit(f"node {count} did not start within {START_DEADLINE_S:g} s:\n{log.read_text()}")
        time.sleep(0.5)


class Cable:
    """The cable between the two nodes."""

    def __init__(self):
        self.end = f"lsr{os.getpid() % 100_000}a"

    def pull(self):
        ip("link", "set", self.end, "down", namespace=NAMES[0])

    def plug(self):
        ip("link", "set", self.end, "up", namespace=NAMES[0])


class Training:
    """A `laser train` on the first node, over both.

    Args:
        folder: gets the run and what it says.
        address: of the cluster's head.
        environment: of its process.
        more: further words of the command.
    """

    def __init__(self, folder, address, environment, *more):
        self.run_dir, self.words = folder / "run", folder / "said.txt"
        options = ["--ray-address", address, "--num-actors", "3", "--num-envs", "4", "--replay.num-shards", "2"]
        options += ["--steps", "1000000000", "--stop-at-return", "inf", "--learner.compile", "off", "--device", "cpu"]
        options += [
            "--learner.checkpoint-interval-s",
            "10",
            "--max-failures",
            "100",
            "--run-dir",
            str(self.run_dir),
            *more,
        ]
        command = ["ip", "netns", "exec", NAMES[0], sys.executable, "-m", "launch", "train", "cartpole", *options]
        with self.words.open("w") as said:
            self.process = subprocess.Popen(command, env=environment, stdout=said, stderr=said, cwd=folder)

    def updates(self):
        """Return the learner's updates so far."""
        address = f"file:{self.run_dir / 'metrics.db'}?mode=ro"
        try:
            with contextlib.closing(sqlite3.connect(address, uri=True, timeout=10.0)) as database:
                (newest,) = database.execute("SELECT max(learner_steps) FROM ticks").fetchone()
        except sqlite3.Error:
            return 0  # it is being made
        return newest or 0

    def await_updates(self, before):
        """Wait until there are more updates than these."""
        deadline = time.monotonic() + 3 * START_DEADLINE_S
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
        learners, actors = ([len(titled(name, f"ray::_{kind}Host")) for name in NAMES] for kind in ("Learner", "Actor"))
        return f"learners by node {learners}, actors {actors}"

    def end(self):
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(120.0)


def titled(name, title):
    """Return the processes in a namespace whose title begins so."""
    found = []
    for pid in pids_in(name):
        with contextlib.suppress(OSError):
            words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[0].decode()
            if words.startswith(title):
                found.append(pid)
    return found


def cut_the_cable(seconds, folder, address, environment, start_second):
    """Train, pull the cable for so many seconds, plug it in again, and check what became of the run."""
    training, cable = Training(folder, address, environment), Cable()
    training.await_updates(0)
    calm, _ = training.follow(20.0, "before the cut")
    print(f"before: {calm / 20.0:.1f} updates/s, {training.places()}", flush=True)
    cable.pull()
    made, stood = training.follow(seconds, "while the cable was cut")
    print(f"cut for {seconds:g} s: {made} updates, none for {stood:.1f} s at a time", flush=True)
    cable.plug()
    made, stood = training.follow(60.0, "after the cable was back")
    lost = not titled(NAMES[1], "ray::") and not raylets(NAMES[1])
    print(
        f"a minute with the cable: {made} updates, none for {stood:.1f} s at a time; node given up: {lost}", flush=True
    )
    if lost:
        start_second()
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


def kill_the_head(folder, address, environment, start_both):
    """Train under `--restart`, kill the head, start the cluster anew once it is gone, and check what became of it."""
    training = Training(folder, address, environment, "--restart", "--checkpoint-replay")
    training.await_updates(0)
    training.follow(30.0, "before the death")
    (head,) = [pid for pid in pids_in(NAMES[0]) if "gcs_server" in Path(f"/proc/{pid}/comm").read_text()]
    os.kill(head, signal.SIGKILL)
    killed_at, before = time.monotonic(), training.updates()
    while left := [pid for name in NAMES for pid in (*raylets(name), *titled(name, "ray::"))]:
        if time.monotonic() - killed_at > 300.0:
            print(f"left behind after 300 s: {left}", flush=True)
            return 1
        time.sleep(1.0)
    print(f"nothing of the cluster was left after {time.monotonic() - killed_at:.0f} s", flush=True)
    start_both()
    started_at, before = time.monotonic(), training.updates()
    training.await_updates(before)
    print(f"it went on {time.monotonic() - started_at:.0f} s after the cluster was back", flush=True)
    return ending(training)


def raylets(name):
    """Return the raylets in a namespace."""
    found = []
    for pid in pids_in(name):
        with contextlib.suppress(OSError):
            if "raylet" in Path(f"/proc/{pid}/comm").read_text():
                found.append(pid)
    return found


def pids_in(name):
    """Return the processes in a namespace."""
    said = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False).stdout
    return [int(pid) for pid in said.split()]


def main():
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        print("skipped: needs Linux, root and ip (iproute2)")
        return 77
    parser = argparse.ArgumentParser(description="a run over two network namespaces")
    parser.add_argument("--cut", type=float, default=0.0, help="seconds for which the cable is pulled")
    parser.add_argument("--kill-head", action="store_true", help="kill the head, and start the cluster again")
    parser.add_argument("--far", action="store_true", help="the node that is cut off has the learner, too")
    options = parser.parse_args()
    cpus = (0, 4) if options.far else (2, 2)
    with contextlib.ExitStack() as stack:
        folder = Path(
            stack.enter_context(tempfile.TemporaryDirectory(prefix="laser-nodes-", ignore_cleanup_errors=True))
        )
        try:
            stack.enter_context(namespaces())
        except subprocess.CalledProcessError as error:
            print(f"skipped: {' '.join(error.cmd)} failed: {error.stderr.strip()}")
            return 77
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        cleared = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        environment = {
            **cleared,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_worker_niceness": "0",
            "RAY_max_direct_call_object_size": "4194304",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        path = folder / "ray.log"
        log = stack.enter_context(path.open("w"))
        address = f"{HOSTS[0]}:{PORT}"
        head = ["--head", f"--node-ip-address={HOSTS[0]}", f"--port={PORT}", "--include-dashboard=false"]
        second = [f"--address={address}", f"--node-ip-address={HOSTS[1]}"]
        num_started = 0

        def start_second():
            nonlocal num_started
            start(NAMES[1], environment, log, cpus[1], *second)
            num_started += 1
            await_starts(path, num_started)

        def start_both():
            nonlocal num_started
            start(NAMES[0], environment, log, cpus[0], *head, f"--temp-dir={folder / f'ray{num_started}'}")
            num_started += 1
            await_starts(path, num_started)
            start_second()

        start_both()
        print(f"two nodes: {', '.join(HOSTS)}", flush=True)
        if options.cut:
            return cut_the_cable(options.cut, folder, address, environment, start_second)
        if options.kill_head:
            return kill_the_head(folder, address, environment, start_both)
        done = subprocess.run(
            [
                "ip",
                "netns",
                "exec",
                NAMES[0],
                sys.executable,
                str(HERE / "cluster_run.py"),
                address,
                "--kill-actors",
                "--kill-shard",
            ],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        if done.returncode != 0:
            print(done.stdout, done.stderr, sep="\n")
            return 1
        result = json.loads(done.stdout.splitlines()[-1])
        print(json.dumps(result["books"]))
        check(result)
        print("every unroll is accounted for")
    return 0


if __name__ == "__main__":
    sys.exit(main())
