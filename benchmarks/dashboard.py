"""The dashboard's speed, and its cost to a run that trains.

1. Page times in a Chromium on this machine, each a median of cold starts (see `dashboard_pages`): the first page of 200
   runs with 100,000 points each (target: 2 s), the comparison of 20 of them with 4 metrics (3 s), and the page of a
   sweep of 256 members (3 s), on 2 cores. Without `--without-summaries` the runs have what the recorder writes today.
2. The rate of one run in training, with one of three loads: ten clients that send the requests of ten visible pages; a
   Chromium on this machine with ten pages in tabs; the same with ten windows. With tabs one page is visible, with
   windows all ten are drawn, by the same two cores. Every few seconds a signal stops or resumes dashboard and Chromium.
   Their cost is the difference between neighbouring windows of time, averaged over many, since the rate of a run drifts
   by more than the effect. Target: less than 3 % of env steps/s.
"""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import chromium
import dashboard_pages
import measure
import psutil
from rich.progress import track

from laser.scoring.statistics import mean_interval
from launch.dashboard.pages.parts import CLOCK_MS
from launch.records.listing import key_of_path

_SIDES = {
    "clients": "clients ask what pages ask that are seen",
    "tabs": "pages open in tabs of a Chromium on this machine",
    "windows": "pages open in windows of a Chromium on this machine, all drawn",
}
_SETTLE_S = 15.0  # a browser needs seconds to open ten pages, which must end before the first window begins
_CATCH_UP_S = 1.5  # the work of pages and clients right after they resume does not count as their cost
_CLOCKS = ('"run-clock.data"', '"run-words-clock.data"')


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("--runs", type=int, default=200, help="number of runs")
    parser.add_argument("--points", type=int, default=100_000, help="points of each run and of each member")
    parser.add_argument("--compared", type=int, default=20, help="runs in the comparison")
    parser.add_argument("--members", type=int, default=256, help="members of the sweep")
    parser.add_argument("--repeats", type=int, default=3, help="repeats of page times")
    parser.add_argument("--keep", type=Path, help="directory that keeps the runs of page times for later calls")
    parser.add_argument("--without-summaries", action="store_true", help="take the runs' summaries away first")
    parser.add_argument("--rounds", type=int, default=40, help="windows of each load while a run trains")
    parser.add_argument("--pages", type=int, default=10, help="open pages")
    parser.add_argument("--window", type=float, default=6.0, help="seconds per window, with the load or stopped")
    parser.add_argument("--sides", nargs="+", choices=_SIDES, default=list(_SIDES), help="loads while a run trains")
    parser.add_argument("--preset", default="cartpole", help="preset of the run that trains")
    parser.add_argument("--only", choices=["times", "training"], help="run only this part")
    options = parser.parse_args()
    if options.quick:
        options.runs, options.points, options.compared, options.members = 12, 10_000, 5, 16
        options.repeats, options.rounds, options.pages = 1, 2, 3
    results: dict[str, Any] = {}
    conclusions: list[str] = []
    if options.only != "training":
        results["times"], said = dashboard_pages.page_times(options)
        conclusions += said
    if options.only != "times":
        results["training"], said = while_training(options)
        conclusions += said
    measure.save("dashboard", vars(options), results, conclusions)


def while_training(options: Any) -> tuple[list[dict[str, Any]], list[str]]:
    """Measure one run's rate in alternating windows, with the load of a side and with the load stopped."""
    results: list[dict[str, Any]] = []
    conclusions: list[str] = []
    with tempfile.TemporaryDirectory() as place:
        run = Path(place) / "runs" / "run"
        run.parent.mkdir()
        command = [*measure.LASER, "train", options.preset, "--steps", "1000000000", "--stop-at-return", "inf"]
        process = subprocess.Popen([*command, "--quiet", "--run-dir", str(run)], cwd=measure.ROOT)
        try:
            chromium.wait("the run to begin", lambda: (run / "metrics.db").is_file(), 300.0)
            time.sleep(_SETTLE_S)  # queues fill, everything is imported
            bodies = asked_by_a_page(run)
            for side in options.sides:
                spans = look_by_turns(side, run, bodies, process, options)
                ticks = measure.read_ticks(run)
                rates = [rate_between(ticks, *span) for span in spans]
                results.append({"side": side, "stopped": rates[::2], "looks": rates[1::2]})
                conclusions += said_of(side, rates, options.pages)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(timeout=120.0)
    return results, conclusions


def look_by_turns(
    side: str, run: Path, bodies: Sequence[bytes], training: subprocess.Popen[bytes], options: Any
) -> list[tuple[float, float]]:
    """Return start and end (unix time) of alternating windows: stopped, active, ..., stopped."""
    spans = []
    with looking(side, run, bodies, options.pages):
        time.sleep(_SETTLE_S)
        trained = {training.pid, *(child.pid for child in psutil.Process(training.pid).children(recursive=True))}
        children = psutil.Process().children(recursive=True)
        lookers = [child for child in children if child.pid not in trained]
        try:
            for number in track(range(2 * options.rounds + 1), side):
                let(lookers, number % 2 == 1)
                time.sleep(_CATCH_UP_S)
                begun = time.time()
                time.sleep(options.window)
                spans.append((begun, time.time()))
        finally:
            let(lookers, True)
    return spans


def let(processes: Sequence[psutil.Process], go_on: bool) -> None:
    """Resume processes, or stop them by a signal."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):  # a browser ends processes that it no longer needs
            if go_on:
                process.resume()
            else:
                process.suspend()


def said_of(side: str, rates: Sequence[float], num_pages: int) -> list[str]:
    """Return the conclusions for a side: each active window compared with its stopped neighbours."""
    stopped = measure.Summary(tuple(rates[::2]), "env steps/s")
    looks = measure.Summary(tuple(rates[1::2]), "env steps/s")
    changes = [
        100 * (rates[at] / statistics.mean((rates[at - 1], rates[at + 1])) - 1) for at in range(1, len(rates), 2)
    ]
    mean, half = mean_interval(changes)
    return [
        f"{num_pages} {_SIDES[side]}: {looks}; stopped: {stopped}",
        f"  change against the windows before and after: {mean:.2g} +- {half:.2g} % (95 % interval of the mean), "
        f"median {statistics.median(changes):.2g} %",
    ]


def asked_by_a_page(run: Path) -> list[bytes]:
    """Return the bodies of the requests that an open page of a run repeats."""
    found: dict[str, bytes] = {}
    with chromium.dashboard(run.parent) as address, chromium.browser(listens=True) as driver:
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
    """Run one side of `_SIDES` on a run while the block lasts."""
    if side == "clients":
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
