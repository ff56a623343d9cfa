"""What a page saves, in a real headless Chromium: every name in a picture, every run in a table of points."""

from __future__ import annotations

import csv
import io
import shutil
import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from in_chromium import IN_CHROMIUM, find, texts, traces, wait

pytestmark = IN_CHROMIUM

RETURN = "return, last 20 episodes"
LONG = "a-run-whose-name-is-as-long-as-those-that-people-give-when-they-write-all-settings-into-it-" * 2 + "seed-"
NAMES = [*(f"run{place:02d}" for place in range(22)), f"{LONG}1", f"{LONG}2"]
MEMBERS = 1_005


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """Runs with short and with long names, and a sweep of more than a thousand members."""
    root, make_run = shared_runs
    now = time.time() - 1000.0
    for place, name in enumerate(NAMES):
        make_run(name, [{"charts/mean_return": float(n + place)} for n in range(4)], begun=now, repeat=1)
    make_run("sweep", facts={"sweep": {"grid": {}, "options": {}}})
    first = make_run("sweep/members/0", [{"charts/mean_return": 1.0}], begun=now, facts={"member": {"index": 0}})
    for number in range(1, MEMBERS):
        shutil.copytree(first, first.parent / str(number))
    return root


def saved(browser: Any, kind: str) -> Path:
    """Return the file of the first picture that the page has saved."""
    path: Path = browser.downloads / f"laser-return-last-20-episodes.{kind}"
    path.unlink(missing_ok=True)
    find(browser, f"#comparison [data-save={kind}]").click()
    wait("the picture", lambda: path.is_file() and path.stat().st_size > 1000)
    return path


# The look of each dot by the name beside it: in the list of names, or in the table.
_DOTS = """
  const shown = (dot) => [getComputedStyle(dot).backgroundColor, getComputedStyle(dot).backgroundImage];
  return Object.fromEntries(Array.from(document.querySelectorAll(arguments[0])).filter((each) =>
    each.querySelector('.dot')).map((each) => [each.textContent.trim(), shown(each.querySelector('.dot'))]));
"""


def below(png: bytes, top: int) -> tuple[int, int]:
    """Return how many coloured pieces of line stand at the left of a picture below a row, and where its ink ends."""
    from matplotlib.image import imread

    pixels = np.asarray(imread(io.BytesIO(png)))[top:, :, :3]
    coloured = (np.ptp(pixels[:, :200], axis=-1) > 0.25).any(axis=1)
    number = int((np.diff(coloured.astype(int), prepend=0) == 1).sum())
    return number, int(np.flatnonzero((pixels < 0.8).any(axis=(0, 2)))[-1])


def test_a_saved_picture_has_room_for_every_name(browser, address, root) -> None:
    narrow = f"metric=charts/mean_return&metric=entropy&{'&'.join(f'run={name}' for name in NAMES)}"
    browser.get(f"{address}?{narrow}")
    wait("all curves", lambda: len(traces(browser, RETURN)) == len(NAMES))
    png = saved(browser, "png").read_bytes()
    width, height = (side // 2 for side in struct.unpack(">II", png[16:24]))
    shown = browser.execute_script("return document.querySelector('#comparison .js-plotly-plot').clientHeight")
    assert height == max(400, shown) + 19 * len(NAMES) + 20
    grey = 6  # every eighth colour is a grey, which is no mark here
    top = 2 * (height - 19 * len(NAMES) - 20)
    marks, right = below(png, top)
    assert marks == len([place for place in range(len(NAMES)) if place % 8 != grey])
    svg = saved(browser, "svg").read_text()
    assert [name for name in NAMES if f">{name}</text>" not in svg] == []
    assert 2_000 < right < 2 * width - 10, "the longest name ends inside the picture"


def test_dots_tell_any_two_runs_apart_by_colour_and_dashes(browser, address, root) -> None:
    browser.get(f"{address}?" + "&".join(f"run={name}" for name in NAMES))
    wait("all curves", lambda: len(traces(browser, RETURN)) == len(NAMES))
    dots = browser.execute_script(_DOTS, "#legend > span")
    assert sorted(dots) == sorted(NAMES)
    assert len({tuple(dot) for dot in dots.values()}) == len(NAMES)
    rows = "#table .ag-pinned-left-cols-container .ag-row"
    wait(
        "the same in the table",
        lambda: len(found := browser.execute_script(_DOTS, rows)) > 8 and found.items() <= dots.items(),
    )


def test_the_points_of_a_sweep_are_those_of_all_its_members(browser, address, root) -> None:
    browser.get(f"{address}sweep/sweep")
    css = "a.button[href^='/csv']"
    link = wait("the link", lambda: browser.find_elements("css selector", css))[0]
    path = browser.downloads / "laser.csv"
    path.unlink(missing_ok=True)
    link.click()
    wait("the file", lambda: path.is_file() and path.stat().st_size > 1000, 60.0)
    rows = list(csv.DictReader(io.StringIO(path.read_text())))
    assert {row["run"] for row in rows} == {f"sweep/member {number}" for number in range(MEMBERS)}


def test_a_run_that_is_not_here_has_a_line_in_the_table_of_points(browser, address, root) -> None:
    browser.get(f"{address}?run=run00&run=run01")
    wait("two curves", lambda: len(traces(browser, RETURN)) == 2)
    href = wait("their points", lambda: find(browser, "#all-points").get_attribute("href"))
    text = browser.execute_async_script(
        "fetch(arguments[0]).then((answer) => answer.text()).then(arguments[1])",
        href.replace("?runs=", "?runs=gone%2C"),
    )
    rows = list(csv.reader(io.StringIO(text)))
    assert rows[-1] == ["gone", "there is no such run here (any more)"]
    assert {row[0] for row in rows[1:-1]} == {"run00", "run01"}
    assert texts(browser, "#compared")[0].startswith("2 of ")
