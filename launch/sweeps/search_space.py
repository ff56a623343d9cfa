"""Search spaces: a range or a choice of values for each key, and settings drawn from them.

    algorithm.learning-rate=log(1e-4,1e-2)         uniform in the logarithm
    algorithm.entropy-cost=uniform(0,0.05)
    algorithm.batch-size=integers(16,64)           both ends included; log(16,256) works for whole numbers too
    network.hidden-sizes={(64,64),(256,256)}       one of these values

Sources: Bergstra and Bengio 2012, Random Search for Hyper-Parameter Optimization; McKay et al. 1979 (Latin hypercubes)
for even draws.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import NoneType
from typing import Any, Literal, cast, get_args

import numpy as np

from laser.config import Problem, key_of
from launch.settings.seeds import seed_for
from launch.settings.train_config import TrainConfig
from launch.settings.values import Leaf, find_leaves, show
from launch.sweeps.value_lists import (
    PRESET,
    find_repeated,
    find_unknown,
    lacks_a_half,
    list_text,
    read_values,
    split_values,
)

_FLAG = "space"
_NUM_PARTS = 8  # of a range, one draw in each: few searches have fewer draws
Kind = Literal["log", "uniform", "integers"]
_FORMS = "log(LOW,HIGH), uniform(LOW,HIGH), integers(LOW,HIGH) or {V1,V2}"


@dataclass(frozen=True)
class Range:
    """A range of numbers, as users write it; `log` of a key with whole numbers gives whole numbers."""

    kind: Kind
    low: float
    high: float

    def __str__(self) -> str:
        """Return the range as it is written on the command line."""
        return f"{self.kind}({_number_text(self.low)},{_number_text(self.high)})"


@dataclass(frozen=True)
class Choice:
    """A choice between values that are equally likely."""

    values: tuple[Any, ...]

    def __str__(self) -> str:
        """Return the choice as it is written on the command line."""
        return f"{{{list_text(self.values)}}}"


Dimension = Range | Choice


def value_at(dimension: Dimension, share: float, is_whole: bool) -> Any:
    """Return the value below which a share of a dimension's probability lies.

    Args:
        dimension: without problems (see `find_space_problems`).
        share: in [0, 1).
        is_whole: whether the key's values are whole numbers; all those of a range, ends included, are reached.

    Returns:
        a value of the choice, an int, or a float of six significant digits, so that a user can type it.
    """
    if isinstance(dimension, Choice):
        return dimension.values[int(share * len(dimension.values))]
    low, high = dimension.low, dimension.high + is_whole
    value = low * (high / low) ** share if dimension.kind == "log" else low + share * (high - low)
    if is_whole:
        return int(min(math.floor(value), dimension.high))
    return rounded(value, dimension)


def rounded(value: float, dimension: Range) -> float:
    """Return a number of a range with six significant digits, so that a user can type it."""
    return min(max(float(f"{value:.6g}"), dimension.low), dimension.high)


def ends(dimension: Dimension, is_whole: bool) -> list[Any]:
    """Return both ends of a range, or all values of a choice."""
    if isinstance(dimension, Choice):
        return list(dimension.values)
    return [int(end) if is_whole else end for end in (dimension.low, dimension.high)]


def whole_keys(space: Mapping[str, Dimension], base: TrainConfig) -> set[str]:
    """Return the keys of a space whose numbers are whole."""
    leaves = {leaf.key: leaf for leaf in find_leaves(base)}
    return {key for key in space if key in leaves and _number_type(leaves[key]) is int}


def draw_settings(
    space: Mapping[str, Dimension], base: TrainConfig, num: int, seed: int, *, even: bool = True
) -> list[dict[str, Any]]:
    """Return settings drawn at random: the same ones for the same seed.

    Each key has random numbers of its own, so neither more draws, another key nor another order changes what was drawn.
    Even draws are as likely anywhere as independent ones, but eight in a row, from the first one on, fall into
    different eighths of each range.

    Args:
        space: dimensions without problems, by key.
        base: config that has the keys.
        num: number of settings.
        seed: of all draws.
        even: whether draws are spread evenly; False: each is drawn by itself.
    """
    drawn, whole = {}, whole_keys(space, base)
    for key, dimension in space.items():
        rng = np.random.default_rng(seed_for(seed, f"space {key}"))
        shares = _even_shares(num, rng) if even else rng.random(num)
        drawn[key] = [value_at(dimension, share, key in whole) for share in shares.tolist()]
    return [{key: values[number] for key, values in drawn.items()} for number in range(num)]


def _even_shares(num: int, rng: np.random.Generator) -> np.ndarray:
    """Return numbers in [0, 1), of which each eight from the first one on lie in different eighths."""
    num_rounds = -(-num // _NUM_PARTS)
    parts = np.array([rng.permutation(_NUM_PARTS) + rng.random(_NUM_PARTS) for _ in range(num_rounds)])
    shares: np.ndarray = parts.reshape(-1)[:num] / _NUM_PARTS
    return shares


def parse_space(
    base: TrainConfig, texts: Sequence[str], given_outside: Sequence[str]
) -> tuple[dict[str, Dimension], list[Problem]]:
    """Return the dimensions of `KEY=DIMENSION` texts, by key, and every mistake in their writing.

    Args:
        base: config that has the keys.
        texts: one per --space.
        given_outside: keys that the user set to one value.
    """
    space: dict[str, Dimension] = {}
    problems: list[Problem] = []
    known = {PRESET, *(leaf.key for leaf in find_leaves(base))}
    for text in texts:
        key, equals, described = text.partition("=")
        key, described = key_of(key.strip()), described.strip()
        if not equals or not key:
            wrong = f"must be KEY={_FORMS}, got {text!r}"
            problems.append(Problem(_FLAG, wrong, "for example algorithm.learning-rate=log(1e-4,1e-2)"))
            continue
        if key in space:
            problems.append(Problem(_FLAG, f"{key} is given twice", "describe it in one --space"))
            continue
        if key in given_outside:
            problems.append(Problem(_FLAG, f"{key} also has a value outside of the space", f"leave out --{key}"))
        if key not in known:
            problems += find_unknown(base, key, _FLAG)
            continue
        dimension, found = _parse_dimension(base, key, described)
        problems += found
        space |= {key: dimension} if dimension is not None else {}
    return space, problems


def find_space_problems(space: Mapping[str, Dimension], base: TrainConfig) -> list[Problem]:
    """Return every mistake in the dimensions: ends, kinds of values, and ranges that the keys allow."""
    leaves = {leaf.key: leaf for leaf in find_leaves(base)}
    problems = []
    for key, dimension in space.items():
        if key not in leaves and (unknown := find_unknown(base, key, _FLAG)):
            problems += unknown
        elif isinstance(dimension, Range):
            found = _range_problem(leaves.get(key), key, dimension)
            problems += [found] if found else []
        elif not dimension.values:
            problems.append(Problem(_FLAG, f"{key} lists no values", "for example {1,2}"))
        elif twice := find_repeated(dimension.values):
            problems.append(Problem(_FLAG, f"{key} lists {twice} twice", "each value is equally likely; list it once"))
    return problems


def num_distinct(space: Mapping[str, Dimension], base: TrainConfig) -> float:
    """Return the number of different settings that a space holds; inf if a key has real numbers."""
    whole = whole_keys(space, base)
    sizes = [
        len(dimension.values)
        if isinstance(dimension, Choice)
        else dimension.high - dimension.low + 1
        if key in whole
        else math.inf
        for key, dimension in space.items()
    ]
    return math.prod(sizes)


def _parse_dimension(base: TrainConfig, key: str, text: str) -> tuple[Dimension | None, list[Problem]]:
    if lacks_a_half(text):
        wrong = f"{key}={text} has a bracket without its other half"
        return None, [Problem(_FLAG, wrong, f"write {_FORMS}, in quotes")]
    if text.startswith("{") and text.endswith("}"):
        texts = split_values(text[1:-1])
        if not texts:
            return None, [Problem(_FLAG, f"{key} lists no values", "for example {1,2}")]
        values, problems = read_values(base, key, texts, _FLAG)
        return (Choice(tuple(values)) if values else None), problems
    named = re.fullmatch(r"(log|uniform|integers)\s*\((.*)\)", text)
    if named is None:
        return None, [Problem(_FLAG, f"{key} must be {_FORMS}, got {text!r}", f"for example {_example(base, key)}")]
    kind, inside = named.groups()
    try:
        low, high = map(float, inside.split(","))
    except ValueError:
        wrong = f"{key}: {kind} needs two numbers, LOW and HIGH, got {text!r}"
        return None, [Problem(_FLAG, wrong, f"for example {_example(base, key)}")]
    return Range(cast(Kind, kind), low, high), []


def _example(base: TrainConfig, key: str) -> str:
    leaf = next((leaf for leaf in find_leaves(base) if leaf.key == key), None)
    number = None if leaf is None else _number_type(leaf)
    if leaf is None or number is None:
        return f"{key}={{{base.preset if leaf is None else list_text([leaf.value])}}}"
    value = leaf.value or 1
    low, high = (max(1, value // 2), value * 2) if number is int else (value / 2, value * 2)
    return f"{key}={'integers' if number is int else 'uniform'}({show(low)},{show(high)})"


def _range_problem(leaf: Leaf | None, key: str, found: Range) -> Problem | None:
    """Return the first mistake in a range, or None."""
    number = None if leaf is None else _number_type(leaf)
    if number is None or leaf is None:
        return Problem(_FLAG, f"{key} is not a number, got {found}", f"list values: {key}={{V1,V2}}")
    if found.kind not in get_args(Kind):
        return Problem(_FLAG, f"{key} must be {_FORMS}, got {found}", "choose one of these kinds")
    if not (math.isfinite(found.low) and math.isfinite(found.high)):
        return Problem(_FLAG, f"{key}: both ends must be finite, got {found}", "write two numbers")
    if found.low >= found.high:
        turned = Range(found.kind, found.high, found.low)
        remedy = f"write {turned}" if found.low > found.high else f"use --{key} {_number_text(found.low)}"
        return Problem(_FLAG, f"{key}: the low end must be below the high end, got {found}", remedy)
    if found.kind == "log" and found.low <= 0.0:
        return Problem(_FLAG, f"{key}: the ends of log must be above 0, got {found}", "raise the low end")
    if number is int and found.kind == "uniform":
        remedy = f"use integers({_number_text(found.low)},{_number_text(found.high)})"
        return Problem(_FLAG, f"{key} is a whole number, got {found}", remedy)
    if number is int and not (float(found.low).is_integer() and float(found.high).is_integer()):
        return Problem(_FLAG, f"{key}: both ends must be whole numbers, got {found}", "round them")
    if number is float and found.kind == "integers":
        remedy = f"use uniform({_number_text(found.low)},{_number_text(found.high)}), or list values"
        return Problem(_FLAG, f"{key} is not a whole number, got {found}", remedy)
    ends = [leaf.info.bounds.complaint(number(end)) for end in (found.low, found.high)] if leaf.info.bounds else []
    complaint = next(filter(None, ends), None)
    return Problem(_FLAG, f"{key}: {complaint}, as an end of {found}", "move that end") if complaint else None


def _number_type(leaf: Leaf) -> type | None:
    """Return int or float, the type of a key's numbers; None if its values are no numbers."""
    kinds = [kind for kind in get_args(leaf.info.type) if kind is not NoneType] or [leaf.info.type]
    return kinds[0] if kinds in ([int], [float]) else None


def _number_text(value: float) -> str:
    return str(int(value)) if math.isfinite(value) and float(value).is_integer() and abs(value) < 1e15 else repr(value)
