"""Makes `custom_environments` importable, here and in child processes."""

import pathlib
import sys

sys.path.append(str(pathlib.Path(__file__).parents[2] / "contracts"))
