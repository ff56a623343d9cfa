"""The times of the dashboard's pages, each from a cold start: a new dashboard, a new page, no file in memory.

1. The first page of 200 runs with 100,000 points each, until its table and its comparison are drawn. Target: 2 s.
2. The comparison of 20 of them with 4 metrics, from the choice until all curves are drawn. Target: 3 s.
3. The page of a sweep of 256 members with one replay, until its table, curves, best setting and best member are drawn.
   Target: 3 s.
4. The map of who learns from whom on the same page, from the moment at which it is scrolled to. Each member has learned
   from 16 others.

It is an error if a page writes into the browser's console or sends a request to another host.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode, urlsplit

import chromium
import measure

from launch.records.listing import key_of_path
from launch.records.metrics_db import MetricsDb
from launch.records.tick import Tick

_METRICS = ("charts/mean_return", "entropy", "value_loss", "charts/SPS")
_NUM_OTHERS, _POINTS_OF_OTHERS = 40, 100
_MAKERS, _POINTS_OF_EXCHANGE = 16, 100
_TARGETS_S = {"first_page_s": 2.0, "comparison_s": 3.0, "sweep_s": 3.0}


def page_times(options: Any) -> tuple[list[dict[str, float]], list[str]]:
    """Measure each page `options.repeats` times, and listen to each once more; return the times and conclusions."""
    with tempfile.TemporaryDirectory() as place:
        root = options.keep or Path(place)
        if not (root / "sweep").exists():
            make_runs(root / "runs", options.runs, options.points)
            make_sweep(root / "sweep", root / "runs" / "run-000", options.members, options.points)
        for summary in root.rglob("summary.json") if options.without_summaries else ():
            summary.unlink()
        results = [times_of_pages(root, options.compared) for _ in range(options.repeats)]
        listen(root)
    what = {
        "first_page_s": f"first page of {options.runs} runs with {options.points:,} points each",
        "comparison_s": f"comparison of {options.compared} of them with {len(_METRICS)} metrics",
        "sweep_s": f"page of a sweep of {options.members} members with {options.points:,} points each",
    }
    conclusions = [
        f"{words}: {measure.summarise(results, name, 's')}; target {_TARGETS_S[name]:g} s"
        for name, words in what.items()
    ]
    return results, [*conclusions, f"its map of who learns from whom: {measure.summarise(results, 'map_s', 's')}"]


def times_of_pages(root: Path, num_compared: int) -> dict[str, float]:
    """Measure each page once, in seconds."""
    found: dict[str, Any] = {}
    with chromium.browser() as driver:
        forget_files(root)
        with chromium.dashboard(root / "runs") as address:
            found["table_s"], found["first_page_s"] = timed(
                driver,
                address,
                lambda: bool(driver.find_elements("css selector", "#table .ag-row a")),
                lambda: chromium.num_lines(driver, "#comparison") > 0,
            )
        forget_files(root)
        with chromium.dashboard(root / "runs") as address:
            driver.get(f"{address}?{urlencode({'metric': _METRICS}, doseq=True)}")
            chromium.wait("the first curves", lambda: lines_of_all(driver, "#comparison") > 0)
            begun = time.perf_counter()
            choose = """
              const api = window.dash_ag_grid.getApi('table'), chosen = [];
              api.forEachNode((node) => { if (chosen.length < arguments[0]) chosen.push(node); });
              api.setNodesSelected({ nodes: chosen, newValue: true });
            """
            driver.execute_script(choose, num_compared)
            wanted = len(_METRICS) * num_compared
            chromium.wait("the curves", lambda: lines_of_all(driver, "#comparison") == wanted)
            found["comparison_s"] = time.perf_counter() - begun
        forget_files(root)
        with chromium.dashboard(root / "sweep") as address:
            *found["sweep_parts_s"], found["sweep_s"] = timed(
                driver,
                f"{address}sweep?key={key_of_path(root / 'sweep')}",
                lambda: bool(driver.find_elements("css selector", "#members .ag-row a")),
                lambda: lines_of_all(driver, "#sweep-curves") > 0,
                lambda: lines_of_all(driver, "#incumbent") > 0,
                lambda: lines_of_all(driver, "#sweep-best") > 0,
            )
            begun = time.perf_counter()
            chromium.bring(driver, "exchange")
            chromium.wait("the map", lambda: lines_of_all(driver, "#exchange") > 0)
            found["map_s"] = time.perf_counter() - begun
    print(found, flush=True)
    return found


def timed(driver: Any, address: str, *drawn: Callable[[], bool]) -> list[float]:
    """Return the seconds from the request of a page until each of its parts is drawn, and those before it."""
    begun = time.perf_counter()
    driver.get(address)
    times = []
    for is_drawn in drawn:
        chromium.wait("a part of the page", is_drawn)
        times.append(time.perf_counter() - begun)
    return times


def lines_of_all(driver: Any, place: str) -> int:
    """Return the number of lines that the figures at a place of the page show together."""
    script = """
      const plots = Array.from(document.querySelectorAll(arguments[0] + ' .js-plotly-plot'));
      return plots.reduce((sum, plot) => sum + (plot._fullData || []).filter((trace) => trace.visible).length, 0);
    """
    return int(driver.execute_script(script, place))


def forget_files(root: Path) -> None:
    """Let the system forget the contents of the runs' files, as after a start of the machine."""
    for path in root.rglob("*"):
        if path.is_file():
            file = os.open(path, os.O_RDONLY)
            try:
                os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(file)


