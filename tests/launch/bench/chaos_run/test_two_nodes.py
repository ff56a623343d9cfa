"""Two nodes of `laser bench chaos`: where they are not possible, one line says why."""

import os
import shutil
import subprocess
import sys

import pytest

from laser.config import ConfigError
from launch.__main__ import main
from launch.bench import chaos
from launch.bench.chaos_run import two_nodes

NEEDS = "nodes: 2 nodes need network namespaces, which this machine does not permit: "
REMEDY = "; leave out --nodes 2, or run it as root on Linux with iproute2"


class RefusingIp:
    """The command `ip` of a container without the right to make a cable: it makes namespaces, and they are empty."""

    CalledProcessError = subprocess.CalledProcessError

    def __init__(self):
        self.namespaces, self.was_called = set(), False

    def run(self, command, **options):
        self.was_called = True
        match command[1:]:
            case ["netns", "add", name]:
                self.namespaces.add(name)
            case ["netns", "delete", name]:
                self.namespaces.remove(name)
            case ["link", "add", *_]:
                raise subprocess.CalledProcessError(2, command, stderr="RTNETLINK answers:\nOperation not permitted\n")
        return subprocess.CompletedProcess(command, 0, stdout="")


@pytest.fixture
def ip(monkeypatch):
    """Return the `ip` of a machine that seems to permit namespaces."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")
    refusing = RefusingIp()
    monkeypatch.setattr(two_nodes, "subprocess", refusing)
    return refusing


@pytest.mark.parametrize(
    ("subject", "name", "value", "why"),
    [
        (sys, "platform", "darwin", "this system is not Linux"),
        (os, "geteuid", lambda: 1000, "this user is not root"),
        (shutil, "which", lambda name: None, "the command ip (iproute2) is missing"),
    ],
)
def test_what_is_missing_is_one_line(ip, monkeypatch, subject, name, value, why):
    monkeypatch.setattr(subject, name, value)
    with pytest.raises(ConfigError) as raised:
        chaos.run(chaos.Options(nodes=2))
    assert str(raised.value) == f"{NEEDS}{why}{REMEDY}"
    assert not ip.was_called


def test_what_ip_refuses_is_one_line_and_leaves_no_namespace(ip):
    with pytest.raises(ConfigError) as raised:
        chaos.run(chaos.Options(nodes=2))
    line = str(raised.value)
    assert line.startswith(f"{NEEDS}ip link add ")
    assert line.endswith(f" failed: RTNETLINK answers: Operation not permitted{REMEDY}")
    assert ip.was_called
    assert ip.namespaces == set()


@pytest.mark.parametrize("nodes", ["0", "3"])
def test_the_nodes_are_one_or_two(capsys, nodes):
    assert main(["bench", "chaos", "--nodes", nodes]) == 2
    assert capsys.readouterr().err == f"error: nodes: must be in [1, 2], got {nodes}\n"
