"""The dashboard in a real headless Chromium, on runs that were really trained."""

from __future__ import annotations

import dataclasses
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from in_chromium import IN_CHROMIUM, bring, find, graphs, names_in_table, texts, tick, traces, wait

from launch.dashboard.options import DashboardOptions
from launch.dashboard.server import open_server
from launch.presets import load_preset
from launch.records.listing import find_entries
from launch.records.metrics_db import MetricsDb
from launch.records.series import UnreadableError, read_latest
from launch.records.tick import Tick
from launch.settings.train_config import EvaluationConfig
from launch.sweeps.population import PbtConfig
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.train import train

pytestmark = IN_CHROMIUM

HOSTILE = "<img src=x onerror=alert(1)>"
COMPARED = "return, last 20 episodes"


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two seeds of CartPole, the second with a hostile name, and a sweep whose members evolve."""
    root = tmp_path_factory.mktemp("runs")
    base = dataclasses.replace(
        load_preset("cartpole"), steps=2500, num_envs=4, runtime="lockstep", quiet=True, stop_at_return=float("inf")
    )
    evaluation = EvaluationConfig(interval=1000, episodes=2, num_envs=2)
    for seed, name in enumerate(["cartpole", HOSTILE]):
        train(
            dataclasses.replace(
                base, seed=seed, run_dir=root / name, evaluation=evaluation, capture_video=name == "cartpole"
            )
        )
    pbt = PbtConfig(interval=500, burn_in=500)
    sweep(
        SweepConfig(
            dataclasses.replace(base, run_dir=root / "sweep"),
            {"algorithm.learning-rate": ["1e-5", "1e-3", "3e-3"]},
            SweepOptions(pbt=True),
            pbt,
        )
    )
    return root


def key(root: Path, name: str) -> str:
    return next(entry.key for entry in find_entries(root).values() if entry.name == name)


def env_steps(run: Path) -> int:
    """Return the env steps of a run's newest numbers."""
    moment = read_latest(run / "metrics.db").moment
    assert moment is not None
    return moment.env_steps


def test_a_slow_library_of_plots_is_loaded_once(chromium, root) -> None:
    with open_server(root, DashboardOptions(port=0)) as (server, address):
        quick = server.app

        def slow(environ: dict[str, Any], start_response: Any) -> Any:
            if "plotly.min.js" in environ["PATH_INFO"]:
                time.sleep(4.0)
            return quick(environ, start_response)

        server.app = slow
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            chromium.get(address)
            wait("a comparison", lambda: len(traces(chromium, COMPARED)) > 0)
            scripts = "return document.querySelectorAll('script[src*=\"plotly.min.js\"]').length"
            assert chromium.execute_script(scripts) == 1
            chromium.get("about:blank")
        finally:
            server.shutdown()
            thread.join()


def test_parts_of_components_are_loaded_early_and_once(browser, address, root) -> None:
    browser.get(address)
    wait("a comparison", lambda: len(traces(browser, COMPARED)) > 0)
    asked = """
      const entries = performance.getEntriesByType("resource").map((each) => [each.name.split("/").pop(),
        each.startTime]);
      const page = entries.find(([name]) => name.startsWith("_dash-layout"))[1];
      return entries.filter(([name]) => name.startsWith("async-")).map(([name, at]) => [name, at < page]);
    """
    parts = ["async-community.js", "async-dropdown.js", "async-graph.js", "async-slider.js"]
    assert sorted(browser.execute_script(asked)) == [[name, True] for name in parts]