def listen(root: Path) -> None:
    """Raise an error if a page writes into the browser's console or sends a request to another host."""
    pages = {"runs": ("", "#comparison"), "sweep": (f"sweep?key={key_of_path(root / 'sweep')}", "#sweep-curves")}
    with chromium.browser(listens=True) as driver:
        for name, (page, figure) in pages.items():
            with chromium.dashboard(root / name) as address:
                driver.get(address + page)
                chromium.wait("the curves", partial(lines_of_all, driver, figure))
                driver.get("about:blank")  # before the dashboard ends
        words = [entry["message"] for entry in driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        if words:
            raise measure.BenchmarkError(f"the browser's console: {words[:3]}")
        for entry in driver.get_log("performance"):
            message = json.loads(entry["message"])["message"]
            url = urlsplit(message.get("params", {}).get("request", {}).get("url", ""))
            if url.scheme in ("http", "https") and url.hostname != "127.0.0.1":
                raise measure.BenchmarkError(f"a page sent a request to {url.hostname}")


def make_runs(root: Path, num_runs: int, num_points: int) -> None:
    """Write runs as training leaves them: four curves of all points, and many shorter ones."""
    first = root / "run-000"
    first.mkdir(parents=True)
    begun = time.time() - num_points
    MetricsDb(first / "metrics.db").close()
    with closing(sqlite3.connect(first / "metrics.db")) as connection, connection:
        rows = ((n, float(n), begun + n, 100 * n, 100 * n, 10 * n) for n in range(num_points))
        connection.executemany("INSERT INTO ticks VALUES (?, ?, ?, ?, ?, ?)", rows)
        for number, name in enumerate(_METRICS):
            connection.execute("INSERT INTO names VALUES (?, ?)", (number, name))
            curve = ((number, n, 500.0 * n / num_points + n * 7919 % 31) for n in range(num_points))
            connection.executemany("INSERT INTO points VALUES (?, ?, ?)", curve)
        step = max(1, num_points // _POINTS_OF_OTHERS)
        others = [f"metric_{number}" for number in range(_NUM_OTHERS)]
        others += ["totals/episodes", "buckets/mean_return", "buckets/ends_at"]
        for number, name in enumerate(others, len(_METRICS)):
            connection.execute("INSERT INTO names VALUES (?, ?)", (number, name))
            scale = 100.0 if name == "buckets/ends_at" else 1.0
            points = ((number, n, scale * float(n)) for n in range(0, num_points, step))
            connection.executemany("INSERT INTO points VALUES (?, ?, ?)", points)
    MetricsDb(first / "metrics.db").close()
    for number in range(num_runs):
        path = root / f"run-{number:03d}"
        if number:
            shutil.copytree(first, path)
        write_record(path, {"config": config_of(number, num_points)})


def make_sweep(root: Path, run: Path, num_members: int, num_points: int) -> None:
    """Write a sweep with one replay whose members have the numbers of a run, and what they learned from each other."""
    rates = [0.001 * (1 + number) for number in range(num_members // 4)]
    root.mkdir()
    grid = {"algorithm.learning-rate": rates}
    sweep = {"grid": grid, "pbt": None, "options": {"share_replay": True, "concurrent": 4}}
    write_record(root, {"config": config_of(0, 1000), "sweep": sweep})
    for number in range(num_members):
        path = root / "members" / str(number)
        shutil.copytree(run, path)
        (path / "metrics.summary.json").unlink()
        with MetricsDb(path / "metrics.db") as metrics:
            for moment in range(_POINTS_OF_EXCHANGE):
                # Steps go on from those of the run, and the seeds of a setting end at different ones.
                steps = 100 * (num_points + moment * (1 + number % 4))
                tick = Tick(float(num_points + moment), time.time(), steps, steps, steps // 10)
                metrics.write(tick, {}, drawn=exchange_of(number, num_members, moment + 1.0))
        overrides = {"algorithm.learning-rate": rates[number // 4], "seed": number % 4}
        member = {"index": number, "overrides": overrides}
        write_record(path, {"config": config_of(number % 4, 1000), "member": member})


def exchange_of(reader: int, num_members: int, factor: float) -> dict[int, dict[str, float]]:
    """Return the counts of a member that has learned from the 16 others after it."""
    makers = [(reader + place) % num_members for place in range(_MAKERS)]
    counts = {"steps": 100.0, "accepted": 60.0, "abs_log_rho": 50.0, "kl": 5.0, "lag": 300.0}
    return {maker: {name: factor * value for name, value in counts.items()} for maker in makers}


def config_of(seed: int, num_points: int) -> dict[str, Any]:
    """Return a config as runs record it."""
    return {"preset": "cartpole", "env": "CartPole-v1", "steps": 100 * num_points, "seed": seed}


def write_record(path: Path, parts: dict[str, Any]) -> None:
    """Write the record and the log of a run that has ended."""
    record = {"schema_version": 1, "created": "2026-01-01T00:00:00", "command": "laser train", **parts}
    (path / "config.json").write_text(json.dumps(record), encoding="utf-8")
    (path / "log.txt").write_text("2026-01-01 00:00:00 finished: steps\n", encoding="utf-8")
