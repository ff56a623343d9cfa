"""Ranges, problems, and how the mistakes of a tree of configs are collected."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import pytest

from laser.config import (
    Bounds,
    ConfigError,
    Problem,
    field_infos,
    find_problems,
    find_unused,
    key_of,
    raise_problems,
)


@dataclass(frozen=True)
class Optics:
    focal_length: Annotated[float, Bounds(above=0.0), "millimetres"] = 50.0
    sizes: Annotated[tuple[int, ...], Bounds(least=1), "pixels"] = (3, 2)

    def single_problems(self):
        return [Problem("focal-length", "must be whole")] if self.focal_length % 1 else []


@dataclass(frozen=True)
class Camera:
    mode: Annotated[Literal["film", "still"], "what it takes"] = "still"
    gain: float = 1.0
    is_on: Annotated[bool, Bounds(least=5.0)] = False
    optics: Optics = field(default_factory=Optics)

    def problems(self):
        return [Problem("gain", "is too much for film", "lower it")] if self.mode == "film" and self.gain > 2 else []


@pytest.mark.parametrize(
    ("bounds", "inside", "outside"),
    [
        (Bounds(least=1.0), [1.0, 2.0], [0.999]),
        (Bounds(most=1.0), [1.0, -5.0], [1.001]),
        (Bounds(above=1.0), [1.001], [1.0]),
        (Bounds(below=1.0), [0.999], [1.0]),
        (Bounds(least=0.0, below=1.0), [0.0, 0.5], [1.0, -0.1]),
        (Bounds(), [-1e300, 1e300], [math.inf, -math.inf, math.nan]),
        (Bounds(above=0.0, allow_infinite=True), [math.inf], [-math.inf, math.nan]),
    ],
)
def test_a_number_is_inside_its_bounds_or_there_is_a_complaint(bounds, inside, outside):
    assert [bounds.complaint(value) for value in inside] == [None] * len(inside)
    for value in outside:
        assert str(value) in bounds.complaint(value)


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (Bounds(least=0.0, most=1.0), "in [0, 1]"),
        (Bounds(least=16_777_216), "at least 16777216"),
        (Bounds(above=0.0, below=1.0), "above 0 and below 1"),
        (Bounds(above=0.5, most=2.0), "above 0.5 and at most 2"),
        (Bounds(), "any number"),
    ],
)
def test_bounds_are_printed_as_a_range(bounds, text):
    assert str(bounds) == text


def test_every_mistake_of_a_tree_is_found_with_its_full_key():
    config = Camera(mode="video", gain=math.inf, optics=Optics(focal_length=-1.5, sizes=(3, 0, -1)))
    problems = list(find_problems(config, "camera."))
    assert [problem.key for problem in problems] == [
        "camera.mode",
        "camera.gain",
        "camera.optics.focal-length",
        "camera.optics.sizes",
        "camera.optics.sizes",
        "camera.optics.focal-length",
    ]
    assert problems[0].wrong == "must be one of film, still, got 'video'"
    assert problems[1].wrong == "must be a finite number, got inf"
    assert problems[3].wrong == "must be at least 1, got 0"
    assert problems[-1].wrong == "must be whole"


def test_rules_that_join_fields_wait_for_each_field_to_be_in_range():
    assert list(find_problems(Camera(mode="film", gain=3.0), "a.")) == [
        Problem("a.gain", "is too much for film", "lower it")
    ]
    assert [problem.wrong for problem in find_problems(Camera(mode="film", gain=math.inf))] == [
        "must be a finite number, got inf"
    ]
    # A mistake further down is another config's: this one's rules are asked all the same.
    nested = Camera(mode="film", gain=3.0, optics=Optics(focal_length=0.0))
    assert [problem.key for problem in find_problems(nested)] == ["optics.focal-length", "gain"]
    # A bool is no number, whatever its bounds.
    assert list(find_problems(Camera(is_on=True))) == []


@dataclass(frozen=True)
class Tripod:
    legs: Annotated[int, Bounds(least=1), "legs"] = 3
    height: float | None = None
    maker: str = ""
    folder: Path | None = None
    notes: Mapping[str, Any] = field(default_factory=dict)
    camera: Camera = field(default_factory=Camera)

    def problems(self):
        return [Problem("height", "is too low", "raise it")] if self.camera.optics.focal_length > 60 else []


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({"legs": "3"}, ["t.legs: must be a whole number, got '3'"]),
        ({"legs": 3.0}, ["t.legs: must be a whole number, got 3.0"]),
        ({"legs": True}, ["t.legs: must be a whole number, got True"]),
        ({"legs": None}, ["t.legs: must be a whole number, got None"]),
        ({"height": "1e-3"}, ["t.height: must be a number or none, got '1e-3'"]),
        ({"maker": None}, ["t.maker: must be text, got None"]),
        ({"folder": 3}, ["t.folder: must be a path or none, got 3"]),
        ({"notes": [1]}, ["t.notes: must be a mapping of names to values, got [1]"]),
        ({"camera": None}, ["t.camera: must be of the class Camera, got None"]),
        ({"camera": Optics()}, ["t.camera: must be of the class Camera, got Optics(focal_length=50.0, sizes=(3, 2))"]),
        ({"camera": Camera(is_on=1)}, ["t.camera.is-on: must be true or false, got 1"]),
        ({"camera": Camera(optics=Optics(sizes=[3, 2]))}, ["t.camera.optics.sizes: must be a tuple, got [3, 2]"]),
        (
            {"camera": Camera(optics=Optics(sizes=(3, 2.5)))},
            ["t.camera.optics.sizes: must be a tuple, and each of its items a whole number, got (3, 2.5)"],
        ),
        # No rule is asked that would compute with a value of another type; ranges are.
        (
            {"legs": 0, "maker": 5, "camera": Camera(optics=Optics(focal_length="80"))},
            [
                "t.legs: must be at least 1, got 0",
                "t.maker: must be text, got 5",
                "t.camera.optics.focal-length: must be a number, got '80'",
            ],
        ),
    ],
)
def test_a_value_of_another_type_is_one_line(changes, lines):
    assert [str(problem) for problem in find_problems(Tripod(**changes), "t.")] == lines


@pytest.mark.parametrize("number", [np.int32(2), np.float32(2.5), np.float64(2.5), 2])
def test_numbers_of_numpy_are_numbers(number):
    assert list(find_problems(Tripod(height=number, camera=Camera(optics=Optics(sizes=(np.int64(3),)))))) == []
    assert [str(each) for each in find_problems(Tripod(legs=np.int64(0)))] == ["legs: must be at least 1, got 0"]
    assert [each.key for each in find_problems(Tripod(legs=np.float64(3.0)))] == ["legs"]


def test_what_was_changed_and_has_no_effect_is_found():
    assert find_unused(Camera(), "camera", ("gain", "mode"), "it is off", "turn it on") == []
    (problem,) = find_unused(Camera(gain=2.0), "camera", ("gain", "mode"), "it is off", "turn it on")
    assert str(problem) == "camera.gain: has no effect: it is off; turn it on"


def test_infos_hold_type_bounds_and_help():
    infos = field_infos(Optics)
    assert (infos["focal_length"].type, infos["focal_length"].help) == (float, "millimetres")
    assert infos["focal_length"].bounds == Bounds(above=0.0)
    assert (field_infos(Camera)["gain"].bounds, field_infos(Camera)["gain"].help) == (None, "")
    with pytest.raises(TypeError):
        infos["more"] = infos["sizes"]


def test_all_problems_are_raised_at_once():
    raise_problems([])
    problems = [Problem("a", "is wrong"), Problem(key_of("b_c"), "is too", "leave it")]
    with pytest.raises(ConfigError) as raised:
        raise_problems(problems)
    assert raised.value.problems == problems
    assert str(raised.value) == "a: is wrong\nb-c: is too; leave it"