def test_the_table_shows_filters_and_compares(browser, address, root) -> None:
    browser.get(f"{address}?opened=sweep")
    wait("six rows", lambda: len(names_in_table(browser)) == 6)
    assert HOSTILE in names_in_table(browser)
    assert browser.execute_script("return document.querySelectorAll('img').length") == 0
    wait("a comparison", lambda: len(traces(browser, COMPARED)) == 5)

    search = find(browser, "#search")
    search.send_keys("onerror")
    wait("one row", lambda: names_in_table(browser) == [HOSTILE])
    search.send_keys("\b" * 7)
    wait("all rows again", lambda: len(names_in_table(browser)) == 6)

    for name in ("cartpole", HOSTILE):
        tick(browser, name)
    wait(
        "two lines",
        lambda: (
            sorted(traces(browser, COMPARED)) == sorted([HOSTILE.replace("<", "&lt;").replace(">", "&gt;"), "cartpole"])
        ),
    )
    assert texts(browser, "#compared") == ["2 of 5 runs drawn"]
    find(browser, "#axis input[value=learner_steps]").click()
    axis = "return document.querySelector('#comparison .js-plotly-plot').layout.xaxis.title.text"
    wait("another axis", lambda: browser.execute_script(axis) == "learner steps")


def test_what_is_filtered_and_ticked_is_what_is_drawn(browser, address) -> None:
    browser.get(address)
    wait("three rows", lambda: len(names_in_table(browser)) == 3)
    tick(browser, "cartpole")
    wait("a choice", lambda: traces(browser, COMPARED) == ["cartpole"])
    search = find(browser, "#search")
    search.send_keys("onerror")
    wait("that it is filtered out", lambda: "1 ticked but filtered out" in texts(browser, "#compared")[0])
    assert texts(browser, "#kept") == ["1 of 6"]
    assert not graphs(browser)
    find(browser, "#table .ag-header-select-all input").click()
    wait("the one that all are", lambda: texts(browser, "#legend span > span + *, #legend > span") == [HOSTILE])
    search.send_keys("\b" * 7)
    wait("all rows", lambda: len(names_in_table(browser)) == 3)
    wait("the two that are ticked", lambda: len(traces(browser, COMPARED)) == 2)
    assert "cartpole" in traces(browser, COMPARED)
    assert texts(browser, "#kept") == [""]


def test_the_table_sorts(browser, address) -> None:
    browser.get(address)
    wait("rows", lambda: len(names_in_table(browser)) == 3)
    find(browser, "#table .ag-header-cell[col-id=return] .ag-header-cell-label").click()

    def returns() -> list[float]:
        rows = browser.find_elements("css selector", "#table .ag-center-cols-container .ag-row")
        rows.sort(key=lambda row: int(row.get_attribute("row-index")))
        cells = [row.find_element("css selector", "[col-id=return]").text for row in rows]
        return [float(cell) for cell in cells if cell]

    wait("the best first", lambda: len(returns()) == 3 and returns() == sorted(returns(), reverse=True))


def test_columns_filter_by_least_numbers_and_by_age_at_most(browser, address) -> None:
    def field(name: str) -> Any:
        return find(browser, f"#table input[aria-label='{name} Filter Input']")

    def env_steps() -> list[str]:
        return texts(browser, "#table .ag-center-cols-container [col-id=env_steps]")

    browser.get(address)
    wait("rows", lambda: len(names_in_table(browser)) == 3)
    sizes = sorted(float(text.replace(",", "").replace(" k", "e3")) for text in env_steps())
    assert sizes[0] < sizes[-1]
    field("env steps").send_keys(str(int(sizes[-1]) - 1))
    wait("the largest", lambda: len(names_in_table(browser)) == sizes.count(sizes[-1]))
    field("env steps").send_keys("\b" * 10)
    wait("all rows again", lambda: len(names_in_table(browser)) == 3)
    field("age").send_keys("0")
    wait("none of the last no time", lambda: not names_in_table(browser))
    field("age").send_keys("\b9")
    wait("those of the last nine hours", lambda: "cartpole" in names_in_table(browser))


