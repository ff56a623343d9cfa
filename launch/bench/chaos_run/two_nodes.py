"""Two Ray nodes on this machine, each in a network namespace of its own, and the cable between them."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import psutil

from laser.config import ConfigError, Problem
from launch.bench.chaos_run.place import titled

_HOSTS = ("10.213.77.1", "10.213.77.2")
"""Addresses inside the namespaces, where no other program sees them."""
_PORT = 6379
_CABLE = "cable"
"""The name of the cable's end in each namespace."""
_ROOT = Path(__file__).parents[3]
_START_S, _END_S, _LOOK_S = 300.0, 10.0, 0.5
_MOST_TRIES = 5
_STARTED = "Ray runtime started."


class Namespace:
    """A network namespace with an end of the cable (see `joined_namespaces`).

    Args:
        name: its name on this machine.
        host: the address of its end.
    """

    def __init__(self, name: str, host: str):
        self.name, self.host = name, host
        self.prefix = ("ip", "netns", "exec", name)
        """Words before a command that runs in it."""

    def pull_cable(self) -> None:
        """Pull the cable out: nothing crosses it in either direction."""
        _ip("-n", self.name, "link", "set", _CABLE, "down")

    def plug_cable(self) -> None:
        """Plug the cable in."""
        _ip("-n", self.name, "link", "set", _CABLE, "up")

    def processes(self) -> list[psutil.Process]:
        """Return the processes in it."""
        found = []
        for pid in subprocess.run(["ip", "netns", "pids", self.name], capture_output=True, text=True).stdout.split():
            with suppress(psutil.Error):  # it has just ended
                found.append(psutil.Process(int(pid)))
        return found

    def end_processes(self) -> None:
        """End what still runs in it: nobody else starts a process there."""
        for end in (psutil.Process.terminate, psutil.Process.kill):
            until = time.monotonic() + _END_S
            while (left := self.processes()) and time.monotonic() < until:
                for process in left:
                    with suppress(psutil.Error):
                        end(process)
                time.sleep(_LOOK_S)


@contextmanager
def joined_namespaces() -> Iterator[tuple[Namespace, Namespace]]:
    """Make two network namespaces with a cable between them; end their processes and delete both in the end.

    Those that a killed process could not delete go first.

    Raises:
        ConfigError: this machine does not permit it.
    """
    if obstacle := _find_obstacle():
        raise _not_permitted(obstacle)
    _delete_left_behind()
    with ExitStack() as stack:
        try:
            first, second = (
                stack.enter_context(_namespace(f"laser-{os.getpid()}-{num}", host))
                for num, host in enumerate(_HOSTS, 1)
            )
            ends = ["netns", first.name, "type", "veth", "peer", "name", _CABLE, "netns", second.name]
            _ip("link", "add", _CABLE, *ends)
            for namespace in (first, second):
                _ip("-n", namespace.name, "address", "add", f"{namespace.host}/24", "dev", _CABLE)
                _ip("-n", namespace.name, "link", "set", "lo", "up")
                namespace.plug_cable()
        except subprocess.CalledProcessError as error:
            raise _not_permitted(f"{' '.join(error.cmd)} failed: {' '.join(error.stderr.split())}") from error
        yield first, second


@contextmanager
def _namespace(name: str, host: str) -> Iterator[Namespace]:
    _ip("netns", "add", name)
    namespace = Namespace(name, host)
    try:
        yield namespace
    finally:
        namespace.end_processes()
        _ip("netns", "delete", name)  # which takes the cable along


def _delete_left_behind() -> None:
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for name, pid in re.findall(r"^(laser-(\d+)-\d)\b", names, re.MULTILINE):
        if not psutil.pid_exists(int(pid)):
            Namespace(name, "").end_processes()
            subprocess.run(["ip", "netns", "delete", name], capture_output=True)  # another one may do it as well


def _find_obstacle() -> str:
    if sys.platform != "linux":
        return "this system is not Linux"
    if os.geteuid() != 0:
        return "this user is not root"
    return "" if shutil.which("ip") else "the command ip (iproute2) is missing"


def _not_permitted(why: str) -> ConfigError:
    wrong = f"2 nodes need network namespaces, which this machine does not permit: {why}"
    return ConfigError([Problem("nodes", wrong, "leave out --nodes 2, or run it as root on Linux with iproute2")])


