"""LASER: actor-critic agents that learn from a large experience replay which several agents may share.

    import laser

    result = laser.train(laser.load_preset("cartpole"))
    policy = laser.load_policy(result.run_dir)
    action = policy.act(observation)

This package is also what every component agrees on: records, specs, ports, maths, networks, algorithms, environments.
"""

from __future__ import annotations

import importlib
from typing import Any

# The Python side of the command line. Looked up when used, because `laser` stands below `launch` and imports nothing of
# it: a shard that imports `laser.unroll` must not load torch.
_API = {
    "train": "launch.train",
    "load_policy": "launch.evaluate",
    "evaluate": "launch.evaluate",
    "load_preset": "launch.presets",
}


def __getattr__(name: str) -> Any:
    """Find `train`, `load_policy`, `evaluate` and `load_preset`."""
    if name not in _API:
        raise AttributeError(f"module 'laser' has no attribute {name!r}")
    return getattr(importlib.import_module(_API[name]), name)
