"""Settings of a run that differ from its preset."""

from __future__ import annotations

from launch.presets import find_presets, load_preset
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import find_leaves, show

_OF_THE_COMMAND = {"run-dir", "quiet", "json", "resume", "name", "tag", *NOT_FLAGS}
"""Keys of the command itself, which do not affect training."""
_NOT_IN_NAMES = {"env", "seed", "steps", "device", "stop-at-return", "track", "capture-video", "ray-address"}
_NUM_IN_A_NAME = 2


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


def changes_in_words(config: TrainConfig) -> str:
    """Return the settings that differ from the preset for a run's name, such as `learning-rate-0.001`; "" for none.

    A name has room for two of them. Settings that other parts of the name show, or that do not distinguish what is
    learned, are left out.
    """
    changes = {
        key.rpartition(".")[2]: values["run"]
        for key, values in changes_from_preset(config).items()
        if key not in _NOT_IN_NAMES and not key.startswith("evaluation.")
    }
    words = [f"{key}-{value}" for key, value in changes.items() if value]
    further = len(words) - _NUM_IN_A_NAME
    return "-".join([*words[:_NUM_IN_A_NAME], *([f"and-{further}-more"] if further > 0 else [])])
