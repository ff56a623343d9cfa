"""Changes to single values of a tree of frozen configs, by path, with every mistake collected.

The command line, `--config FILE.toml` and sweep grids all use `apply_overrides`, so that a key and a value mean the
same in all three, and so that a user reads all mistakes at once, one line each. (A general command-line library would
stop at the first mistake and read only the first of the three inputs.)
"""

from __future__ import annotations

import dataclasses
import difflib
import math
import types
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar, Union, get_args, get_origin

from laser.config import FieldInfo, Problem, field_infos, key_of
from laser.free_values import read_table, read_value
from launch.settings.words_elsewhere import our_key

C = TypeVar("C")

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")


@dataclass(frozen=True)
class Leaf:
    """One value of a tree of configs that a user can set.

    Args:
        key: its path as users write it, e.g. "algorithm.learning-rate".
        info: declared type, range and help.
        value: its present value.
        chooses: the section whose class, and so whose keys, depend on this value; "": none.
    """

    key: str
    info: FieldInfo
    value: Any
    chooses: str = ""

    @property
    def is_table(self) -> bool:
        """Whether the value is a table whose names the user chooses, each of which is set by `KEY.NAME`."""
        return get_origin(self.info.type) is Mapping


def find_leaves(config: Any, prefix: str = "") -> Iterator[Leaf]:
    """Yield every value of a tree of configs, in the order of the fields."""
    for name, info in field_infos(type(config)).items():
        value, key = getattr(config, name), prefix + key_of(name)
        if dataclasses.is_dataclass(value):
            yield from find_leaves(value, key + ".")
        else:
            section = _chosen_sections(config).get(name)
            yield Leaf(key, info, value, prefix + key_of(section) if section else "")


def apply_overrides(
    config: C, values: Mapping[str, Any], fixed: tuple[str, ...] = (), where: str = "", *, all_texts: bool = False
) -> tuple[C, list[Problem]]:
    """Return `config` with the valid ones among `values` put in, and the problems of the others.

    Args:
        config: a tree of frozen dataclasses; its `with_new_names`, if it has one, renames keys of earlier versions.
        values: new values by path; hyphens and underscores are the same. Text is read by the field's type.
        fixed: keys that a user cannot set; they count as unknown.
        where: prefix of each problem, e.g. the file's name.
        all_texts: whether all values are texts that were typed, so that a 9 without a declared type is a number.
    """
    rename = getattr(config, "with_new_names", None)
    if rename is not None:
        values, notes = rename(values)
        for note in notes:
            warnings.warn(note, stacklevel=2)
    # Values that choose a section's class come first: they decide which keys exist.
    choosing, others = _split_choosing(config, values)
    config, problems = _apply(config, choosing, fixed, where, all_texts)
    config, found = _apply(config, others, fixed, where, all_texts)
    return config, [*problems, *found]


def value_at(config: Any, key: str) -> Any:
    """Return the value at a key, which may be a name in a table whose names the user chooses."""
    for leaf in find_leaves(config):
        if leaf.key == key:
            return leaf.value
        if leaf.is_table and key.startswith(f"{leaf.key}."):
            return leaf.value.at(key[len(leaf.key) + 1 :].replace("-", "_"))
    raise KeyError(key)


def is_key(key: str, leaves: Iterable[Leaf]) -> bool:
    """Return whether a key is that of a leaf, or a name in a table whose names the user chooses."""
    return any(key == leaf.key or (leaf.is_table and key.startswith(f"{leaf.key}.")) for leaf in leaves)


def apply_choices(config: C, values: Mapping[str, Any]) -> C:
    """Return `config` with only the `values` put in that decide which keys exist; see `SamplingConfig.chooses`."""
    return _apply(config, _split_choosing(config, values)[0], (), "", all_texts=False)[0]


