import pickle

import pytest

from laser.free_values import FreeValues, read_table, read_value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9", 9),
        ("-3", -3),
        ("0.5", 0.5),
        (".5", 0.5),
        ("1e-3", 1e-3),
        ("true", True),
        ("False", False),
        ("none", None),
        ("a few words", "a few words"),
        ("007", "007"),
        ("1.2.3", "1.2.3"),
        ('"9"', "9"),
        ('[1, "a", {"b": null}]', [1, "a", {"b": None}]),
        ((1, 2), (1, 2)),
    ],
)
def test_a_text_means_what_it_looks_like(text, value):
    assert read_value(text) == value
    assert type(read_value(text)) is type(value)


def test_values_are_put_in_by_path_and_leave_the_old_table_alone():
    old = FreeValues({"size": 9, "map": {"a": 1, "b": 2}})
    new = old.with_value("map.a", 3).with_value("walls.left", "yes sir")
    assert new == {"size": 9, "map": {"a": 3, "b": 2}, "walls": {"left": "yes sir"}}
    assert (old.at("map.a"), new.at("map.a"), new.at("walls.left")) == (1, 3, "yes sir")
    with pytest.raises(KeyError):
        new.at("map.c")


def test_tables_are_hashable_by_value_and_travel_between_processes():
    one, other = FreeValues({"a": [1], "b": (2,)}), FreeValues({"b": [2], "a": [1]})
    assert one == other
    assert hash(one) == hash(other) != hash(FreeValues({"a": [2], "b": [2]}))
    assert pickle.loads(pickle.dumps(one)) == one
    assert str(FreeValues({"size": 9})) == '{"size": 9}'


def test_a_value_that_json_cannot_hold_is_found():
    assert FreeValues({"a": 1, "b": {"c": print}}).find_unreadable() == "b"
    assert FreeValues({"a": 1}).find_unreadable() is None


def test_a_whole_table_is_read_from_json():
    assert read_table('{"size": 9}') == {"size": 9}
    assert read_table("none") == {}
    with pytest.raises(ValueError, match=r"must be a table of values by name, such as .*, got '9'"):
        read_table("9")
