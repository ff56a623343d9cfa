"""Settings of a run that differ from its preset."""

from __future__ import annotations

from launch.presets import find_presets, load_preset
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import find_leaves, show

_OF_THE_COMMAND = {"run-dir", "quiet", "json", "resume", *NOT_FLAGS}
"""Keys of the command itself, which do not affect training."""


def changes_from_preset(config: TrainConfig) -> dict[str, dict[str, str]]:
    """Return `{key: {"preset": value, "run": value}}` for every value that differs, as written on the command line.

    {} for a config that comes from no preset. A key that only the preset or only the run has, because their algorithms
    differ, is "" for the other.
    """
    if config.preset not in find_presets():
        return {}
    before, now = (
        {leaf.key: show(leaf.value) for leaf in find_leaves(c)} for c in (load_preset(config.preset), config)
    )
    return {
        key: {"preset": before.get(key, ""), "run": now.get(key, "")}
        for key in {**before, **now}
        if before.get(key, "") != now.get(key, "") and key not in _OF_THE_COMMAND
    }
