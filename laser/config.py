"""Frozen configs: declared ranges of their fields, and the collection of their mistakes.

A config is a frozen dataclass beside the class that reads it. Ranges are declared on the fields, so that the command
line can print them and one function can check them all:

    learning_rate: Annotated[float, Bounds(above=0.0), "step size of the optimiser"] = 6e-4

Rules about several fields belong in a method `problems()` that yields `Problem`s. Rules about one field that no range
expresses belong in `single_problems()`. Building a config raises nothing: `find_problems` collects every mistake in a
whole tree of configs, so that a user sees all of them at once.
"""

from __future__ import annotations

import dataclasses
import math
import numbers
import types
import typing
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal, Union, get_args, get_origin


@dataclass(frozen=True)
class Bounds:
    """The range of a number: `least <= x <= most` and `above < x < below`; None: no limit on that side.

    Numbers must be finite unless `allow_infinite`; NaN is never allowed.
    """

    least: float | None = None
    most: float | None = None
    above: float | None = None
    below: float | None = None
    allow_infinite: bool = False

    def complaint(self, value: Any) -> str | None:
        """Return the rule that `value` breaks and the value, or None if it is in range."""
        if math.isnan(value) or (math.isinf(value) and not self.allow_infinite):
            return f"must be a finite number, got {value}"
        inside = (
            (self.least is None or value >= self.least)
            and (self.most is None or value <= self.most)
            and (self.above is None or value > self.above)
            and (self.below is None or value < self.below)
        )
        return None if inside else f"must be {self}, got {value}"

    def __str__(self) -> str:
        """Return the range in words."""
        if self.least is not None and self.most is not None:
            return f"in [{self.least:.10g}, {self.most:.10g}]"
        parts = []
        if self.least is not None:
            parts.append(f"at least {self.least:.10g}")
        if self.above is not None:
            parts.append(f"above {self.above:.10g}")
        if self.most is not None:
            parts.append(f"at most {self.most:.10g}")
        if self.below is not None:
            parts.append(f"below {self.below:.10g}")
        return " and ".join(parts) or "any number"


@dataclass(frozen=True)
class Problem:
    """One mistake in a config: the key, what is wrong, and what to do about it."""

    key: str
    wrong: str
    remedy: str = ""

    def __str__(self) -> str:
        """Return the line that the user reads: `KEY: what is wrong; what to do`."""
        return f"{self.key}: {self.wrong}" + (f"; {self.remedy}" if self.remedy else "")


def find_unused(config: Any, section: str, names: Iterable[str], why: str, remedy: str) -> list[Problem]:
    """Return a problem for each field that differs from its default and has no effect.

    Args:
        config: a config dataclass.
        section: the config's section in the keys, such as "network".
        names: fields that have no effect.
        why: the reason why they have none.
        remedy: what the user can do.
    """
    changed = [name for name in names if getattr(config, name) != getattr(type(config), name)]
    return [Problem(f"{section}.{key_of(name)}", f"has no effect: {why}", remedy) for name in changed]


class ConfigError(ValueError):
    """All mistakes in a config at once: `problems` holds them, and `str()` gives one line for each."""

    def __init__(self, problems: list[Problem]):
        self.problems = list(problems)
        super().__init__("\n".join(str(problem) for problem in self.problems))


@dataclass(frozen=True)
class FieldInfo:
    """Declaration of one config field: its plain type, range and help text."""

    name: str
    type: Any
    bounds: Bounds | None
    help: str


def key_of(name: str) -> str:
    """Return a field name as users write it: `learning_rate` -> `learning-rate`."""
    return name.replace("_", "-")


# Cached: reading type hints takes a millisecond, and a sweep reads them for every member.
_KNOWN_INFOS: dict[type, Mapping[str, FieldInfo]] = {}


def field_infos(config_type: type) -> Mapping[str, FieldInfo]:
    """Return the declared type, bounds and help text of each field of a config dataclass."""
    if config_type not in _KNOWN_INFOS:
        _KNOWN_INFOS[config_type] = MappingProxyType(_read_infos(config_type))
    return _KNOWN_INFOS[config_type]


def _read_infos(config_type: type) -> dict[str, FieldInfo]:
    hints = typing.get_type_hints(config_type, include_extras=True)
    infos = {}
    for field in dataclasses.fields(config_type):
        hint, bounds, text = hints[field.name], None, ""
        if get_origin(hint) is Annotated:
            hint, *extras = get_args(hint)
            bounds = next((extra for extra in extras if isinstance(extra, Bounds)), None)
            text = next((extra for extra in extras if isinstance(extra, str)), "")
        infos[field.name] = FieldInfo(field.name, hint, bounds, text)
    return infos


