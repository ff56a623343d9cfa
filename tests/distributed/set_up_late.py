"""Starts a Ray that inherits no settings of this process, as a cluster does not, and prints what a worker has heard."""

import os
import sys
from pathlib import Path

for folder in (Path(__file__).parent, Path(__file__).parents[2]):
    sys.path.insert(0, str(folder))

from listening import Listener  # noqa: E402

from laser.ports import wait  # noqa: E402
from launch.runtimes.ray_runtime import RayRuntime  # noqa: E402


class Sink:
    def report(self, report):
        pass


for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY", "THP_MEM_ALLOC_ENABLE"):
    os.environ.pop(name, None)
os.environ["OMP_DISPLAY_ENV"] = "verbose"
runtime = RayRuntime()
try:
    worker = runtime.worker("listener", Listener, Sink())
    print(wait(worker.call(Listener.heard), 60.0, "the listener"))
finally:
    runtime.close()
