"""Makes the folders of shared test material importable by name."""

import sys
from pathlib import Path

for folder in ("actors", "launch", "oracles", "laser/algorithms", "probes"):
    sys.path.insert(0, str(Path(__file__).parent / folder))