def test_a_run_shows_its_panels_and_its_config(browser, address, root) -> None:
    browser.get(f"{address}run?key={key(root, 'cartpole')}")
    wait("the return", lambda: "last 20 episodes" in traces(browser, "Return"))
    for panel in ("Losses", "Entropy", "Trust region: accepted steps", "Policy lag", "Replay fill"):
        assert traces(browser, panel), panel
    assert "fresh" in traces(browser, "Trust region: accepted steps")
    wait("the status", lambda: find(browser, "#status").text.endswith("finished"))
    assert texts(browser, "#tiles .tile strong")[0] == f"{env_steps(root / 'cartpole'):,}"
    assert "algorithm.learning-rate" in find(browser, "details[data-section=config]").text
    assert browser.execute_script("return document.documentElement.scrollWidth") <= 1280


def test_a_hostile_name_is_text_everywhere(browser, address, root) -> None:
    hostile = key(root, HOSTILE)
    for page, css in ((f"run?key={hostile}", "h1"), (f"watch?key={hostile}", "#live-run")):
        browser.get(address + page)
        wait("its name", lambda css=css: HOSTILE in find(browser, css).text)
        assert browser.execute_script("return document.querySelectorAll('img[src=x]').length") == 0


def test_pictures_and_data_are_downloaded(browser, address, root) -> None:
    browser.get(f"{address}run?key={key(root, 'cartpole')}")
    wait("the return", lambda: "last 20 episodes" in traces(browser, "Return"))
    # A name that a spreadsheet would calculate with, and one that would end its cell.
    browser.execute_script(
        "const plot = document.querySelector('.panel .js-plotly-plot');"
        """return Plotly.addTraces(plot, [{name: '=1+1', x: [1], y: [2]}, {name: 'a,"b"', x: [3], y: [4]}])"""
    )
    beginnings = {"png": b"\x89PNG", "svg": b"<svg", "csv": b"series,x,y"}
    for kind, beginning in beginnings.items():
        find(browser, f".panel [data-save={kind}]").click()
        path = browser.downloads / f"laser-return.{kind}"
        wait(f"the {kind}", lambda path=path: path.is_file() and path.stat().st_size > 200)
        assert path.read_bytes().startswith(beginning)
    written = (browser.downloads / "laser-return.csv").read_text().splitlines()
    assert written[-2:] == ['"\'=1+1",1,2', '"a,""b""",3,4']
    assert b"NaN" not in (browser.downloads / "laser-return.svg").read_bytes()
    next(link for link in browser.find_elements("css selector", "a.button") if "CSV" in link.text).click()
    path = browser.downloads / "laser.csv"
    wait("all data", lambda: path.is_file() and path.stat().st_size > 1000)
    assert path.read_text().startswith("run,metric,env_steps")


def test_a_sweep_shows_members_lineage_and_schedules(browser, address, root) -> None:
    browser.get(f"{address}sweep?key={key(root, 'sweep')}")
    wait("three members", lambda: len(traces(browser, "Members")) == 3)
    bring(browser, "population")
    arrows = "return document.querySelector('#lineage .js-plotly-plot').layout.annotations.length"
    wait("who copied whom", lambda: browser.execute_script(arrows) >= 1)
    assert "learning-rate" in traces(browser, "Schedule")
    assert len(texts(browser, "#members .ag-pinned-left-cols-container a")) == 3
    bring(browser, "settings")
    wait("the returns over a setting", lambda: traces(browser, "Setting against return"))
    find(browser, "#members .ag-pinned-left-cols-container a").click()
    wait("the member's page", lambda: "sweep/member " in find(browser, "h1").text)


def test_a_video_plays(browser, address, root) -> None:
    browser.get(f"{address}watch")
    wait("a video", lambda: find(browser, "#videos video"))
    browser.execute_script("document.querySelector('#videos video').play()")
    playing = "const v = document.querySelector('#videos video'); return v.currentTime > 0 && v.videoWidth > 0"
    wait("it to play", lambda: browser.execute_script(playing))


