"""The reader of a figure's file (TOML), which reports all its mistakes at once."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields
from typing import Any, TypeVar, get_args, get_type_hints

from laser.config import ConfigError, Problem, key_of, raise_problems
from launch.reproductions.figure import Arm, Curve, Figure, Number, Pair, Rule, Size, Tune
from launch.reproductions.published import published_numbers
from launch.settings.values import flatten, nearest
from launch.sweeps.population import PbtConfig

T = TypeVar("T")

# Keys as the file has them, where they differ from the fields' names.
_FIELDS = {
    "set": "values",
    "small-set": "small_values",
    "set-of": "values_of",
    "pbt-set": "pbt_values",
    "is": "side",
    "paper": "full",
}
_KEYS = {name: key for key, name in _FIELDS.items()}
_SETTINGS = ("values", "small_values", "over_steps", "grid", "small_grid", "space", "steps_of", "pbt_values")


def read_figure(name: str, text: str, base: Figure | None = None) -> Figure:
    """Return the figure of a file.

    Args:
        name: of the figure, such as `laser/figure-1`.
        text: the file's content.
        base: the figure whose runs the file's `runs-of` names, once that is known.

    Raises:
        ConfigError: every mistake of the file.
    """
    try:
        values = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError([Problem(name, f"is not valid TOML: {error}", "text values need quotes")]) from error
    problems: list[Problem] = []
    parts: dict[str, Callable[[Any, str], Any]] = {
        "full": lambda value, where: _one(Size, value, where, problems),
        "small": lambda value, where: _one(Size, value, where, problems),
        "tune": lambda value, where: _one(Tune, value, where, problems),
        "arms": lambda value, where: _several(Arm, value, where, problems),
        "curves": lambda value, where: _several(Curve, value, where, problems),
        "numbers": lambda value, where: _several(Number, value, where, problems),
        "pairs": lambda value, where: _several(Pair, value, where, problems),
        "rules": lambda value, where: _several(Rule, value, where, problems),
    }
    read = {key: value for key, value in values.items() if _FIELDS.get(key, key.replace("-", "_")) not in parts}
    figure = _one(Figure, {**read, "name": name}, name, problems)
    made: dict[str, Any] = {}
    for key, value in values.items():
        field = _FIELDS.get(key, key.replace("-", "_"))
        if field in parts:
            made[field] = parts[field](value, f"{name} {key}")
    raise_problems(problems)
    assert figure is not None
    if base is not None:
        made = {part: getattr(base, part) for part in ("full", "small", "arms", "curves", "tune")} | made
    made["numbers"] = (*made.get("numbers", ()), *published_numbers(name))
    figure = Figure(**{**vars(figure), **made})
    raise_problems(list(_rules_of(figure)))
    return figure


def _one(kind: type[T], values: Any, where: str, problems: list[Problem]) -> T | None:
    """Return an instance made from a table, or None with its mistakes added to `problems`."""
    if not isinstance(values, dict):
        problems.append(Problem(where, f"must be a table, got {values!r}"))
        return None
    hints, known = get_type_hints(kind), {field.name: field for field in fields(kind)}  # type: ignore[arg-type]
    keys = {_KEYS.get(name, key_of(name)): name for name in known}
    found: dict[str, Any] = {}
    before = len(problems)
    for key, value in values.items():
        if key not in keys:
            best = nearest(key, list(keys))
            problems.append(Problem(f"{where}.{key}", "unknown key", f"did you mean {best}?" if best else ""))
            continue
        name = keys[key]
        try:
            found[name] = _converted(value, hints[name], name)
        except ValueError as error:
            problems.append(Problem(f"{where}.{key}", f"{error}, got {value!r}"))
    needed = [name for name, each in known.items() if each.default is MISSING and each.default_factory is MISSING]
    absent = [_KEYS.get(name, key_of(name)) for name in needed if name not in found and _key(name) not in values]
    problems += [Problem(f"{where}.{key}", "is missing") for key in absent]
    return None if len(problems) > before else kind(**found)


def _several(kind: type[T], values: Any, where: str, problems: list[Problem]) -> tuple[T, ...]:
    if not isinstance(values, list):
        problems.append(Problem(where, f"must be a list of tables, got {values!r}"))
        return ()
    made = [_one(kind, value, f"{where} {number}", problems) for number, value in enumerate(values, 1)]
    return tuple(each for each in made if each is not None)


def _key(name: str) -> str:
    return _KEYS.get(name, key_of(name))


def _converted(value: Any, hint: Any, name: str) -> Any:
    """Return a value of a file as the field's type, or raise `ValueError` with the rule."""
    if name in _SETTINGS:
        if not isinstance(value, dict):
            raise ValueError("must be a table of settings by key")
        settings = flatten(value)
        if name.endswith("grid") and not all(isinstance(each, list) and each for each in settings.values()):
            raise ValueError("must list values for each key")
        return settings
    if name == "values_of":
        if not isinstance(value, dict) or not all(isinstance(each, dict) for each in value.values()):
            raise ValueError("must be a table of settings for each game")
        return {game: flatten(settings) for game, settings in value.items()}
    choices = [each for each in get_args(hint) if isinstance(each, str)]
    if choices:
        if value not in choices:
            raise ValueError(f"must be one of {', '.join(choices)}")
        return value
    if hint is bool:
        rule, fits = "must be true or false", isinstance(value, bool)
    elif hint is int:
        rule, fits = "must be a whole number above 0", type(value) is int and value > 0
    elif hint is float:
        rule, fits = "must be a number", isinstance(value, (int, float)) and not isinstance(value, bool)
        value = float(value) if fits else value
    elif hint is str:
        rule, fits = "must be text", isinstance(value, str)
    else:
        rule = "must be a list of texts"
        fits = isinstance(value, list) and bool(value) and all(isinstance(each, str) for each in value)
        value = tuple(value) if fits else value
    if not fits:
        raise ValueError(rule)
    return value