def _ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True, text=True)


class TwoNodes:
    """Two Ray nodes, started as on two servers, and the place of a run over both. Used from one thread.

    The run's main process is on the first node, which has the head. The nodes end with the block that entered them.

    Args:
        namespaces: those of the first and the second node.
        folder: gets Ray's files, the token, and what the nodes say.
        num_cpus: the CPUs of the first and the second node.
    """

    def __init__(self, namespaces: tuple[Namespace, Namespace], folder: Path, num_cpus: tuple[int, int]):
        self.first, self.second = namespaces
        self.address = f"{self.first.host}:{_PORT}"
        self.prefix = self.first.prefix
        # Both nodes would offer this machine's GPUs.
        self.words = ("--ray-address", self.address, "--device", "cpu")
        self.num_lost = 0
        """Number of times that the cluster gave up the second node and `restore` started it again."""
        self._folder, self._num_cpus = folder, num_cpus
        self._started: list[subprocess.Popen[bytes]] = []
        token = folder / "token"
        token.touch(mode=0o600)
        token.write_text(secrets.token_hex(32))
        cleared = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
        self.environment = {
            **cleared,
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(token),
            "RAY_worker_niceness": "0",
            "RAY_max_direct_call_object_size": "4194304",
            "MALLOC_ARENA_MAX": "2",
            "OMP_NUM_THREADS": "1",
            # The nodes must find the same sources as this process.
            "PYTHONPATH": os.pathsep.join([str(_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }

    def __enter__(self) -> TwoNodes:
        return self

    def __exit__(self, *_: object) -> None:
        for namespace in (self.second, self.first):
            namespace.end_processes()
        for started in self._started:
            started.wait()

    def start(self) -> None:
        """Start both, the first one with files of its own: a head that is started again is a new cluster."""
        temp = self._folder / f"ray{len(self._started)}"
        head = ["--head", f"--port={_PORT}", "--include-dashboard=false", f"--temp-dir={temp}"]
        self._start(self.first, self._num_cpus[0], *head)
        self.start_second()

    def start_second(self) -> None:
        """Start the second node, which joins the first."""
        self._start(self.second, self._num_cpus[1], f"--address={self.address}")

    def restore(self) -> None:
        """Start the second node again if the cluster has given it up."""
        if self._started[-1].poll() is not None:
            self.start_second()
            self.num_lost += 1

    def processes_of(self, main: psutil.Process) -> list[psutil.Process]:
        """Return the processes of the run's parts on both nodes: all that are not Ray's own."""
        return [process for node in (self.first, self.second) for process in titled(node.processes(), "ray::_")]

    def _start(self, namespace: Namespace, num_cpus: int, *words: str) -> None:
        """Start a node, and wait until it says that it has started.

        Raises:
            ConfigError: it does not.
        """
        said = self._folder / f"node{len(self._started)}.txt"
        command = [*namespace.prefix, sys.executable, "-m", "ray.scripts.scripts", "start", *words, "--block"]
        command += [f"--node-ip-address={namespace.host}", f"--num-cpus={num_cpus}", "--disable-usage-stats"]
        self._run(command, said)
        num_tries, until = 1, time.monotonic() + _START_S
        while _STARTED not in (told := said.read_text(errors="replace")):
            has_ended = self._started[-1].poll() is not None
            if time.monotonic() > until or (has_ended and num_tries == _MOST_TRIES):
                last = told.strip().rpartition("\n")[2]
                wrong = f"a Ray node at {namespace.host} did not start in {num_tries} tries: {last}"
                raise ConfigError([Problem("nodes", wrong, "see its words")])
            # A raylet waits 15 seconds for its agent, which may take longer on a busy machine.
            if has_ended:
                self._run(command, said)
                num_tries += 1
            time.sleep(_LOOK_S)

    def _run(self, command: list[str], said: Path) -> None:
        with said.open("ab") as log:
            started = subprocess.Popen(
                command,
                env=self.environment,
                stdout=log,
                stderr=log,
                stdin=subprocess.DEVNULL,
                start_new_session=True,  # Ctrl-C ends the run first
            )
        self._started.append(started)