def test_the_videos_of_all_evaluations_are_on_a_slider(browser, address, root) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(f"{address}watch/cartpole")
    at = sorted(int(path.stem.rpartition("-")[2]) for path in (root / "cartpole" / "videos").iterdir())
    assert len(at) >= 2
    assert at[-1] == env_steps(root / "cartpole") >= 2500
    shown = "return document.querySelector('#evaluation-video').src"
    last = wait("the last video", lambda: browser.execute_script(shown))
    assert texts(browser, "#evaluation-name") == [f"at {at[-1]:,} env steps"]
    find(browser, "#evaluation-number .dash-slider-thumb").send_keys(Keys.HOME)
    wait("the first", lambda: texts(browser, "#evaluation-name") == [f"at {at[0]:,} env steps"])
    assert browser.execute_script(shown) != last


def test_the_agent_plays_thirty_steps_a_second(browser, address, root) -> None:
    browser.get(f"{address}watch?key={key(root, 'cartpole')}")
    wait("the speeds", lambda: browser.find_elements("css selector", "#live-speed input"))[0].click()
    browser.execute_script("""
      window.pictures = new Set();
      new MutationObserver((changes) => changes.forEach((each) => window.pictures.add(each.target.src)))
        .observe(document.querySelector('#live-picture'), { attributeFilter: ["src"] });
    """)
    find(browser, "#live-play").click()
    moment = "return document.querySelector('#live-picture').alt"
    first = wait("steps", lambda: browser.execute_script(moment), 60.0)
    wait("further steps", lambda: browser.execute_script(moment) != first)
    wait("a picture of each", lambda: browser.execute_script("return window.pictures.size") > 15)
    assert sorted(texts(browser, "#live-actions .ytick text")) == ["push left", "push right"]
    assert traces(browser, "Value estimate and reward") == ["value estimate", "reward, as learned"]
    find(browser, "#live-stop").click()
    wait("the end", lambda: find(browser, "#live-said").text == "stopped")


def test_the_agent_plays_live_step_by_step(browser, address, root) -> None:
    browser.get(f"{address}watch?key={key(root, 'cartpole')}")
    wait("the button", lambda: find(browser, "#live-play")).click()
    picture = "return document.querySelector('#live-picture').src"
    first = wait("a picture", lambda: browser.execute_script(picture), 60.0)
    assert first.startswith("data:image/png;base64,")
    wait("another picture", lambda: browser.execute_script(picture) != first)
    wait("probabilities", lambda: traces(browser, "Action probabilities, or mean and std"))
    assert "value estimate" in find(browser, "#live-tiles").text
    assert "learned as 0.05" in find(browser, "#live-tiles").text, "the preset scales a reward of 1"
    heights = """
      const plot = document.querySelector('#live-values .js-plotly-plot');
      return plot._fullData.map((each) => each.y.at(-1));
    """
    value, reward = wait("two curves", lambda: found if len(found := browser.execute_script(heights)) == 2 else None)
    assert reward == pytest.approx(0.05)
    assert 0.0 < abs(value) < 20.0, "in the same units"
    find(browser, "#live-pause").click()
    time.sleep(0.5)
    # Not the picture: one step of CartPole can move nothing by a whole pixel.
    moment = "return document.querySelector('#live-picture').alt"
    paused = browser.execute_script(moment)
    find(browser, "#live-step").click()
    wait("one more step", lambda: browser.execute_script(moment) != paused)
    find(browser, "#live-stop").click()
    wait("the end", lambda: find(browser, "#live-said").text == "stopped")


def test_an_atari_game_is_watched_in_colour_at_its_own_size(browser, serve, tmp_path) -> None:
    config = load_preset("pong", {"steps": "64", "num-envs": "2", "network.features": "16", "quiet": True})
    train(dataclasses.replace(config, runtime="lockstep", run_dir=tmp_path / "runs" / "pong"))
    shown = """
      const picture = document.querySelector('#live-picture'), canvas = document.createElement('canvas');
      [canvas.width, canvas.height] = [picture.naturalWidth, picture.naturalHeight];
      if (!canvas.width) return null;
      const pen = canvas.getContext('2d');
      pen.drawImage(picture, 0, 0);
      const points = pen.getImageData(0, 0, canvas.width, canvas.height).data;
      let coloured = 0;
      for (let i = 0; i < points.length; i += 4) if (points[i] !== points[i + 1]) coloured += 1;
      return [canvas.width, canvas.height, coloured / (points.length / 4) > 0.5];
    """
    with serve(tmp_path / "runs") as own:
        browser.get(f"{own}watch/pong")
        wait("the button", lambda: find(browser, "#live-step")).click()
        wait("a coloured picture", lambda: browser.execute_script(shown) == [160, 210, True], 90.0)
        names = ["noop", "fire", "right", "left", "rightfire", "leftfire"]
        wait("actions", lambda: sorted(texts(browser, "#live-actions .ytick text")) == sorted(names))


