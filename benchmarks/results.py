"""Results beside peers: runs the seeds that a row lacks, and writes docs/results.md with its pictures.

    python benchmarks/results.py cartpole lunar_lander      # measure what is missing of these rows
    python benchmarks/results.py --page                     # write the page from benchmarks/rows/*.json

Every finished seed is in the row's file at once, so a benchmark that was stopped goes on where it was.
"""

from __future__ import annotations

import statistics
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ablations
import curve_points
import measure
import ners_controls
import offline
import page_summary
import peer_venv
import search
import shared_sweeps
import staleness
import unmeasured
from page_picture import Picture
from row_files import UNCOMMITTED, Results, add, check_committed, is_done, machines, measured, read
from row_table import BUSY_LOAD, HEAD, standing, table_row, values_of
from rows import LASER, ROWS, SIDES, Row

from launch.records.metrics_db import read_series
from launch.report.pictures import Line, Panel

PAGE = measure.ROOT / "docs" / "results.md"
PICTURES = measure.ROOT / "docs" / "pictures" / "results"
_TIMEOUT_S = 4 * 3600.0
_NO_TEXT = "#|*!"
"""The first characters of headings, tables, lists and pictures."""


def main() -> None:
    parser = measure.parser(__doc__)
    parser.add_argument("rows", nargs="*", choices=[*ROWS, []], help="rows to measure")
    parser.add_argument("--seeds", type=int, default=0, help="at most so many seeds of every side; 0: all of the row")
    parser.add_argument("--sides", default="", help="only these sides, with commas between them")
    parser.add_argument("--page", action="store_true", help="write docs/results.md and its pictures")
    peer_venv.add_option(parser)
    options = parser.parse_args()
    for name in options.rows:
        row = ROWS[name]
        seeds = row.seeds[: options.seeds or None]
        sides = options.sides.split(",") if options.sides else [LASER, *row.peers]
        for seed in seeds:  # all sides of a seed, so that a slow phase of the machine affects all
            for side in sides:
                measure_side(name, side, seed, options.venvs)
    if options.page or not options.rows:
        for name, picture in all_pictures().items():
            (PICTURES / f"{name}.png").write_bytes(picture.png())
        PAGE.write_text(page(), encoding="utf-8")
        print(f"written: {PAGE.relative_to(measure.ROOT)}")


def measure_side(name: str, side: str, seed: int, venvs: Path) -> None:
    """Run one side of a row with one seed, unless the row's file has its result."""
    if is_done(name, side, seed):
        return
    check_committed()
    row = ROWS[name]
    result = run_laser(row, seed) if side == LASER else run_peer(row, side, seed, venvs)
    add(name, side, seed, result)
    print(f"{name}: {side}, seed {seed}: {result['value']} {row.unit}, {result['seconds']:.0f} s", flush=True)


def run_laser(row: Row, seed: int) -> dict[str, Any]:
    """Return `value`, `seconds` and `curve` of a run of LASER."""
    with tempfile.TemporaryDirectory() as place:
        run_dir = Path(place) / "run"
        command = [*measure.LASER, "train", row.preset, "--env", row.env, "--steps", row.steps, "--seed", seed]
        command += ["--run-dir", run_dir, "--quiet", "--json"]
        command += ["--learner.torch-threads", 1] if row.peers else []  # one thread, as the peers have
        command += ["--stop-at-return", row.target] if row.target is not None else []
        result = measure.run_json(command, _TIMEOUT_S)
        returns = read_series(run_dir / "metrics.db", "charts/episodic_return")
    return {
        "value": value_of(
            row,
            result["env_steps"] if result["finished"] == "solved" else None,
            curve_points.final(returns, row.steps),
        ),
        "seconds": round(result["seconds"], 1),
        "curve": curve_points.curve(returns, row.steps, result["env_steps"]),
    }


def run_peer(row: Row, side: str, seed: int, venvs: Path) -> dict[str, Any]:
    """Return `value`, `seconds` and `curve` of a run of a peer."""
    python = peer_venv.peer_python("sb3", venvs)
    words = row.peers[side].words(row.env, row.target)
    command = [python, peer_venv.SCRIPTS / "sb3_train.py", *words, "--seed", seed]
    result = measure.run_json(command, _TIMEOUT_S, python_path=measure.ROOT)
    return {
        "value": value_of(row, result["env_steps"] if result["solved"] else None, result["final"]),
        "seconds": round(result["seconds"], 1),
        "curve": result["curve"],
    }


def value_of(row: Row, solved_at: int | None, final: float | None) -> float | None:
    """Return the result of a seed; None: not solved."""
    if row.target is not None:
        return solved_at
    return None if final is None else round(final, 3)


