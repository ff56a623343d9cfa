"""Two nodes of `laser bench chaos`: where they are not possible, one line says why."""

import os
import shutil
import subprocess
import sys

import pytest

from launch.__main__ import main
from launch.bench.chaos_run import two_nodes
from launch.bench.chaos_run.two_nodes import joined_namespaces

NEEDS = "error: nodes: 2 nodes need network namespaces, which this machine does not permit: "
REMEDY = "; leave out --nodes 2, or run it as root on Linux with iproute2"


@pytest.fixture
def permitted(monkeypatch):
    """Let this process look like one that may make namespaces."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(os, "geteuid", lambda: 0, raising=False)
    monkeypatch.setattr(shutil, "which", lambda name: f"/sbin/{name}")


@pytest.mark.parametrize(
    ("subject", "name", "value", "why"),
    [
        (sys, "platform", "darwin", "this system is not Linux"),
        (os, "geteuid", lambda: 1000, "this user is not root"),
        (shutil, "which", lambda name: None, "the command ip (iproute2) is missing"),
    ],
)
def test_what_is_missing_is_one_line(permitted, monkeypatch, capsys, subject, name, value, why):
    monkeypatch.setattr(subject, name, value)
    assert main(["bench", "chaos", "--nodes", "2"]) == 2
    assert capsys.readouterr().err == f"{NEEDS}{why}{REMEDY}\n"


class RefusingIp:
    """The command `ip` of a container without the right to make a cable: it makes namespaces, and they are empty."""

    CalledProcessError = subprocess.CalledProcessError

    def __init__(self):
        self.namespaces = set()

    def run(self, command, **options):
        match command[1:]:
            case ["netns", "add", name]:
                self.namespaces.add(name)
            case ["netns", "delete", name]:
                self.namespaces.remove(name)
            case ["link", "add", *_]:
                raise subprocess.CalledProcessError(2, command, stderr="RTNETLINK answers:\nOperation not permitted\n")
        return subprocess.CompletedProcess(command, 0, stdout="")


def test_what_ip_refuses_is_one_line_and_leaves_no_namespace(permitted, monkeypatch):
    ip = RefusingIp()
    monkeypatch.setattr(two_nodes, "subprocess", ip)
    with (
        pytest.raises(ValueError, match="failed: RTNETLINK answers: Operation not permitted; leave out"),
        joined_namespaces(),
    ):
        pass
    assert ip.namespaces == set()


@pytest.mark.parametrize("nodes", ["0", "3"])
def test_the_nodes_are_one_or_two(capsys, nodes):
    assert main(["bench", "chaos", "--nodes", nodes]) == 2
    assert capsys.readouterr().err == f"error: nodes: must be in [1, 2], got {nodes}\n"