def test_an_agent_without_a_value_of_a_state_says_so_and_the_run_that_was_asked_for_plays(browser, serve, tmp_path):
    for name, preset in (("a", "cartpole"), ("b", "sac_pendulum")):
        config = load_preset(preset, {"steps": "64", "num-envs": "2", "quiet": True})
        train(dataclasses.replace(config, runtime="lockstep", run_dir=tmp_path / "runs" / name))
    with serve(tmp_path / "runs") as own:
        browser.get(f"{own}watch/b")
        wait("the button", lambda: find(browser, "#live-step")).click()
        said = wait("words", lambda: text if "env steps" in (text := find(browser, "#live-said").text) else "", 90.0)
        assert said.startswith("b: Pendulum-v1, checkpoint of 64 env steps")
        wait("curves", lambda: traces(browser, "Value estimate and reward") == ["reward, as learned"])
        tiles = find(browser, "#live-tiles").text.splitlines()
        assert tiles[tiles.index("none") + 1] == "the algorithm has none for a state alone"


def test_it_works_with_the_keyboard_and_remembers_the_theme(browser, address) -> None:
    from selenium.webdriver.common.keys import Keys

    browser.get(address)
    wait("rows", lambda: len(names_in_table(browser)) == 3)
    theme = "return document.documentElement.dataset.theme"
    before = browser.execute_script(theme)
    reached = []
    for _ in range(12):
        browser.switch_to.active_element.send_keys(Keys.TAB)
        active = browser.switch_to.active_element
        reached.append(active.get_attribute("id") or active.text)
        if active.get_attribute("id") == "theme-button":
            active.send_keys(Keys.ENTER)
            break
    assert {"Runs", "Watch", "theme-button"} <= set(reached)
    wait("the other theme", lambda: browser.execute_script(theme) != before)
    browser.refresh()
    wait("the same after a reload", lambda: browser.execute_script(theme) not in (None, before))
    background = "return document.querySelector('#comparison .js-plotly-plot').layout.paper_bgcolor"
    wait("figures in it", lambda: browser.execute_script(background) == "#161b22")
    find(browser, "#theme-button").click()
    wait("the first theme", lambda: browser.execute_script(theme) == before)


def test_a_run_is_live_within_two_seconds(browser, address, root, tmp_path) -> None:
    run = root / "live"
    shutil.copytree(root / "cartpole", run, ignore=shutil.ignore_patterns("checkpoints", "events*", "videos"))
    try:
        browser.get(f"{address}run?key={key(root, 'live')}")
        wait("its numbers", lambda: "env steps" in "".join(texts(browser, "#tiles")))
        delays = []
        with MetricsDb(run / "metrics.db") as metrics:
            for place in range(5):
                metrics.write(Tick(900.0 + place, time.time(), 10_000 + place, 4, 5), {"loss": float(place)})
                written = time.monotonic()
                shown = f"10,00{place}"
                wait("the newest number", lambda shown=shown: shown in "".join(texts(browser, "#tiles")))
                delays.append(time.monotonic() - written)
        assert statistics.median(delays) < 2.0, delays
    finally:
        shutil.rmtree(run)