def _rules_of(figure: Figure) -> list[Problem]:
    """Return the mistakes that concern several parts of a file."""
    name, problems = figure.name, []
    labels = [arm.label for arm in figure.arms]
    for size, key in ((figure.full, "paper"), (figure.small, "small")):
        if size is not None:
            unknown = [game for game in size.values_of if game not in size.ids]
            problems += [_unknown(f"{name} {key}.set-of", game, list(size.ids)) for game in unknown]
    metrics = [curve.metric for curve in figure.curves]
    if figure.has_runs:
        for part, there in (("paper", figure.full), ("small", figure.small), ("curves", figure.curves)):
            if not there:
                problems.append(Problem(f"{name}.{part}", "is missing, and there are arms", f"add [{part}]"))
        if not figure.rules:
            problems.append(Problem(f"{name}.rules", "is missing: a figure with runs has a verdict", "add [[rules]]"))
        if figure.nothing:
            problems.append(Problem(f"{name}.nothing", "has no meaning beside arms", "leave one of them out"))
    elif not figure.nothing and not figure.missing:
        remedy = "add arms, or say what is missing or why there is nothing"
        problems.append(Problem(name, "has no runs and does not say why", remedy))
    problems += [
        Problem(f"{name} arms", f"{label!r} is the label of two arms", "name them apart")
        for label in sorted({label for label in labels if labels.count(label) > 1})
    ]
    for number, rule in enumerate(figure.rules, 1):
        where = f"{name} rules {number}"
        problems += [_unknown(f"{where}.arm", rule.arm, labels)] if rule.arm not in labels else []
        if rule.compare in ("value", "near_best"):
            nothing = f"has no meaning beside compare = {rule.compare}"
            problems += [Problem(f"{where}.than", nothing)] if rule.than else []
        elif rule.than not in labels:
            problems.append(_unknown(f"{where}.than", rule.than, labels))
        if (rule.side == "within") != math.isfinite(rule.lower):
            problems.append(Problem(f"{where}.lower", "belongs to is = within", "give both, or neither"))
    problems += [_unknown(f"{name}.shown-arms", label, labels) for label in figure.shown_arms if label not in labels]
    for number, pair in enumerate(figure.pairs, 1):
        problems += [
            _unknown(f"{name} pairs {number}.{part}", label, labels)
            for part, label in (("arm", pair.arm), ("than", pair.than))
            if label not in labels
        ]
    varied = {key for arm in figure.arms for key in (*arm.grid, *arm.small_grid, *arm.space)}
    problems += [_unknown(f"{name} finals", key, sorted(varied)) for key in figure.finals if key not in varied]
    named = [("rules", number, rule.metric) for number, rule in enumerate(figure.rules, 1)]
    named += [("numbers", number, item.metric) for number, item in enumerate(figure.numbers, 1)]
    problems += [
        _unknown(f"{name} {kind} {number}.metric", metric, metrics)
        for kind, number, metric in named
        if metric and metric not in metrics
    ]
    for arm in figure.arms:
        if arm.length <= 0.0 or arm.length > 1.0:
            problems.append(
                Problem(f"{name} arms {arm.label!r}.length", f"must be above 0 and at most 1: {arm.length:g}")
            )
        if arm.pbt_values and not arm.pbt:
            problems.append(
                Problem(f"{name} arms {arm.label!r}.pbt-set", "has no effect without pbt", "add pbt = true")
            )
        known = {key_of(each.name) for each in fields(PbtConfig)}
        problems += [
            _unknown(f"{name} arms {arm.label!r}.pbt-set", key, sorted(known))
            for key in arm.pbt_values
            if key not in known
        ]
        if (arm.share or arm.pbt) and not (arm.grid or arm.space):
            problems.append(Problem(f"{name} arms {arm.label!r}", "share and pbt are of sweeps", "add a grid"))
        if arm.space and not (arm.sample and arm.small_grid):
            remedy = "add sample, and small-grid for the smallest size"
            problems.append(Problem(f"{name} arms {arm.label!r}", "has ranges, but not how many members", remedy))
    return problems


def _unknown(where: str, word: str, known: list[str]) -> Problem:
    best = nearest(word, known)
    return Problem(where, f"there is no {word!r}", f"did you mean {best!r}?" if best else f"there are {known}")


def settings_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as the presets take them: lists become tuples."""
    return {key: tuple(value) if isinstance(value, list) else value for key, value in values.items()}