def find_problems(config: Any, prefix: str = "") -> Iterator[Problem]:
    """Yield every mistake in a tree of configs: types, ranges, literals, then each config's own `problems()`.

    Keys are full paths as users write them (`algorithm.learning-rate`). Where a type is wrong, no config of the tree is
    asked for rules of its own, since these compute with the values.
    """
    mistyped = {problem.key: problem for problem in _mistyped_of(config, prefix)}
    yield from _find_problems(config, prefix, mistyped)


def _find_problems(config: Any, prefix: str, mistyped: Mapping[str, Problem]) -> Iterator[Problem]:
    before = len(prefix)
    found_here = False
    for name, info in field_infos(type(config)).items():
        value = getattr(config, name)
        key = prefix + key_of(name)
        if key in mistyped:
            found_here = True
            yield mistyped[key]
            continue
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from _find_problems(value, key + ".", mistyped)
            continue
        for item in value if isinstance(value, tuple) else (value,):
            wrong = _complaint(item, info)
            if wrong:
                found_here = True
                yield Problem(key, wrong)
    if mistyped:
        return
    own_rules = getattr(config, "problems", None)
    single_rules = getattr(config, "single_problems", None)
    if single_rules is not None:
        for problem in single_rules():
            yield dataclasses.replace(problem, key=prefix[:before] + problem.key)
    # Rules about several fields would repeat the problem, or crash, where a field is already out of range.
    if own_rules is not None and not found_here:
        for problem in own_rules():
            yield dataclasses.replace(problem, key=prefix[:before] + problem.key)


def with_own_numbers(value: Any) -> Any:
    """Return a tree of configs, or a value of one, with Python's numbers instead of NumPy's, which JSON cannot hold."""
    if type(value) is tuple:
        items = tuple(map(with_own_numbers, value))
        return value if all(new is old for new, old in zip(items, value, strict=True)) else items
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        old = {field.name: getattr(value, field.name) for field in dataclasses.fields(value) if field.init}
        new = {name: with_own_numbers(item) for name, item in old.items()}
        changed = {name: item for name, item in new.items() if item is not old[name]}
        return dataclasses.replace(value, **changed) if changed else value
    if type(value) in (bool, int, float, str, type(None)) or not isinstance(value, numbers.Real):
        return value
    return int(value) if isinstance(value, numbers.Integral) else float(value)


def raise_problems(problems: list[Problem]) -> None:
    """Raise `ConfigError` with all problems, if there are any."""
    if problems:
        raise ConfigError(problems)


def raise_mistyped(arguments: Mapping[str, tuple[Any, Any]], remedy: str = "") -> None:
    """Raise `ConfigError` with all arguments of a function that are not of their types.

    Args:
        arguments: value and type by key.
        remedy: what the user can do.
    """
    raise_problems([item for key, pair in arguments.items() for item in find_mistyped(key, *pair, remedy)])


def find_mistyped(key: str, value: Any, hint: Any, remedy: str = "") -> Iterator[Problem]:
    """Yield a problem if a value is not of a type."""
    wanted = _wanted(value, hint)
    if wanted:
        yield Problem(key, f"must be {wanted}, got {_short(value)}", remedy)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _complaint(value: Any, info: FieldInfo) -> str | None:
    if get_origin(info.type) is Literal and value not in get_args(info.type):
        return f"must be one of {', '.join(map(str, get_args(info.type)))}, got {value!r}"
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    return (info.bounds or Bounds(allow_infinite=False)).complaint(value)


def _mistyped_of(config: Any, prefix: str) -> Iterator[Problem]:
    """Yield a problem for each value of a tree of configs that has another type than its field declares."""
    for name, info in field_infos(type(config)).items():
        value, key = getattr(config, name), prefix + key_of(name)
        wrong = list(find_mistyped(key, value, info.type))
        yield from wrong
        if not wrong and dataclasses.is_dataclass(value) and not isinstance(value, type):
            yield from _mistyped_of(value, key + ".")


def _wanted(value: Any, hint: Any) -> str:
    """Return in words what a value of a declared type is, or "" if this value is one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        wanted = [_wanted(value, item) for item in arguments]
        return "" if "" in wanted else " or ".join(wanted)
    if origin in (tuple, Sequence):
        kind = "a tuple" if origin is tuple else "a list"
        if not isinstance(value, origin) or isinstance(value, str):
            return kind
        wanted = [words for item in value if (words := _wanted(item, arguments[0]))]
        return f"{kind}, and each of its items {wanted[0]}" if wanted else ""
    if hint in _TYPES:
        of, words = _TYPES[hint]
        is_odd_bool = isinstance(value, bool) and hint is not bool
        return "" if isinstance(value, of) and not is_odd_bool else words
    if origin is Mapping:
        return "" if isinstance(value, Mapping) else "a mapping of names to values"
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return "" if isinstance(value, hint) else f"of the class {hint.__name__}"
    return ""


# The abstract numbers include those of NumPy, which is not imported here.
_TYPES: dict[Any, tuple[type, str]] = {
    bool: (bool, "true or false"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "text"),
    Path: (Path, "a path"),
    type(None): (type(None), "none"),
}