def _split_choosing(config: Any, values: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    keys = {leaf.key for leaf in find_leaves(config) if leaf.chooses}
    choosing = {key: value for key, value in values.items() if key_of(key) in keys}
    return choosing, {key: value for key, value in values.items() if key not in choosing}


def _apply(
    config: C, values: Mapping[str, Any], fixed: tuple[str, ...], where: str, all_texts: bool
) -> tuple[C, list[Problem]]:
    leaves = {leaf.key: leaf for leaf in find_leaves(config) if leaf.key not in fixed}
    choosers = {f"{leaf.chooses}.": leaf.key for leaf in leaves.values() if leaf.chooses}
    problems: list[Problem] = []
    changes: dict[str, Any] = {}
    for key, value in values.items():
        path = key_of(key)
        leaf = leaves.get(path)
        table = next((each for each in leaves.values() if each.is_table and path.startswith(f"{each.key}.")), None)
        if table is not None:
            name = key[len(table.key) + 1 :].replace("-", "_")  # the command line writes both as hyphens
            changes[table.key] = changes.get(table.key, table.value).with_value(
                name, read_value(value) if all_texts else value
            )
            continue
        if leaf is None:
            chooser = next((by for section, by in choosers.items() if path.startswith(section)), None)
            problems.append(unknown_key(path, list(leaves), where, chooser))
            continue
        try:
            changes[path] = convert(value, leaf.info.type)
        except ValueError as error:
            problems.append(Problem(path, where + str(error), f"for example {path}={show(leaf.value)}"))
    return _replace(config, changes, ""), problems


def flatten(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return the values of a nested table (as from TOML or JSON) by dotted path."""
    flat: dict[str, Any] = {}
    for name, value in table.items():
        if isinstance(value, Mapping):
            flat.update(flatten(value, f"{prefix}{name}."))
        else:
            flat[prefix + name] = value
    return flat


def convert(value: Any, hint: Any) -> Any:
    """Return `value` (text from a command line, or a value from TOML or JSON) as the declared type.

    Raises:
        ValueError: "must be ..., got ...".
    """
    origin, arguments = get_origin(hint), get_args(hint)
    if origin is Literal:
        return _literal(value, arguments)
    if origin in (Union, types.UnionType):
        if type(None) in arguments and (value is None or value == "none"):
            return None
        return convert(value, next(item for item in arguments if item is not type(None)))
    if origin is tuple:
        return _tuple(value, arguments[0])
    if origin is Mapping:
        return read_table(value)
    readers = {bool: _bool, int: _int, float: _float, str: _str, Path: _path}
    if hint not in readers:
        raise TypeError(f"config fields may not have type {hint}")
    return readers[hint](value)


def show(value: Any) -> str:
    """Return a value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float):
        return f"{value:.10g}"
    if isinstance(value, tuple):
        return ",".join(show(item) for item in value)
    return "none" if value is None else str(value)


def nearest(word: str, words: list[str]) -> str | None:
    """Return the word that a mistyped one was probably meant to be, or None."""
    close = difflib.get_close_matches(word, words, n=1, cutoff=0.6)
    if close:
        return close[0]
    # The last part is right, the section is wrong or missing: `learning-rate` for `algorithm.learning-rate`.
    last_parts = {item.rpartition(".")[2]: item for item in reversed(words)}
    close = difflib.get_close_matches(word.rpartition(".")[2], list(last_parts), n=1, cutoff=0.75)
    return last_parts[close[0]] if close else None


def unknown_key(path: str, keys: list[str], where: str = "", chooser: str | None = None) -> Problem:
    """Return the problem of a key that is none of `keys`, with the key that was probably meant.

    Args:
        path: the unknown key.
        keys: the known keys.
        where: prefix of the problem.
        chooser: the key whose value decides which keys the section of `path` has, if there is one.
    """
    inside = [key for key in keys if key.startswith(path + ".")]
    if inside:
        return Problem(path, f"{where}is a section, not a value", f"set one of its values, for example {inside[0]}")
    owner = path
    while "." in owner:
        owner = owner.rpartition(".")[0]
        if owner in keys:
            return Problem(path, f"{where}unknown key: {owner} is a single value", f"set {owner} itself")
    if chooser is not None:
        section = path.rpartition(".")[0] + "."
        best = nearest(path, [key for key in keys if key.startswith(section)])
        remedy = f"did you mean {best}?" if best else f"{chooser} decides which keys exist"
        return Problem(path, f"{where}unknown key", remedy)
    best = our_key(path, keys) or nearest(path, keys)
    return Problem(path, f"{where}unknown key", f"did you mean {best}?" if best else "--help lists the keys")


def _replace(config: C, changes: Mapping[str, Any], prefix: str) -> C:
    new = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        key, value = prefix + key_of(field.name), getattr(config, field.name)
        if dataclasses.is_dataclass(value):
            new[field.name] = _replace(value, changes, key + ".")
        elif key in changes:
            new[field.name] = changes[key]
    for name, section in _chosen_sections(config).items():
        if name in new and new[name] != getattr(config, name):
            new[section] = field_infos(type(config))[section].type()  # the old values belong to another class
    return dataclasses.replace(config, **new)  # type: ignore[type-var]


def _chosen_sections(config: Any) -> Mapping[str, str]:
    """Return the sections whose class a value of this config chooses, by the value's field."""
    chosen: Mapping[str, str] = getattr(type(config), "chooses", {})
    return chosen


def _literal(value: Any, allowed: tuple[Any, ...]) -> Any:
    for item in allowed:
        if value == item and isinstance(value, bool) == isinstance(item, bool):
            return item
    switches = {True: "on", False: "off"}
    text = switches[value] if isinstance(value, bool) else str(value).strip().lower()
    for item in allowed:
        if text == str(item).lower():
            return item
    raise ValueError(f"must be one of {', '.join(map(show, allowed))}, got {_quoted(value)}")


def _tuple(value: Any, item_hint: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [part for part in value.strip("()[] ").split(",") if part.strip()]
    elif isinstance(value, (int, float)):
        value = [value]
    if not isinstance(value, (list, tuple)):
        raise ValueError(f"must be values separated by commas, got {_quoted(value)}")
    return tuple(convert(item, item_hint) for item in value)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    text = value.strip().lower() if isinstance(value, str) else None
    if text in _TRUE:
        return True
    if text in _FALSE:
        return False
    raise ValueError(f"must be true or false, got {_quoted(value)}")


def _int(value: Any) -> int:
    if isinstance(value, str):
        text = value.strip()
        try:
            return int(text)
        except ValueError:
            pass
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"must be a whole number, got {_quoted(text)}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a whole number, got {_quoted(value)}")
    if not math.isfinite(value) or value != int(value):
        raise ValueError(f"must be a whole number, got {value:g}")
    return int(value)


def _float(value: Any) -> float:
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            raise ValueError(f"must be a number, got {_quoted(value)}") from None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"must be a number, got {_quoted(value)}")
    return float(value)


def _str(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError(f"must be text, got {_quoted(value)}")
    return value


def _path(value: Any) -> Path:
    if isinstance(value, Path):
        return value
    if not isinstance(value, str) or not value.strip() or "\0" in value:
        raise ValueError(f"must be a path, got {_quoted(value)}")
    try:
        return Path(value).expanduser()  # no shell expands ~ in a file, nor after --run-dir=
    except RuntimeError:
        raise ValueError(f"must be a path in an existing user's home, got {_quoted(value)}") from None


def _quoted(value: Any) -> str:
    if isinstance(value, bool):
        return show(value)
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."
