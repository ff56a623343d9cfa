from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import pytest

from laser.config import Bounds
from launch.command_line.flags import format_flags, split_arguments, switches_of, without_value
from launch.settings.values import find_leaves


@dataclass(frozen=True)
class Inner:
    x: Annotated[float, Bounds(above=0.0), "a number"] = 0.5
    flag: Annotated[bool, "a switch"] = False


@dataclass(frozen=True)
class Config:
    steps: Annotated[int, Bounds(least=1), "how many " + "and on " * 40] = 10
    mode: Annotated[Literal["a", "b"], "which"] = "a"
    where: Annotated[Path | None, "a place"] = None
    most: Annotated[int | None, "a number; none: no bound"] = None
    label: Annotated[str, "a name"] = ""
    sizes: Annotated[tuple[int, ...], "widths"] = (1, 2)
    inner: Inner = Inner()


def split(line):
    return split_arguments(line.split(), {"quiet", "inner.flag"})


@pytest.mark.parametrize(
    ("line", "positionals", "values"),
    [
        ("cartpole --steps 10", ["cartpole"], {"steps": "10"}),
        ("--steps=10 cartpole", ["cartpole"], {"steps": "10"}),
        ("--x -1", [], {"x": "-1"}),
        ("--x=", [], {"x": ""}),
        ("--x=a=b", [], {"x": "a=b"}),
        ("--quiet cartpole", ["cartpole"], {"quiet": "true"}),
        ("--quiet false cartpole", ["cartpole"], {"quiet": "false"}),
        ("--no-quiet --no-inner.flag", [], {"quiet": "false", "inner.flag": "false"}),
        ("--quiet --steps 1 --steps 2", [], {"quiet": "true", "steps": "2"}),
        ("--num_actors 3", [], {"num-actors": "3"}),
        ("--unknown.key value rest", ["rest"], {"unknown.key": "value"}),
        ("-- a b", ["a", "b"], {}),
        ("", [], {}),
    ],
)
def test_arguments_are_taken_apart(line, positionals, values):
    result = split(line)
    assert (result.positionals, result.values, result.problems) == (positionals, values, [])


def test_missing_values_and_single_hyphens():
    result = split("--steps --env -x")
    assert (result.problems, result.valueless, result.values) == ([], ["steps"], {"env": "-x"})
    result = split("-s 3 --env --stepz")
    assert [str(problem) for problem in result.problems] == ["-s: unknown flag; flags begin with two hyphens"]
    assert [str(problem) for problem in without_value(result, [], ["env", "steps"])] == [
        "env: needs a value; write --env VALUE",
        "stepz: unknown key; did you mean steps?",
    ]


def test_a_switch_given_both_ways_is_a_mistake():
    (problem,) = split("--quiet --steps 1 --no-quiet").problems
    assert str(problem) == "quiet: is given both as --quiet and as --no-quiet; leave one of them out"
    assert split("--no-quiet --no-quiet --inner.flag no").problems == []


def test_help_says_choices_ranges_and_defaults():
    leaves = list(find_leaves(Config()))
    assert switches_of(leaves) == {"inner.flag"}
    text = format_flags(leaves)
    assert text.startswith("run:\n  --steps N")
    assert "(at least 1; default 10)" in " ".join(text.split())
    assert "--mode a|b" in text
    assert "--where PATH" in text
    assert "--most N" in text
    assert "a name (default none)" in " ".join(text.split())
    assert "--sizes A,B,..." in text
    assert "(default 1,2)" in text
    assert "\n\ninner:\n  --inner.x X" in text
    assert "(above 0; default 0.5)" in text
    assert max(map(len, text.splitlines())) <= 110
