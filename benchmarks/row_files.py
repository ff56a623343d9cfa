"""The files behind docs/results.md: one small JSON for each row, written after each finished run."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from threading import Lock
from typing import Any

import measure

FOLDER = measure.ROOT / "benchmarks" / "rows"

UNCOMMITTED = "\u2020"
"""The page's mark of runs with settings of a tree that was not committed, which must be measured again."""

_writing = Lock()  # runs side by side end whenever they do

Results = dict[str, Any]
"""A row's file: `machine`, and `sides`: by side and seed, `value`, `seconds`, the `commit`, and `curve` where drawn.

A run that was measured on another machine than the first of the file has its own `machine`.
"""


def measured(names: Iterable[str]) -> list[str]:
    """Return those of the rows that have a file, in their order."""
    return [name for name in names if (FOLDER / f"{name}.json").exists()]


def read(name: str) -> Results:
    """Return a row's file, or an empty one."""
    path = FOLDER / f"{name}.json"
    if not path.exists():
        return {"machine": "", "sides": {}}
    found: Results = json.loads(path.read_text(encoding="utf-8"))
    return found


@dataclass(frozen=True)
class Finding:
    """Verdict of the runs on an aim.

    Args:
        what: the question, in the page's words.
        on: the task, if the question has several.
        is_reached: None: not known yet.
    """

    what: str
    on: str
    is_reached: bool | None


def machines(*files: Results) -> str:
    """Return the page's words for the machines of all runs of some files."""
    runs = ((results, run) for results in files for runs in results["sides"].values() for run in runs.values())
    return "; ".join(dict.fromkeys(run.get("machine", results["machine"]) for results, run in runs))


def mark(runs: Mapping[str, Mapping[str, Any]]) -> str:
    """Return `UNCOMMITTED` if the tree of one of a side's runs was not committed."""
    return UNCOMMITTED if any(run["commit"].endswith(measure.CHANGED) for run in runs.values()) else ""


def verdict(is_reached: bool | None) -> str:
    """Return the page's words for an aim; None: not known yet."""
    return "not known yet" if is_reached is None else "reached" if is_reached else "not reached"


def is_done(name: str, side: str, seed: int) -> bool:
    """Return whether a row's file has the run of a side with a seed."""
    return str(seed) in read(name)["sides"].get(side, {})


def check_committed() -> None:
    """Raise `BenchmarkError` if there are changes that the commit in a row's file would not have."""
    if measure.describe_machine()["commit"].endswith(measure.CHANGED):
        raise measure.BenchmarkError("commit the changes first: a row's file says which commit was measured")


def add(name: str, side: str, seed: int, run: dict[str, Any]) -> None:
    """Put the run of a side with a seed into a row's file, with the machine and the commit."""
    found = measure.describe_machine()
    machine = f"{found['processor']}, {found['cores']} cores"
    with _writing:
        results = read(name)
        results["machine"] = results["machine"] or machine
        other = {"machine": machine} if machine != results["machine"] else {}
        runs = results["sides"].setdefault(side, {})
        runs[str(seed)] = {**run, "commit": found["commit"], "load": found["load_1min"], **other}
        _write(name, results)


def measure_missing(
    name: str,
    cases: Iterable[tuple[str, int]],
    run: Callable[[str, int], dict[str, Any]],
    say: Sequence[str],
    jobs: int = 1,
) -> None:
    """Run the cases that a row's file lacks, and add each to the file as soon as it has ended.

    Args:
        name: of the row.
        cases: sides and seeds, in the order in which they begin.
        run: (side, seed) -> the run's numbers.
        say: the numbers that are printed.
        jobs: runs side by side.
    """

    def measure_case(case: tuple[str, int]) -> None:
        side, seed = case
        if not is_done(name, side, seed):
            check_committed()
            result = run(side, seed)
            add(name, side, seed, result)
            numbers = ", ".join(f"{key} {result[key]}" for key in say)
            print(f"{name}: {side}, seed {seed}: {numbers}", flush=True)

    pool = ThreadPoolExecutor(jobs)
    try:
        for done in as_completed([pool.submit(measure_case, case) for case in cases]):
            done.result()
    finally:
        pool.shutdown(cancel_futures=True)  # after a failure no further run begins


def _write(name: str, results: Results) -> None:
    """Write a row's file, with a line for each run."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    sides = []
    for side, runs in results["sides"].items():
        lines = ",\n".join(f"   {json.dumps(seed)}: {json.dumps(run)}" for seed, run in runs.items())
        sides.append(f"  {json.dumps(side)}: {{\n{lines}\n  }}")
    text = f'{{\n "machine": {json.dumps(results["machine"])},\n "sides": {{\n' + ",\n".join(sides) + "\n }\n}\n"
    unfinished = FOLDER / f"{name}.json.new"
    unfinished.write_text(text, encoding="utf-8")
    unfinished.replace(FOLDER / f"{name}.json")  # a run that begins now reads a whole file
