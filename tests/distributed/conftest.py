"""Makes the test material of these tests and of the replay importable, here and in the processes they start."""

import sys
from pathlib import Path

import pytest

for folder in (Path(__file__).parent, Path(__file__).parents[1] / "replay_server"):
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))


@pytest.fixture(scope="session")
def runtime():
    """Return a Ray runtime that all tests of a session share."""
    from launch.runtimes.ray_runtime import RayRuntime

    runtime = RayRuntime()
    yield runtime
    runtime.close()