def test_a_page_follows_a_training_run_and_its_end_changes_nothing(browser, address, root) -> None:
    run = root / "training"
    command = [sys.executable, "-m", "launch", "train", "cartpole", "--steps", "100000000", "--stop-at-return", "inf"]
    with subprocess.Popen([*command, "--run-dir", str(run), "--quiet"]) as process:
        try:
            wait("its first numbers", lambda: _has_numbers(run), 120.0)
            browser.get(f"{address}run?key={key(root, 'training')}")
            wait("that it is running", lambda: find(browser, "#status").text.endswith("running"))
            seen: set[str] = set()
            wait("four updates", lambda: seen.add(texts(browser, "#tiles .tile strong")[0]) or len(seen) >= 4)
            browser.get(address)
            wait("it in the table", lambda: "training" in names_in_table(browser))
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(timeout=60) == 143
    browser.get(f"{address}run?key={key(root, 'training')}")
    wait("that it has stopped", lambda: find(browser, "#status").text.endswith("stopped"))
    wait(
        "by what", lambda: "the run was stopped by SIGTERM; saved: a checkpoint of " in find(browser, "#findings").text
    )


def _has_numbers(run: Path) -> bool:
    try:
        return read_latest(run / "metrics.db").moment is not None
    except UnreadableError:  # its tables are just being made
        return False


def test_slow_drawing_makes_a_page_draw_less_often_but_not_tell_less(browser, address, root) -> None:
    browser.get(f"{address}run?key={key(root, 'cartpole')}")
    wait("the return", lambda: "last 20 episodes" in traces(browser, "Return"))
    browser.execute_script("""
      window.asked = { "run-clock": 0, "run-words-clock": 0 };
      const before = window.fetch;
      window.fetch = function (address, options) {
        const clock = /"changedPropIds":\\["([a-z-]+)\\.data"\\]/.exec(String(options && options.body));
        if (clock) window.asked[clock[1]] += 1;
        return before(address, options);
      };
      setInterval(() => { const until = Date.now() + 150; while (Date.now() < until); }, 1000);
    """)
    wait("words asked for", lambda: browser.execute_script("return window.asked['run-words-clock'] >= 8"))
    assert browser.execute_script("return window.asked['run-clock']") <= 4
    wait("drawing asked for", lambda: browser.execute_script("return window.asked['run-clock'] >= 1"))


def test_a_page_that_nobody_looks_at_asks_for_nothing(browser, address, root) -> None:
    browser.get(f"{address}run?key={key(root, 'cartpole')}")
    wait("the return", lambda: "last 20 episodes" in traces(browser, "Return"))
    browser.execute_script("""
      window.asked = { seen: 0, hidden: 0 };
      window.hiddenMs = 0;
      let since = 0;
      document.addEventListener("visibilitychange", function () {
        if (document.hidden) since = Date.now(); else window.hiddenMs += Date.now() - since;
      });
      const before = window.fetch;
      window.fetch = function (address, options) {
        window.asked[document.hidden ? "hidden" : "seen"] += 1;
        return before(address, options);
      };
    """)
    wait("asking", lambda: browser.execute_script("return window.asked.seen >= 2"))
    first = browser.current_window_handle
    browser.switch_to.new_window("tab")
    time.sleep(4.0)
    browser.close()
    browser.switch_to.window(first)
    wait("being looked at again", lambda: browser.execute_script("return window.hiddenMs") > 3_000)
    asked = browser.execute_script("return window.asked")
    assert asked["hidden"] == 0
    wait("asking again", lambda: browser.execute_script("return window.asked.seen") > asked["seen"])


def test_a_directory_without_runs_says_so(browser, address, tmp_path) -> None:
    with open_server(tmp_path, DashboardOptions(port=0)) as (server, own):
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            browser.get(own)
            wait("that there are none", lambda: "no runs in" in find(browser, "#where").text)
            time.sleep(1.0)
        finally:
            browser.get("about:blank")
            server.shutdown()
            thread.join()
    browser.get_log("performance")  # what this other server was asked is not for the fixture to judge
    browser.get(address)
    wait("the other page", lambda: len(names_in_table(browser)) >= 3)
