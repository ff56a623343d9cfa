"""Makes the test material of these tests and of the replay importable, here and in the processes they start."""

import gc
import sys
from pathlib import Path

import pytest

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "replay_server"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def one_ray():
    """Return a Ray runtime that all tests of a session share."""
    from launch.runtimes.ray_runtime import RayRuntime

    runtime = RayRuntime()
    yield runtime
    runtime.close()


@pytest.fixture
def runtime(one_ray):
    """Return the shared runtime; what a test has placed there ends with it: a dozen runs would fill the memory."""
    yield one_ray
    for worker in one_ray._workers:
        worker.kill()
        one_ray._places.release(worker.name)
    one_ray._workers.clear()
    gc.collect()  # shards and stores end with the last reference to them, and many lie in cycles
