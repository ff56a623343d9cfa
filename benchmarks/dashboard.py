"""Is the dashboard quick, and does it leave training alone?

1. Many runs with 100,000 points each: from asking for the first page until its table and its comparison are drawn, and
   from choosing 20 runs until their curves are; in a Chromium on this machine, each time with a new dashboard. To
   reach: 2 s and 3 s, on 2 cores.
2. One run trains on; between times in which nobody looks at it, ten clients ask for what ten pages of it that are seen
   ask for, a Chromium on this machine has ten pages open in tabs, and in windows. In tabs one page is seen, in windows
   all ten are drawn, by the same two cores. To reach: less than 3 % of env steps/s.
"""

from __future__ import annotations

import json
import shutil
import signal
import sqlite3
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromium
import measure

from launch.dashboard.listing import key_of_path
from launch.dashboard.pages.parts import CLOCK_MS
from launch.recording.metrics_db import MetricsDb

_NUM_NAMES, _POINTS_OF_OTHERS = 40, 100
_NOBODY = "nobody"
_SIDES = {
    "clients": "clients ask what pages ask that are seen",
    "tabs": "pages open in tabs of a Chromium on this machine",
    "windows": "pages open in windows of a Chromium on this machine, all drawn",
}
_SETTLE_S = 10.0  # opening ten pages costs a browser seconds, and is over before a window begins
_CLOCKS = ('"run-clock.data"', '"run-words-clock.data"')


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--runs", type=int, default=100, help="how many runs there are")
    parser.add_argument("--points", type=int, default=100_000, help="points of each")
    parser.add_argument("--compared", type=int, default=20, help="runs in the comparison")
    parser.add_argument("--repeats", type=int, default=5, help="of page times, and windows of each kind while training")
    parser.add_argument("--pages", type=int, default=10, help="pages that are open")
    parser.add_argument("--window", type=float, default=30.0, help="seconds that they are open at a time")
    parser.add_argument("--sides", nargs="+", choices=_SIDES, default=list(_SIDES), help="who looks while it trains")
    parser.add_argument("--preset", default="cartpole", help="what trains")
    parser.add_argument("--only", choices=["times", "training"], help="one part alone")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.points, options.compared = 12, 10_000, 5
        options.repeats, options.window, options.pages = 1, 6.0, 3
    results: dict[str, Any] = {}
    conclusions: list[str] = []
    if options.only != "training":
        results["times"], said = page_times(options)
        conclusions += said
    if options.only != "times":
        results["training"], said = while_training(options)
        conclusions += said
    measure.save("dashboard", vars(options), results, conclusions)


def page_times(options: Any) -> tuple[list[dict[str, float]], list[str]]:
    """Measure the first page and a comparison, each repeat with a new dashboard that has nothing in memory."""
    results = []
    with tempfile.TemporaryDirectory() as place, chromium.browser() as driver:
        root = Path(place) / "runs"
        make_runs(root, options.runs, options.points)
        driver.get("about:blank")
        for repeat in range(options.repeats):
            with chromium.dashboard(root) as address:
                begun = time.perf_counter()
                driver.get(address)
                chromium.wait("the table", lambda: driver.find_elements("css selector", "#table .ag-row a"))
                table_s = time.perf_counter() - begun
                chromium.wait("the comparison", lambda: chromium.num_lines(driver, "#comparison") > 0)
                first_s = time.perf_counter() - begun
                begun = time.perf_counter()
                choose = """
                  const api = window.dash_ag_grid.getApi('table'), chosen = [];
                  api.forEachNode((node) => { if (chosen.length < arguments[0]) chosen.push(node); });
                  api.setNodesSelected({ nodes: chosen, newValue: true });
                """
                driver.execute_script(choose, options.compared)
                chromium.wait("the curves", lambda: chromium.num_lines(driver, "#comparison") == options.compared)
                compared_s = time.perf_counter() - begun
            results.append({"table_s": table_s, "first_page_s": first_s, "comparison_s": compared_s})
            print(f"[{repeat + 1}/{options.repeats}] {results[-1]}", flush=True)
    size = f"{options.runs} runs with {options.points:,} points each"
    return results, [
        f"first page of {size}: {measure.summarise(results, 'first_page_s', 's')}",
        f"  its table alone: {measure.summarise(results, 'table_s', 's')}",
        f"comparison of {options.compared} of them: {measure.summarise(results, 'comparison_s', 's')}",
    ]


