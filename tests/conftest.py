"""Makes the folders of shared test material importable by name; options and order of the tests."""

import sys
from pathlib import Path

for folder in ("actors", "golden", "launch", "oracles", "laser/algorithms", "probes"):
    sys.path.insert(0, str(Path(__file__).parent / folder))


def pytest_addoption(parser):
    parser.addoption("--write-golden", action="store_true", help="keep the losses of today as the golden ones")


def pytest_collection_modifyitems(items):
    # Last: Ray's processes stay until pytest ends, and take a third of a core from the tests after them.
    items.sort(key=lambda item: item.get_closest_marker("ray") is not None)
