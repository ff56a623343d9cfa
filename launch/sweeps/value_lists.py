"""Lists of values by key, as `--grid` and `--zip` take them, with every mistake collected."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from laser.config import ConfigError, Problem, key_of
from laser.environments.named_sets import SETS
from launch.presets import load_preset
from launch.settings.train_config import NOT_FLAGS, TrainConfig
from launch.settings.values import apply_overrides, find_leaves, show, value_at

PRESET = "preset"
"""Key whose values are presets: each member learns by its own preset, so algorithms may differ."""


def parse_lists(
    base: TrainConfig, texts: Sequence[str], given_outside: Sequence[str], flag: str = "grid"
) -> tuple[dict[str, list[Any]], list[Problem]]:
    """Return the values of `KEY=V1,V2` texts, by key, and every mistake in them.

    A value that contains commas is in brackets: `(64,64)`. Values with mistakes are left out.

    Args:
        base: config that has the keys.
        texts: one per flag.
        given_outside: keys that the user set to one value.
        flag: the flag that the texts follow, without hyphens.
    """
    lists: dict[str, list[Any]] = {}
    problems: list[Problem] = []
    types = {leaf.key: leaf for leaf in find_leaves(base)}
    for text in texts:
        key, equals, listed = text.partition("=")
        key = key_of(key.strip())
        values = split_values(listed)
        if not equals or not key:
            problems.append(Problem(flag, f"must be KEY=V1,V2, got {text!r}", "for example seed=0,1,2"))
            continue
        if lacks_a_half(listed):
            remedy = "for example network.hidden-sizes=(64,64),(128,128)"
            problems.append(Problem(flag, f"{text} has a bracket without its other half", remedy))
            continue
        if key in lists:
            problems.append(Problem(flag, f"{key} is given twice", f"list all its values in one --{flag}"))
            continue
        if key in given_outside:
            problems.append(Problem(flag, f"{key} also has a value outside of the {flag}", f"leave out --{key}"))
        read, found = read_values(base, key, values, flag)
        problems += found
        if not values:
            if key == PRESET:
                problems.append(Problem(flag, "preset lists no values", f"for example preset={base.preset}"))
            elif key in types:
                problems.append(Problem(flag, f"{key} lists no values", f"for example {key}={show(types[key].value)}"))
            else:
                problems += find_unknown(base, key, flag)
        lists |= {key: read} if read else {}
    return lists, problems


def read_values(base: TrainConfig, key: str, texts: Sequence[str], flag: str) -> tuple[list[Any], list[Problem]]:
    """Return the values of a key that can be read, and the mistakes in the others, each once.

    Args:
        base: config that has the key.
        key: as users write it; values of `preset` are names of presets, and sets of tasks are replaced by their tasks.
        texts: one per value.
        flag: the flag that they follow.
    """
    read: list[Any] = []
    problems: list[Problem] = []
    if key == "env":  # a set of tasks becomes one member per task
        texts = [task for text in texts for task in SETS.get(text, (text,))]
    for text in texts:
        if key == PRESET:
            found = _preset_problems(text, flag)
            value: Any = text.replace("-", "_")
        else:
            changed, found = apply_overrides(base, {key: text}, NOT_FLAGS, f"in --{flag}: ", all_texts=True)
            value = None if found else value_at(changed, key)
        problems += [problem for problem in found if problem not in problems]
        if not found:
            read.append(value)
    return read, problems


def find_unknown(base: TrainConfig, key: str, flag: str) -> list[Problem]:
    """Return the problem of a key that the config does not have, with the key that was probably meant."""
    return apply_overrides(base, {key: ""}, NOT_FLAGS, f"in --{flag}: ")[1]


def lacks_a_half(text: str) -> bool:
    """Return whether a bracket in a text has no other half."""
    return any(sum(map(text.count, left)) != sum(map(text.count, right)) for left, right in (("([", ")]"), ("{", "}")))


def split_values(text: str) -> list[str]:
    """Return the parts between commas, leaving those inside brackets together."""
    parts, depth, start = [], 0, 0
    for index, letter in enumerate(text + ","):
        depth += (letter in "([") - (letter in ")]")
        if letter == "," and depth <= 0:
            part = text[start:index].strip()
            bracketed = part.startswith(("(", "[")) and part.endswith((")", "]"))
            parts.append(part[1:-1].strip() if bracketed else part)
            start = index + 1
    return [part for part in parts if part]


def value_text(value: Any) -> str:
    """Return a value as it is written in a list, exactly and without brackets."""
    return repr(value) if isinstance(value, float) else show(value)


def list_text(values: Sequence[Any]) -> str:
    """Return values as `split_values` reads them."""
    texts = [value_text(value) for value in values]
    return ",".join(f"({text})" if "," in text else text for text in texts)


def find_repeated(values: Sequence[Any]) -> str:
    """Return the values that are listed more than once, as text; "" if there are none."""
    shown = [show(value) for value in values]
    return ", ".join(sorted({value for value in shown if shown.count(value) > 1}))


def _preset_problems(name: str, flag: str) -> list[Problem]:
    try:
        load_preset(name)
    except ConfigError as error:
        return [dataclasses.replace(problem, key=flag) for problem in error.problems]
    return []
