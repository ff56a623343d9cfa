"""How numbers are written."""

import math

import pytest
from written_numbers import WRITTEN

from launch.formats import axis_formats, byte_unit, short, size


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
    ("largest", "marks", "at_pointer"),
    [
        (1e-4, "~e", ".3~e"),
        (0.5, ",~r", ",.4~r"),
        (11368.88, ",~r", ",.5~r"),
        (123456.7, ",~r", ",.6~r"),
        (4e8, "~s", ".4~s"),
        (0.0, ",~r", ",.4~r"),
    ],
)
def test_an_axis_is_written_by_its_largest_value(largest, marks, at_pointer):
    assert axis_formats([0.1 * largest, largest, math.nan]) == {"tickformat": marks, "hoverformat": at_pointer}
