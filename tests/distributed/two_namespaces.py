"""A run over two machines as the network sees them: two network namespaces joined by a cable, a Ray node in each.

Usage, as root on Linux with `ip` (iproute2): python tests/distributed/two_namespaces.py

It starts a head and a worker with `ray start`, exactly as on two servers; trains CartPole over both, kills the actors
and then the shard of the second node, and checks that every unroll is accounted for. It ends the processes it started,
by id, and deletes its namespaces, by name. Exit code 77: this machine does not permit it.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from books import check

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


def start(name, environment, log, *arguments):
    command = ["ip", "netns", "exec", name, str(BIN / "ray"), "start", *arguments, "--num-cpus=2", "--block"]
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


def main():
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        print("skipped: needs Linux, root and ip (iproute2)")
        return 77
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
        start(NAMES[0], environment, log, *head, f"--temp-dir={folder / 'ray'}")
        await_starts(path, 1)
        start(NAMES[1], environment, log, f"--address={address}", f"--node-ip-address={HOSTS[1]}")
        await_starts(path, 2)
        print(f"two nodes: {', '.join(HOSTS)}", flush=True)
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
