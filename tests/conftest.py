"""Makes the folders of shared test material importable by name; options of the tests."""

import sys
from pathlib import Path

for folder in ("actors", "golden", "launch", "oracles", "laser/algorithms", "probes"):
    sys.path.insert(0, str(Path(__file__).parent / folder))


def pytest_addoption(parser):
    parser.addoption("--write-golden", action="store_true", help="keep the losses of today as the golden ones")