def page() -> str:
    """Return the text of docs/results.md."""
    names = measured(ROWS)
    together = games_together()
    alone = [name for name in names if not any(name in of_length for of_length in together.values())]
    lines = [
        "# Results beside other systems",
        "",
        "Written by `python benchmarks/results.py --page` from `benchmarks/rows/*.json`; do not edit. Peers have",
        f"the settings and run on the machines that are named, one thread each. {seeds_seen()}",
        "Numbers are medians, with the lowest and the highest seed; a run that did not get there counts with all its",
        "env steps. LASER is the system here; its algorithm is LASER's own, unless the cell names another.",
        "Minutes are medians, LASER's / the best peer's, until a run ended; ~: beside other work (a load above",
        f"{BUSY_LOAD:g}), so that no two of them compare.",
        f"{UNCOMMITTED}: some or all runs had the settings of an uncommitted tree.",
        "",
        *page_summary.items(),
        "",
        *HEAD,
    ]
    lines += [table_row(name, ROWS[name], read(name)) for name in names]
    lines += ["", "Every curve is in the picture of its question; those of MinAtar together."]
    if together:
        shares = "; ".join(overtakes(of_length) for of_length in together.values())
        lines += [f"LASER is where the best peer ends after this share of the env steps: {shares}."]
    titles = {**dict.fromkeys(together, "MinAtar"), **{name: ROWS[name].title for name in alone}}
    lines += ["", " ".join(f"![{title}](pictures/results/{name}.png)" for name, title in titles.items())]
    lines += ["", "How each was measured; `results.py` goes on with the seeds that a row lacks:", ""]
    lines += [how(of_row) for of_row in [*([name] for name in alone), *together.values()]]
    if ablations.measured_games():
        lines += ablations.section(ablations.measured_games())
    if shared_sweeps.measured_games():
        lines += shared_sweeps.section(shared_sweeps.measured_games())
    if search.measured_tasks():
        lines += search.section(search.measured_tasks())
    for name in staleness.measured_tasks():
        lines += staleness.section(name)
    if ners_controls.measured_questions():
        lines += ners_controls.section(ners_controls.measured_questions())
    if offline.measured_tasks():
        lines += offline.section(offline.measured_tasks())
    lines += unmeasured.section()
    return "\n".join(_unwrapped(lines)) + "\n"


def _unwrapped(lines: Sequence[str]) -> list[str]:
    """Return lines with each paragraph of text on one: the page is short, and its tables have long lines anyway."""
    joined = [""]
    for line in lines:
        is_text = bool(line) and line[0] not in _NO_TEXT
        if is_text and joined[-1] and joined[-1][0] not in _NO_TEXT:
            joined[-1] += f" {line}"
        else:
            joined.append(line)
    return joined[1:]


def games_together() -> dict[str, list[str]]:
    """Return the measured rows of MinAtar: by the picture of those that have as many env steps."""
    found: dict[str, list[str]] = {}
    for name in measured(ROWS):
        if ROWS[name].game:
            found.setdefault(f"minatar_{ROWS[name].steps // 1000}k", []).append(name)
    return found


def overtakes(names: Sequence[str]) -> str:
    """Say after which share of their env steps, which are equal, LASER's median is where the best peer's ends."""
    found = []
    for name in names:
        row, results = ROWS[name], read(name)
        best = standing(row, results).best
        ours = [dict(run["curve"]) for run in results["sides"].get(LASER, {}).values()]
        if ours and best is not None:
            end = statistics.median(values_of(row, best, results["sides"][best]))
            # A bucket in which an episode of no seed ended has no point; those of some seeds count.
            medians = {at: statistics.median(curve[at] for curve in ours if at in curve) for at in set().union(*ours)}
            reached = [at for at, value in sorted(medians.items()) if value >= end]
            share = f"{reached[0] / row.steps:.2f}" if reached else "not within them"
            found.append(f"{row.game} {share}")
    return f"of {ROWS[names[0]].steps:,}: {', '.join(found)}"


def how(names: Sequence[str]) -> str:
    """Return how rows that differ in the environment alone were measured, as an item of a list."""
    rows = [ROWS[name] for name in names]
    found = [read(name) for name in names]
    used = {side for results in found for side in results["sides"]}
    sources = dict.fromkeys(
        f"{side}: {peer.source}" for row in rows for side, peer in row.peers.items() if side in used
    )
    ours = [run for results in found for run in results["sides"].get(LASER, {}).values()]
    commits = sorted({run["commit"].replace(measure.CHANGED, UNCOMMITTED) for run in ours})
    train = f"`laser train {rows[0].preset} --env {rows[0].env if len(rows) == 1 else 'ENV'}` at {', '.join(commits)}"
    peers = "no peer is measured yet" if rows[0].peers else "no peer"
    if sources:
        peers = f"settings of {'; '.join(sources)}"
    return f"* `results.py {' '.join(names)}`: {train}; {peers}. {machines(*found)}."


def seeds_seen() -> str:
    """Say which seeds had been looked at before settings were final."""
    seen = [f"{ROWS[name].env} ({ROWS[name].seen})" for name in measured(ROWS) if ROWS[name].seen]
    return f"Settings were chosen on other seeds, but some seeds had been looked at before: {'; '.join(seen)}."


def all_pictures() -> dict[str, Picture]:
    """Return the pictures of the page by the name of their file."""
    return {
        **{name: picture_of(name) for name in measured(ROWS)},
        **{name: picture_together(games) for name, games in games_together().items()},
        **{f"stale_{name}": staleness.picture(name) for name in staleness.measured_tasks()},
        **({"search": search.picture(search.measured_tasks())} if search.measured_tasks() else {}),
        **{shared_sweeps.file_of(name): shared_sweeps.picture(name) for name in shared_sweeps.measured_games()},
    }


def picture_of(name: str) -> Picture:
    """Return the picture of a row: the curve of every seed."""
    row = ROWS[name]
    axis = "env steps" if row.target is None else "env steps; a curve ends where its run is solved"
    return Picture(row.title, [Panel(axis, "mean return", _lines(read(name)), row.target)], SIDES)


def picture_together(names: Sequence[str]) -> Picture:
    """Return a picture with a panel for each of some rows: the curve of every seed."""
    panels = [Panel("env steps", "mean return", _lines(read(name)), title=ROWS[name].game) for name in names]
    title = f"MinAtar, {ROWS[names[0]].steps:,} env steps: every seed"
    return Picture(title, panels, SIDES, num_columns=min(3, len(panels)))


def _lines(results: Results) -> list[Line]:
    return [
        Line(side, [(at, value) for at, value in run["curve"]])
        for side, runs in results["sides"].items()
        for run in runs.values()
    ]


if __name__ == "__main__":
    main()