def make_runs(root: Path, num_runs: int, num_points: int) -> None:
    """Write runs as training leaves them: one curve of all points, and many shorter ones."""
    first = root / "run-000"
    first.mkdir(parents=True)
    begun = time.time() - num_points
    MetricsDb(first / "metrics.db").close()
    with closing(sqlite3.connect(first / "metrics.db")) as connection, connection:
        rows = ((n, float(n), begun + n, 100 * n, 100 * n, 10 * n) for n in range(num_points))
        connection.executemany("INSERT INTO ticks VALUES (?, ?, ?, ?, ?, ?)", rows)
        connection.execute("INSERT INTO names VALUES (0, 'charts/mean_return')")
        curve = ((0, n, 500.0 * n / num_points + n * 7919 % 31) for n in range(num_points))
        connection.executemany("INSERT INTO points VALUES (?, ?, ?)", curve)
        for number in range(1, _NUM_NAMES + 1):
            connection.execute("INSERT INTO names VALUES (?, ?)", (number, f"metric_{number}"))
            step = max(1, num_points // _POINTS_OF_OTHERS)
            points = ((number, n, float(n % 13)) for n in range(0, num_points, step))
            connection.executemany("INSERT INTO points VALUES (?, ?, ?)", points)
    for number in range(num_runs):
        path = root / f"run-{number:03d}"
        if number:
            shutil.copytree(first, path)
        config = {"preset": "cartpole", "env": "CartPole-v1", "steps": 100 * num_points, "seed": number}
        record = {"schema_version": 1, "created": "2026-01-01T00:00:00", "command": "laser train", "config": config}
        (path / "config.json").write_text(json.dumps(record), encoding="utf-8")
        (path / "log.txt").write_text("2026-01-01 00:00:00 finished: steps\n", encoding="utf-8")


def while_training(options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure one run's rate by turns: each of the sides that look between two windows in which nobody does."""
    results: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "runs" / "run"
        run.parent.mkdir()
        command = [*measure.LASER, "train", options.preset, "--steps", "1000000000", "--stop-at-return", "inf"]
        process = subprocess.Popen([*command, "--quiet", "--run-dir", str(run)], cwd=measure.ROOT)
        try:
            chromium.wait("the run to begin", lambda: (run / "metrics.db").is_file(), 300.0)
            time.sleep(options.window / 2)  # queues fill, everything is imported
            bodies = asked_by_a_page(run)
            turns = [turn for side in options.sides for turn in (_NOBODY, side)] * options.repeats + [_NOBODY]
            for number, side in enumerate(turns, start=1):
                with looking(side, run, bodies, options.pages):
                    if side != _NOBODY:
                        time.sleep(_SETTLE_S)
                    begun = time.time()
                    time.sleep(options.window)
                    ended = time.time()
                rate = rate_between(measure.read_ticks(run), begun, ended)
                results.append({"side": side, "env_steps_per_second": rate})
                print(f"[{number}/{len(turns)}] {side}: {rate:,.0f} env steps/s", flush=True)
                time.sleep(options.window / 10)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120.0)
    rates = [item["env_steps_per_second"] for item in results]
    conclusions = [f"nobody looks: {measure.Summary(tuple(rates[::2]), 'env steps/s')}"]
    for side in options.sides:
        places = [place for place, turn in enumerate(turns) if turn == side]
        # Neighbours in time are compared, so that a drift of the rate does not count.
        changes = [100 * (rates[place] / statistics.mean((rates[place - 1], rates[place + 1])) - 1) for place in places]
        summary = measure.Summary(tuple(rates[place] for place in places), "env steps/s")
        change = measure.Summary(tuple(changes), "%")
        conclusions.append(
            f"{options.pages} {_SIDES[side]}: {summary}; change against the windows before and after: {change}"
        )
    return results, conclusions


def asked_by_a_page(run: Path) -> list[bytes]:
    """Return what an open page of a run asks again and again."""
    found: dict[str, bytes] = {}
    with chromium.dashboard(run.parent) as address, chromium.browser() as driver:
        driver.get(f"{address}run?key={key_of_path(run)}")

        def listen() -> bool:
            for entry in driver.get_log("performance"):
                message = json.loads(entry["message"])["message"]
                body = message.get("params", {}).get("request", {}).get("postData", "")
                for clock in _CLOCKS:
                    if f'"changedPropIds":[{clock}]' in body:
                        found[clock] = body.encode()
            return len(found) == len(_CLOCKS)

        chromium.wait("what the page asks", listen)
    return list(found.values())


@contextmanager
def looking(side: str, run: Path, bodies: Sequence[bytes], num_pages: int) -> Iterator[None]:
    """Let one side of `_SIDES`, or nobody, look at a run while the block lasts."""
    if side == _NOBODY:
        yield
    elif side == "clients":
        with chromium.dashboard(run.parent) as address:
            stop = threading.Event()
            threads = [
                threading.Thread(target=_ask_until, args=(stop, address, bodies, number / num_pages))
                for number in range(num_pages)
            ]
            for thread in threads:
                thread.start()
            try:
                yield
            finally:
                stop.set()
                for thread in threads:
                    thread.join()
    else:
        with chromium.dashboard(run.parent) as address, chromium.browser() as driver:
            for number in range(num_pages):
                if number:
                    driver.switch_to.new_window(side.removesuffix("s"))
                driver.get(f"{address}run?key={key_of_path(run)}")
                chromium.wait("its panels", lambda: driver.find_elements("css selector", "#tiles .tile"))
            yield


def _ask_until(stop: threading.Event, address: str, bodies: Sequence[bytes], delay_s: float) -> None:
    url = f"{address}_dash-update-component"
    headers = {"Content-Type": "application/json", "Host": urlsplit(address).netloc}
    stop.wait(delay_s)
    while not stop.is_set():
        for body in bodies:
            with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=60.0) as answer:
                answer.read()
        stop.wait(CLOCK_MS / 1000)


def rate_between(ticks: Sequence[tuple[float, int]], begin: float, end: float) -> float:
    """Return env steps/s between two moments of unix time."""
    inside = [tick for tick in ticks if begin <= tick[0] <= end]
    if len(inside) < 2:
        raise measure.BenchmarkError("the run recorded nothing in this window; use a longer --window")
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


if __name__ == "__main__":
    main()
