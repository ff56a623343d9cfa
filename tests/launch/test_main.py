"""How the process ends."""

import subprocess
import sys

_LEAVES_A_THREAD_BEHIND = """
import sys
import torch
from launch.__main__ import main
from launch.runtimes.host import Host

class Busy:
    def compute(self):
        layer = torch.nn.Linear(64, 64)
        while True:
            layer(torch.zeros(8, 64))

host = Host(Busy, None, "busy")
computing = host.call(Busy.compute)
while not computing.running():
    pass
assert not host.close(timeout_s=0.2)
sys.argv = ["laser", *sys.argv[1:]]
sys.exit(main())
"""

_LEAVES_A_WAITING_THREAD = """
import sys, threading, time
from concurrent.futures import ThreadPoolExecutor
from launch import __main__ as command

command._PATIENCE_S = 0.3
pool = ThreadPoolExecutor()
pool.submit(int).result()
if sys.argv[1] == "--version":
    threading.Thread(target=time.sleep, args=(60,), name="simulator").start()
sys.exit(command.main())
"""


def test_a_thread_that_waits_is_named_and_left_behind():
    expected = {"--version": (0, "warning: threads did not end for 0.3 s: simulator of"), "trian": (2, "error: comma")}
    for argument, (code, err) in expected.items():
        command = [sys.executable, "-c", _LEAVES_A_WAITING_THREAD, argument]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
        assert ended.returncode == code, ended.stderr
        assert ended.stderr.startswith(err)
        assert len(ended.stderr.splitlines()) == 1, "an idle pool ends by itself"


def test_a_thread_that_hangs_does_not_change_the_exit_code():
    for arguments, code, out, err in (["--version"], 0, "laser ", ""), (["trian"], 2, "", "error: command: "):
        command = [sys.executable, "-c", _LEAVES_A_THREAD_BEHIND, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == code, ended.stderr
        assert ended.stdout.startswith(out)
        assert ended.stderr.startswith(err)
