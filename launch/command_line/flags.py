"""Command-line flags of a tree of configs: splitting of arguments into keys and texts, and formatting of the help."""

from __future__ import annotations

import textwrap
import types
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TypeVar, Union, get_args, get_origin

from laser.config import Problem, find_problems, raise_problems
from launch.settings.values import Leaf, apply_overrides, find_leaves, is_key, show, unknown_key

O = TypeVar("O")  # noqa: E741

_TRUTH_WORDS = ("true", "false", "yes", "no", "on", "off")


@dataclass
class Arguments:
    """A command line, split into positional arguments and texts by key, with the problems of splitting it.

    `lists` holds the texts of repeatable keys. `valueless` holds keys that are not switches and have no text.
    """

    positionals: list[str] = field(default_factory=list)
    values: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[str]] = field(default_factory=dict)
    valueless: list[str] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)


def split_arguments(arguments: Sequence[str], switches: Collection[str], repeatable: Collection[str] = ()) -> Arguments:
    """Split `--key value`, `--key=value`, `--switch` and `--no-switch`; the last text of a repeated key counts.

    A switch that is given both on and off is a mistake.

    Unknown keys are returned like others: the caller, which knows the keys, reports all unknown ones at once. Keys are
    returned with hyphens.

    Args:
        arguments: without the program's name.
        switches: keys that need no value (booleans).
        repeatable: keys whose texts all count; they are returned in `lists`.
    """
    result = Arguments()
    on_and_off: defaultdict[str, set[bool]] = defaultdict(set)
    waiting = list(arguments)
    while waiting:
        argument = waiting.pop(0)
        if not argument.startswith("--") or argument == "--":
            if argument.startswith("-") and argument != "--":
                result.problems.append(Problem(argument, "unknown flag", "flags begin with two hyphens"))
            elif argument != "--":
                result.positionals.append(argument)
            continue
        key, equals, value = argument[2:].partition("=")
        key = key.replace("_", "-")
        follows = bool(waiting) and not waiting[0].startswith("--")
        if key == "config" and key in result.values:
            result.problems.append(Problem(key, "is given twice", "put all settings into one file"))
        if key in repeatable and (equals or follows):
            result.lists.setdefault(key, []).append(value if equals else waiting.pop(0))
        elif equals:
            result.values[key] = value
        elif key in switches:
            result.values[key] = waiting.pop(0) if follows and waiting[0].lower() in _TRUTH_WORDS else "true"
            on_and_off[key].add(True)
        elif key.startswith("no-") and key[3:] in switches:
            result.values[key[3:]] = "false"
            on_and_off[key[3:]].add(False)
        elif follows:
            result.values[key] = waiting.pop(0)
        else:
            result.valueless.append(key)
    for key, ways in on_and_off.items():
        if len(ways) > 1:
            result.problems.append(Problem(key, f"is given both as --{key} and as --no-{key}", "leave one of them out"))
    return result


def split_named(
    arguments: Sequence[str],
    names: Collection[str],
    switches_by_name: Callable[[str], Collection[str]],
    switches: Collection[str],
    repeatable: Collection[str] = (),
) -> tuple[str, Arguments]:
    """Split a command line whose first positional argument decides the keys, and so which words are values.

    Args:
        arguments: see `split_arguments`.
        names: allowed first positional arguments; hyphens and underscores in them are the same.
        switches_by_name: returns the switches of a name.
        switches: switches of every name.
        repeatable: see `split_arguments`.

    Returns:
        The name, and the arguments split by its switches. If the first positional argument is not one of `names`, the
        name is that argument; without any, the first word that is one of `names`; else "".
    """
    candidates = [word for word in arguments if word.replace("-", "_") in names]
    for word in candidates:
        given = split_arguments(arguments, switches_by_name(word), repeatable)
        if given.positionals[:1] == [word]:
            return word, given
    given = split_arguments(arguments, switches, repeatable)
    return next(iter([*given.positionals, *candidates]), ""), given


def without_value(given: Arguments, leaves: Sequence[Leaf], others: Sequence[str] = ()) -> list[Problem]:
    """Return a problem for each key that lacks its value, or belongs to no leaf and is not one of `others`."""
    keys = [*(leaf.key for leaf in leaves), *others]
    return [
        Problem(key, "needs a value", f"write --{key} VALUE")
        if key in others or is_key(key, leaves)
        else unknown_key(key, keys)
        for key in given.valueless
    ]


def parse_options(
    arguments: Sequence[str], options: O, positionals: tuple[str, ...], optional: tuple[str, ...] = ()
) -> tuple[list[str], O]:
    """Return positional arguments, and the options of a command with the values that flags give them.

    Args:
        arguments: after the name of the command.
        options: a config with the defaults.
        positionals: names of the arguments that must be given.
        optional: names of those that may follow.

    Raises:
        ConfigError: all mistakes.
    """
    given = split_arguments(arguments, switches_of(find_leaves(options)))
    missing = [Problem(name, "is missing", "see --help") for name in positionals[len(given.positionals) :]]
    options, found = apply_overrides(options, given.values, all_texts=True)
    too_many = surplus(given.positionals[len(positionals) + len(optional) :])
    valueless = without_value(given, list(find_leaves(options)))
    raise_problems([*given.problems, *missing, *too_many, *valueless, *found, *find_problems(options)])
    return given.positionals, options


def surplus(arguments: Sequence[str]) -> list[Problem]:
    """Return a problem for each surplus positional argument."""
    return [Problem(argument, "is one argument too many", "values follow their --key") for argument in arguments]


def switches_of(leaves: Iterable[Leaf]) -> set[str]:
    """Return the keys of the boolean values."""
    return {leaf.key for leaf in leaves if leaf.info.type is bool}


def is_quiet(arguments: Sequence[str]) -> bool:
    """Return whether arguments ask for silence."""
    return any(argument in ("--quiet", "--quiet=true") for argument in arguments)


def format_flags(leaves: Iterable[Leaf], width: int = 110) -> str:
    """Return the help of every flag: its choices, purpose, range and default, by section."""
    sections: dict[str, list[str]] = {}
    for leaf in leaves:
        name = leaf.key.rpartition(".")[0] or "run"
        lines = sections.setdefault(name, [f"{name}:"])
        facts = [str(leaf.info.bounds)] if leaf.info.bounds else []
        facts.append(f"default {show(leaf.value) or 'none'}")
        text = f"{leaf.info.help} ({'; '.join(facts)})"
        head = f"  --{leaf.key}{'.NAME' if leaf.is_table else ''} {_placeholder(leaf)}".rstrip()
        wrapped = textwrap.wrap(text, width - 42)
        if len(head) > 40:
            lines.append(head)
        else:
            lines.append(f"{head:<42}{wrapped.pop(0)}")
        lines += [" " * 42 + line for line in wrapped]
    return "\n\n".join("\n".join(lines) for lines in sections.values())


def _placeholder(leaf: Leaf) -> str:
    kind = leaf.info.type
    if get_origin(kind) in (Union, types.UnionType):  # or none
        kind = next(part for part in get_args(kind) if part is not type(None))
    if get_origin(kind) is Literal:
        return "|".join(map(show, get_args(kind)))
    if get_origin(kind) is tuple:
        return "A,B,..."
    if leaf.is_table:
        return "VALUE"
    names = {bool: "", int: "N", float: "X", str: "TEXT", Path: "PATH"}
    return names[kind]
