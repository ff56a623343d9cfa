from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest

from laser.config import Bounds
from launch.settings.values import apply_overrides, convert, find_leaves, flatten, nearest, show


@dataclass(frozen=True)
class Inner:
    learning_rate: Annotated[float, Bounds(above=0.0), "step size"] = 1e-3
    sizes: tuple[int, ...] = (64, 64)
    mode: Literal["auto", "on", "off"] = "auto"


@dataclass(frozen=True)
class Outer:
    name: str = "x"
    steps: int = 10
    quiet: bool = False
    where: Path | None = None
    preset: str = ""
    inner: Inner = field(default_factory=Inner)


@dataclass(frozen=True)
class Nothing:
    pass


@dataclass(frozen=True)
class Sweet(Nothing):
    sugar: int = 3


@dataclass(frozen=True)
class Sour(Nothing):
    acid: float = 0.5
    sugar: int = 0


@dataclass(frozen=True)
class Dish:
    chooses: ClassVar[dict[str, str]] = {"taste": "taste_settings"}
    taste_settings: Nothing = field(default_factory=Nothing)
    taste: str = "none"

    def __post_init__(self):
        if type(self.taste_settings) is Nothing:
            chosen = {"sweet": Sweet, "sour": Sour}.get(self.taste, Nothing)
            object.__setattr__(self, "taste_settings", chosen())


@dataclass(frozen=True)
class Meal:
    main: Dish = field(default_factory=Dish)


def test_a_value_that_chooses_a_sections_class_is_put_in_before_the_sections_values():
    meal, problems = apply_overrides(Meal(), {"main.taste-settings.sugar": "7", "main.taste": "sweet"})
    assert not problems
    assert meal.main.taste_settings == Sweet(7)
    again, problems = apply_overrides(meal, {"main.taste": "sweet"})
    assert not problems
    assert again == meal
    other, problems = apply_overrides(meal, {"main.taste_settings.acid": "2", "main.taste": "sour"})
    assert not problems
    assert other.main.taste_settings == Sour(2.0, 0), "what was set of another class came along"
    none, problems = apply_overrides(meal, {"main.taste": "none", "main.taste-settings.sugar": "7"})
    assert none.main.taste_settings == Nothing()
    assert [problem.key for problem in problems] == ["main.taste-settings.sugar"]


@pytest.mark.parametrize(
    ("value", "hint", "expected"),
    [
        ("1e6", int, 1_000_000),
        ("1_000_000", int, 1_000_000),
        (" 7 ", int, 7),
        (3.0, int, 3),
        ("-2", int, -2),
        (str(2**60 + 1), int, 2**60 + 1),
        ("3", float, 3.0),
        (3, float, 3.0),
        ("inf", float, float("inf")),
        ("1_0.5", float, 10.5),
        ("true", bool, True),
        ("No", bool, False),
        ("1", bool, True),
        (True, bool, True),
        ("a b", str, "a b"),
        ("", str, ""),
        ("x/y", Path, Path("x/y")),
        ("~/x", Path, Path.home() / "x"),
        ("none", Path | None, None),
        (None, Path | None, None),
        ("x", Path | None, Path("x")),
        ("on", Literal["auto", "on", "off"], "on"),
        (True, Literal["auto", "on", "off"], "on"),
        ("ON", Literal["auto", "on", "off"], "on"),
        ("2", Literal[1, 2], 2),
        ("64,32", tuple[int, ...], (64, 32)),
        ("(64, 32)", tuple[int, ...], (64, 32)),
        ("1e3", tuple[int, ...], (1000,)),
        ([64, 32], tuple[int, ...], (64, 32)),
        (64, tuple[int, ...], (64,)),
        ("", tuple[int, ...], ()),
    ],
)
def test_values_are_read_by_type(value, hint, expected):
    result = convert(value, hint)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "hint", "complaint"),
    [
        ("1.5", int, "must be a whole number, got 1.5"),
        (1.5, int, "must be a whole number, got 1.5"),
        ("inf", int, "must be a whole number, got inf"),
        ("nan", int, "must be a whole number, got nan"),
        ("ten", int, "must be a whole number, got 'ten'"),
        (True, int, "must be a whole number, got true"),
        ("", int, "must be a whole number, got ''"),
        ("fast", float, "must be a number, got 'fast'"),
        (False, float, "must be a number, got false"),
        (None, float, "must be a number, got None"),
        ("maybe", bool, "must be true or false, got 'maybe'"),
        (1, bool, "must be true or false, got 1"),
        (5, str, "must be text, got 5"),
        ("", Path, "must be a path, got ''"),
        ("a\0b", Path, "must be a path"),
        ("~nobody-is-called-so/x", Path, "must be a path in an existing user's home"),
        ("of", Literal["auto", "on", "off"], "must be one of auto, on, off, got 'of'"),
        ("64,x", tuple[int, ...], "must be a whole number, got 'x'"),
        (None, tuple[int, ...], "must be values separated by commas, got None"),
        ([1, "x" * 200], int, "must be a whole number, got"),
    ],
)
def test_wrong_values_say_what_they_must_be(value, hint, complaint):
    with pytest.raises(ValueError, match="^" + complaint.replace("'", ".")) as caught:
        convert(value, hint)
    assert len(str(caught.value)) < 150


def test_right_values_are_applied_and_all_mistakes_collected():
    values = {
        "name": "y",
        "inner.learning_rate": "0.5",
        "inner.sizes": [1, 2],
        "steps": "many",
        "inner.learning-rat": "1",
        "inner": "3",
        "stepss": 1,
        "name.first": 1,
        "preset": "z",
    }
    config, problems = apply_overrides(Outer(), values, fixed=("preset",), where="in f.toml: ")
    assert config == Outer(name="y", inner=Inner(learning_rate=0.5, sizes=(1, 2)))
    assert [str(problem) for problem in problems] == [
        "steps: in f.toml: must be a whole number, got 'many'; for example steps=10",
        "inner.learning-rat: in f.toml: unknown key; did you mean inner.learning-rate?",
        "inner: in f.toml: is a section, not a value; set one of its values, for example inner.learning-rate",
        "stepss: in f.toml: unknown key; did you mean steps?",
        "name.first: in f.toml: unknown key: name is a single value; set name itself",
        "preset: in f.toml: unknown key; --help lists the keys",
    ]


def test_keys_are_listed_with_their_values():
    leaves = {leaf.key: leaf for leaf in find_leaves(Outer())}
    assert list(leaves)[:2] == ["name", "steps"]
    assert leaves["inner.learning-rate"].info.help == "step size"
    assert leaves["inner.sizes"].value == (64, 64)


def test_nearest_looks_at_last_parts_too():
    keys = ["algorithm.learning-rate", "replay.capacity-steps", "steps"]
    assert nearest("learning-rate", keys) == "algorithm.learning-rate"
    assert nearest("capacity-step", keys) == "replay.capacity-steps"
    assert nearest("stps", keys) == "steps"
    assert nearest("colour", keys) is None


def test_flatten():
    assert flatten({"a": 1, "b": {"c": 2, "d": {"e": [3]}}}) == {"a": 1, "b.c": 2, "b.d.e": [3]}


@pytest.mark.parametrize("value", [True, 0.875, 1e-5, float("inf"), (64, 32), None, "x", 12])
def test_what_is_shown_can_be_typed(value):
    hint = {tuple: tuple[int, ...], type(None): Path | None}.get(type(value), type(value))
    assert convert(show(value), hint) == value
