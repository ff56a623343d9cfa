"""Addresses of views, whatever text they are."""

import pytest

from launch.dashboard.address import address_of, parse_address
from launch.records.listing import find_entries


@pytest.mark.parametrize("name", ["plain", "sweep of/mine 3", "<img src=x>", "50%?#&=+", "ü"])
def test_a_run_is_found_again_by_the_name_in_its_address(tmp_path, make_run, name) -> None:
    make_run(name)
    (entry,) = find_entries(tmp_path / "runs").values()
    path, _, query = address_of(entry).partition("?")
    assert not query
    assert parse_address({"pathname": path, "search": ""}).name == entry.name == name


def test_old_addresses_with_a_key_still_work() -> None:
    address = parse_address({"pathname": "/run", "search": "?key=abc&axis=frames"})
    assert (address.page, address.name, address.text("axis")) == ("run", "abc", "frames")


def test_an_address_may_hold_anything() -> None:
    address = parse_address(
        {"pathname": "/", "search": "?smoothing=x&zoom={&metric=a&metric=b&open=log&shut=config&m="}
    )
    assert address.number("smoothing", 3) == 3
    assert address.json("zoom") is None
    assert address.texts("metric") == ["a", "b"]
    assert address.texts("m") == [""]
    assert address.is_open("log", False)
    assert not address.is_open("config", True)
    assert not address.is_open("other", False)
    for strange in (None, [], {"pathname": 3, "search": []}, {"search": "?" + "a&" * 20_000}):
        assert parse_address(strange).page == ""
