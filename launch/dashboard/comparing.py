"""Comparison of several runs: groups of runs that differ only in their seed, their names, and their differences."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from launch.formats import short
from launch.records.listing import Entry, printable

_OF_THE_RUN_ALONE = ("seed", "run_dir", "quiet", "json", "resume", "capture_video", "track", "evaluation")
_EVOLVING = "member"
# A name begins with these if groups differ in them, since a reader knows them best.
_FIRST_NAMED = ("env", "algorithm.name", "preset")


def flat(config: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return a config's values by the keys of the command line."""
    found: dict[str, Any] = {}
    for name, value in config.items():
        key = prefix + str(name).replace("_", "-")
        if isinstance(value, Mapping):
            found |= flat(value, key + ".")
        else:
            found[key] = value
    return found


def group_by_settings(entries: Sequence[Entry]) -> dict[str, list[Entry]]:
    """Return groups of runs that differ only in their seed, by the group's name.

    The name of a group lists as few settings as tell it from all other groups.
    """
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_settings_key(entry), []).append(entry)
    settings = [json.loads(key) for key in groups]
    named: dict[str, list[Entry]] = {}
    for words, values, members in zip(_names(settings), settings, groups.values(), strict=True):
        base = " ".join(str(values[key]) for key in ("preset", "env") if values.get(key))
        seeds = f" ({len(members)} seeds)" if len(members) > 1 else ""
        named[(words or base or members[0].name) + seeds] = members
    return named


def seeds_of(entries: Sequence[Entry]) -> list[list[Entry]]:
    """Return the groups of two runs or more that differ only in their seed."""
    groups: dict[str, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(_settings_key(entry), []).append(entry)
    return [group for group in groups.values() if len(group) > 1]


def differences(entries: Sequence[Entry]) -> dict[str, list[Any]]:
    """Return the settings in which runs differ, by key, with the value of each run in their order; seeds included."""
    configs = [flat({k: v for k, v in e.config.items() if k == "seed"}) | _settings(e) for e in entries]
    return {key: [config.get(key) for config in configs] for key in _differing(configs)}


def show_setting(value: Any, key: str = "") -> str:
    """Return a setting as text, with numbers as all pages write them, also if the command line gave them as text.

    Whole numbers are never rounded, and a seed is a name.

    Args:
        value: None means that a run has no such setting.
        key: of the setting.
    """
    if value is None:
        return "none"
    if isinstance(value, bool) or key == "seed":
        return str(value)
    try:
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        return str(value)
    if number.is_integer() and float(f"{number:.4g}") != number:
        return f"{int(number):,}"
    return short(number) or str(value)


def setting_label(settings: Mapping[str, Any]) -> str:
    """Return the name of a setting of a sweep in figures and tables, with the last parts of its keys."""
    named = (f"{key.rpartition('.')[2]} {show_setting(value, key)}" for key, value in settings.items())
    return ", ".join(printable(each, 100) for each in named) or "all"


def _settings_key(entry: Entry) -> str:
    return json.dumps(_settings(entry), sort_keys=True, default=str)


def _settings(entry: Entry) -> dict[str, Any]:
    """Return a run's settings, and what its sweep did to it.

    Other members' experience makes another experiment of it, and a member of an evolving population is like no other.
    """
    own = flat({name: value for name, value in entry.config.items() if name not in _OF_THE_RUN_ALONE})
    evolving = {_EVOLVING: entry.name} if entry.sweep and entry.sweep_options.get("pbt") else {}
    return own | {"share-replay": bool(entry.sweep and entry.sweep_options.get("share_replay"))} | evolving


def _differing(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    keys = dict.fromkeys(key for config in configs for key in config)
    return [key for key in keys if len({_comparable(config.get(key)) for config in configs}) > 1]


def _names(configs: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return the shortest texts that tell configs apart: always the key next that separates the most of them."""
    keys = sorted(_differing(configs), key=lambda key: (*(key != first for first in _FIRST_NAMED),))
    chosen: list[str] = []

    def separated(more: str) -> int:
        return len({tuple(_comparable(config.get(key)) for key in [*chosen, more]) for config in configs})

    reached = 1
    while reached < len(configs):
        best = max(keys, key=separated)
        if separated(best) <= reached:  # they differ in nothing that a config shows
            break
        reached = separated(best)
        chosen.append(best)
    last_parts = [key.removesuffix(".name").rpartition(".")[2] for key in chosen]
    # A last part alone is ambiguous if another chosen key ends in it.
    shown = [part if last_parts.count(part) == 1 else key for key, part in zip(chosen, last_parts, strict=True)]
    return [
        ", ".join(
            f"{word} {show_setting(config.get(key), key)}"
            for key, word in zip(chosen, shown, strict=True)
            if key != _EVOLVING or key in config
        )
        for config in configs
    ]


def _comparable(value: Any) -> str:
    return json.dumps(value, sort_keys=True, default=str)
