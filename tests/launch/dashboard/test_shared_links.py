"""Links that others sent, in a real headless Chromium: what they ask for and is not here; numbers that are numbers."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

import pytest
from in_chromium import IN_CHROMIUM, find, graphs, names_in_table, texts, tick, traces, wait, x_range

from launch.dashboard.notes import Note, Notes
from launch.recording.progress import duration

pytestmark = IN_CHROMIUM

RETURN = "return, last 20 episodes"
SECONDS = {"brief": 9, "short": 200, "long": 7500}
RATES = {"brief": 3e-4, "short": 1e-3, "long": 2e-5}
METRICS = [f"metric{place:02d}" for place in range(14)]


@pytest.fixture(scope="module")
def root(shared_runs) -> Path:
    """Three runs of different durations, step sizes and evaluations, an archived one, and a small sweep."""
    root, make_run = shared_runs
    now = time.time() - 20_000.0
    for place, (name, seconds) in enumerate(SECONDS.items()):
        rows: list[dict[str, float]] = [{} for _ in range(seconds + 1)]
        for row in (rows[0], rows[-1]):
            row |= {"charts/mean_return": 10.0 * place, "evaluation/mean_return": 100.0 - place, "entropy": 0.5}
            row |= {"gradient_norm": 12345.678, "entropy": 1e-5} if name == "long" else {}
            row |= dict.fromkeys(METRICS, 1.0) if name == "brief" else {}
        algorithm = {"name": "laser", "learning_rate": RATES[name], "max_gradient_norm": 40.0}
        config = {"seed": 1_234_567 + place, "algorithm": algorithm}
        make_run(name, rows, config=config, begun=now, repeat=1)
        (root / name / "checkpoints").mkdir()
    (root / "short" / "videos").mkdir()
    for steps in (100, 200, 300):
        (root / "short" / "videos" / f"evaluation-{steps:09d}.mp4").write_bytes(b"no film")
        os.utime(root / "short" / "videos" / f"evaluation-{steps:09d}.mp4", (now + steps, now + steps))
    make_run("old", [{"charts/mean_return": 1.0}], begun=now, repeat=1)
    assert Notes(root).write(root / "old", Note(archived=True)) == ""
    grid = {"algorithm.learning-rate": ["0.1", "0.2"]}
    make_run("sweep", facts={"sweep": {"grid": grid, "options": {"share_replay": True}}})
    for number, value in enumerate(grid["algorithm.learning-rate"]):
        facts = {"member": {"index": number, "overrides": {"algorithm.learning-rate": value}}}
        make_run(f"sweep/members/{number}", [{"charts/mean_return": 1.0}] * 3, facts=facts, begun=now, repeat=1)
    return root


def query(browser: Any) -> dict[str, list[str]]:
    return parse_qs(urlsplit(browser.current_url).query)


def said(browser: Any) -> str:
    """Return the line about what the address asked for and is not here, as far as it is seen."""
    script = (
        "const line = document.getElementById('not-here'); return line && line.offsetHeight ? line.textContent : ''"
    )
    found: str = browser.execute_script(script)
    return found


def test_runs_that_are_archived_renamed_or_gone_are_named(browser, address, root) -> None:
    browser.get(f"{address}?run=short&run=old&run=renamed&hide=gone&opened=lost")
    wait(
        "what is missing",
        lambda: (
            said(browser) == "The link asks for what is not here: run old (archived: show archived runs), run renamed, "
            "hidden run gone, opened sweep lost."
        ),
    )
    wait("the one that is here", lambda: traces(browser, RETURN) == ["short"])
    browser.get(f"{address}?run=old&archived=show")
    wait("the archived one", lambda: traces(browser, RETURN) == ["old"])
    assert said(browser) == ""


def test_of_several_filters_those_that_the_table_has_are_kept_and_the_others_named(browser, address, root) -> None:
    least = {"filterType": "number", "type": "greaterThanOrEqual", "filter": 10}
    filters = {"return": least, "colour": least, "status": {"filterType": "text"}, "env_steps": "all"}
    link = f"?filter={quote(json.dumps(filters))}&sort=return:desc&sort=age:up&sort=x:asc&column=nonsense&axis=days"
    browser.get(f"{address}{link}")
    words = (
        "filter of colour, filter of status, filter of env_steps, sort age:up, sort x:asc, column nonsense and 1 more."
    )
    wait("what is missing", lambda: said(browser) == f"The link asks for what is not here: {words}")
    wait("the filter that is left", lambda: names_in_table(browser) == ["long", "short"])
    first = "#table .ag-pinned-left-cols-container [row-index='0'] a"
    wait("the order that is left", lambda: texts(browser, first) == ["long"])
    browser.get(f"{address}?filter=%7Bbroken&zoom=%7B")
    words = "filter {broken, zoom {."
    wait("a text that is no filter", lambda: said(browser) == f"The link asks for what is not here: {words}")


@pytest.mark.parametrize(
    ("link", "words"),
    [
        (
            "run/short?axis=days&y=cubic&smoothing=x&baseline=gone&metric=nothing&pin=none&y-log=no",
            "axis days, smoothing x, y axes cubic, baseline gone, metric nothing, pinned panel none and 1 more.",
        ),
        (
            "sweep/sweep?member=9&reader=8&setting=a&second=b&colour=c&exchange=d",
            "member 9, setting a, second setting b, colour c, exchange d, reader 8.",
        ),
        (
            "sweep/sweep?line=member%207&metric=x&curves=iqm&sort=x:asc",
            "metric x, curves iqm, line member 7, sort x:asc.",
        ),
        ("watch/short?speed=7&video=4", "speed 7, video 4."),
    ],
)
def test_every_page_names_what_it_does_not_have(browser, address, root, link, words) -> None:
    browser.get(f"{address}{link}")
    wait("what is missing", lambda: said(browser) == f"The link asks for what is not here: {words}")
    browser.get(address + link.partition("?")[0])
    wait("the page", lambda: texts(browser, "h1"))
    assert said(browser) == ""


def cells(browser: Any, field: str) -> list[str]:
    """Return the cells of a column from top to bottom."""
    script = """
      return Array.from(document.querySelectorAll('#table .ag-center-cols-container .ag-row'))
        .sort((one, other) => one.getAttribute('row-index') - other.getAttribute('row-index'))
        .map((row) => row.querySelector('[col-id=' + arguments[0] + ']').textContent);
    """
    found: list[str] = browser.execute_script(script, field)
    return found


def test_durations_and_settings_are_numbers(browser, address, root) -> None:
    rate = "algorithm.learning-rate"
    browser.get(
        f"{address}?column=duration&column={rate}&column=evaluation&column=seed&search=CartPole&sort=c_duration:asc"
    )
    wait("durations in order", lambda: cells(browser, "c_duration")[-3:] == ["9s", "3m20s", "2h05m"])
    some = [0, 59.2, 60, 3599, 3600, 86_399, 86_400, 90_000, 1e6]
    written = browser.execute_script(
        "return arguments[0].map((value) => dashAgGridFunctions.lasted({ value: value }))", some
    )
    assert written == [duration(each) for each in some]
    field = find(browser, "#table input[aria-label='duration Filter Input']")
    field.send_keys("3")
    wait("those of three minutes and more", lambda: cells(browser, "c_duration") == ["3m20s", "2h05m"])
    field.send_keys("\b")
    wait("all again", lambda: "9s" in cells(browser, "c_duration"))
    assert {"3e-4", "0.001", "2e-5"} <= set(cells(browser, "c_algorithm_learning_rate"))
    assert "1234567" in cells(browser, "c_seed"), "a seed is never rounded"
    find(browser, "#table input[aria-label='learning-rate Filter Input']").send_keys("0.0002")
    wait(
        "those of a larger step size", lambda: sorted(cells(browser, "c_algorithm_learning_rate")) == ["0.001", "3e-4"]
    )
    find(browser, "#table .ag-header-cell[col-id=c_evaluation] .ag-header-cell-label").click()
    wait("the best first", lambda: cells(browser, "c_evaluation") == ["100", "99"])


def test_settings_are_written_alike_in_a_name_and_in_a_table(browser, address, root) -> None:
    browser.get(f"{address}?run=brief&run=long&curves=runs&open=difference")
    wait("the difference", lambda: texts(browser, "#difference tbody td")[2:3] == ["3e-4"])
    assert texts(browser, "#difference tbody td")[:2] == ["brief", "1234567"]


def test_sentences_write_numbers_as_the_tables_do(browser, address, root) -> None:
    browser.get(f"{address}run/long")
    said_of = wait("sentences", lambda: texts(browser, "#findings .finding"))
    assert "the policy is nearly deterministic (entropy 1e-5 nats): raise the entropy cost" in said_of
    assert "gradients are clipped hard: their norm is 12,346, the limit 40" in said_of


def test_more_metrics_than_are_drawn_are_counted(browser, address, root) -> None:
    browser.get(f"{address}?run=brief&" + "&".join(f"metric={name}" for name in METRICS))
    wait("twelve pictures", lambda: graphs(browser) == METRICS[:12])
    assert texts(browser, "#compared") == ["1 of 6 runs drawn, the first 12 of 14 metrics"]


def test_frames_that_equal_the_env_steps_are_no_axis(browser, address, root) -> None:
    for page, axis in (("", "axis"), ("run/short", "run-axis"), ("sweep/sweep", "sweep-axis")):
        browser.get(f"{address}{page}")
        words = wait("axes", lambda axis=axis: texts(browser, f"#{axis} label"))
        assert words == ["env steps", "seconds", "learner steps"]


def test_ticks_in_the_table_take_the_line_about_the_link_to_be_read_once(browser, address, root) -> None:
    browser.get(f"{address}?run=renamed")
    wait("what is missing", lambda: "run renamed" in said(browser))
    wait("rows", lambda: "short" in names_in_table(browser))
    tick(browser, "short")
    wait("the new choice", lambda: query(browser).get("run") == ["short"])
    browser.refresh()
    wait("the page of the new choice", lambda: traces(browser, RETURN) == ["short"])
    assert said(browser) == ""


def test_what_watch_shows_stands_in_its_address(browser, address, root) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(f"{address}watch")
    wait("the first run in the address", lambda: query(browser).get("run") == ["brief"])
    browser.get(f"{address}watch/short")
    wait("the newest video", lambda: texts(browser, "#evaluation-name") == ["at 300 env steps"])
    assert query(browser) == {}
    find(browser, "#live-speed input[value='250']").click()
    wait("the speed", lambda: query(browser) == {"speed": ["250"]})
    find(browser, "#evaluation-number .dash-slider-thumb").send_keys(Keys.HOME)
    wait("the first video", lambda: texts(browser, "#evaluation-name") == ["at 100 env steps"])
    wait("its number", lambda: query(browser) == {"speed": ["250"], "video": ["1"]})
    find(browser, "#live-run").click()
    options = ".dash-dropdown-option, .dash-options-list-option"
    wait("the runs", lambda: "long" in texts(browser, options))
    browser.find_elements("css selector", options)[texts(browser, options).index("long")].click()
    shown = {"speed": ["250"], "video": ["1"], "run": ["long"]}
    wait("another run", lambda: query(browser) == shown)
    browser.refresh()
    wait("the same video after a reload", lambda: texts(browser, "#evaluation-name") == ["at 100 env steps"])
    assert find(browser, "#live-speed input[value='250']").is_selected()
    assert "long" in find(browser, "#live-run").text
    assert query(browser) == shown


def test_a_zoom_of_a_runs_page_stands_in_its_address(browser, address, root) -> None:
    from selenium.webdriver import ActionChains

    browser.get(f"{address}run/short")
    wait("curves", lambda: traces(browser, "Return") and traces(browser, "Entropy"))
    whole = x_range(browser, "Return")
    place = browser.find_elements("css selector", ".linked .nsewdrag")[0]
    browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", place)
    across = ActionChains(browser).move_to_element_with_offset(place, -40, 0).click_and_hold()
    across.move_by_offset(40, 0).move_by_offset(40, 0).release().perform()
    wait("the other to follow", lambda: x_range(browser, "Entropy") == x_range(browser, "Return") != whole)
    zoomed = x_range(browser, "Entropy")
    kept = json.loads(query(browser)["zoom"][0])
    assert (kept["axis"], kept["x"]) == ("env_steps", zoomed)
    browser.refresh()
    wait("the same after a reload", lambda: zoomed == x_range(browser, "Return") == x_range(browser, "Entropy"))
    find(browser, "#run-scale input[value=log]").click()
    wait("a logarithmic axis", lambda: "log" in query(browser).get("y", []))
    time.sleep(2.0)  # the clock's drawing
    assert x_range(browser, "Entropy") == zoomed
    ActionChains(browser).move_to_element(browser.find_elements("css selector", ".linked .nsewdrag")[0]).perform()
    browser.execute_script(
        "document.querySelector('.linked .js-plotly-plot').emit('plotly_relayout', "
        "{'yaxis.range[0]': 0, 'yaxis.range[1]': 1})"
    )
    wait("decades by themselves", lambda: list(json.loads(query(browser)["zoom"][0])["y"]) == ["return log"])
    find(browser, "#run-axis input[value=seconds]").click()
    wait("no zoom on another axis", lambda: x_range(browser, "Entropy") != zoomed and "zoom" not in query(browser))
