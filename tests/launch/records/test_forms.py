"""Forms of plain values: what fits, and which value is named where something does not."""

import math

import numpy as np
import pytest

from launch.records.forms import COUNT, FINITE, Either, check_form

FORM = {
    "num?": COUNT,
    "share?": FINITE,
    "count": int,
    "seconds?": float,
    "parts": [{"name": str}],
    "pair": (int, Either(str, type(None))),
    "array?": np.ndarray,
    ...: {...: float},
}
VALUE = {"count": 3, "parts": [{"name": "a", "more": []}], "pair": [1, None], "others": {"x": 1, "y": 0.5}}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"seconds": 2},
        {"parts": []},
        {"pair": [0, "b"]},
        {"array": np.zeros(2)},
        {"num": 2**63 - 1},
        {"share": -0.5},
    ],
)
def test_values_of_the_form_pass(changes):
    check_form(VALUE | changes, FORM, "it")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"count": True}, "it.count must be a whole number, got True"),
        ({"count": 1.5}, "it.count must be a whole number, got 1.5"),
        ({"seconds": "2"}, "it.seconds must be a number, got '2'"),
        ({"parts": {}}, "it.parts must be a list, got {}"),
        ({"parts": [{"name": "a"}, {}]}, "it.parts[1].name must be a text, got None"),
        ({"pair": [1]}, "it.pair must have 2 items, got 1"),
        ({"pair": [1, 2]}, "it.pair[1] must be null, got 2"),
        ({"array": [0]}, "it.array must be an array, got [0]"),
        ({"num": -1}, "it.num must be a finite number from 0 to below 2^63, got -1"),
        ({"num": 2**63}, "it.num must be a finite number from 0 to below 2^63, got 9223372036854775808"),
        ({"num": 0.5}, "it.num must be a whole number, got 0.5"),
        ({"share": math.nan}, "it.share must be a finite number below 2^63, got nan"),
        ({"share": -math.inf}, "it.share must be a finite number below 2^63, got -inf"),
        ({"others": 4}, "it.others must be an object, got 4"),
        ({"others": {"x": None}}, "it.others.x must be a number, got None"),
    ],
)
def test_the_value_that_does_not_fit_is_named(changes, says):
    with pytest.raises(ValueError) as error:
        check_form(VALUE | changes, FORM, "it")
    assert str(error.value) == says


def test_what_must_be_there_is_named():
    with pytest.raises(ValueError, match=r"^it\.count must be a whole number, got None$"):
        check_form({key: value for key, value in VALUE.items() if key != "count"}, FORM, "it")
