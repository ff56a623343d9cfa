"""How numbers are written."""

import math

import pytest
from written_numbers import WRITTEN

from launch.formats import axis_formats, byte_unit, pointer_format, short, size


@pytest.mark.parametrize(("value", "text"), WRITTEN.items())
def test_a_number_has_four_digits_or_its_whole_part(value, text):
    assert short(value) == text


def test_what_is_no_number_is_no_text():
    assert (short(None), short(math.nan)) == ("", "")
    assert (short(math.inf), short(-math.inf)) == ("infinite", "-infinite")


def test_bytes_are_in_the_unit_that_suits_them():
    assert [size(each) for each in (None, 12, 2048, 370_343_118.0, 400e6, 5 * 2.0**30)] == [
        "",
        "12 bytes",
        "2 KiB",
        "353.2 MiB",
        "381.5 MiB",
        "5 GiB",
    ]
    assert byte_unit(4e8) == (2.0**20, "MiB")


@pytest.mark.parametrize(
    ("values", "form"),
    [
        ((1e-5, 9e-4), ".2~e"),
        ((1e-5, 0.5), ",.4~g"),
        ((1.0, 11368.88), ",.5~g"),
        ((0.5, 123456.7), ",.6~g"),
        ((1e6, 4e8), ".4~s"),
        ((0.5, 1e6), ""),
        ((0.0, 0.0), ",.4~g"),
        ((0.0, 9e-4), ""),
        ((0.0, 0.5), ",.4~g"),
    ],
)
def test_values_at_the_pointer_have_a_format_that_suits_all_of_them(values, form):
    assert pointer_format(*values) == form


def test_an_axis_is_written_by_what_it_shows():
    assert axis_formats(9e-4)["tickformat"] == axis_formats(9e-4, is_log=True)["tickformat"] == "~e"
    assert axis_formats(0.5)["exponentformat"] == axis_formats(0.0)["exponentformat"] == "e"
    assert axis_formats(1e6)["exponentformat"] == "SI"


def test_marks_of_decades_are_written_by_the_rule():
    names = axis_formats(1e9, is_log=True)["labelalias"]
    known = {"0.000001": "1e-6", "0.0002": "2e-4", "0.0009": "9e-4", "1e+6": "1M", "5e+8": "500M", "1e+9": "1G"}
    assert names.items() >= known.items()
    assert all(short(float(text)) == name for text, name in names.items())
