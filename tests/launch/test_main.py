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


def test_a_thread_that_hangs_does_not_change_the_exit_code():
    for arguments, code, out, err in (["--version"], 0, "laser ", ""), (["trian"], 2, "", "error: command: "):
        command = [sys.executable, "-c", _LEAVES_A_THREAD_BEHIND, *arguments]
        ended = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == code, ended.stderr
        assert ended.stdout.startswith(out)
        assert ended.stderr.startswith(err)
