"""A table of the GPU check's measurements, for docs/gpu.md.

python -m launch.bench.gpu_steps.table FILE
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from launch.bench.gpu_steps.entries import Entry, describe_machine, read_entries, readable

_HEAD = "| Part | Step | What | Value | Unit | Beside it, or to know |\n|---|---|---|---|---|---|"


def table(entries: Iterable[Entry]) -> str:
    """Return all numbers as Markdown, under a line about their machine, with missing numbers listed below.

    If a number was measured twice on one machine, the newest counts.
    """
    machines: list[tuple[str, dict[tuple[str, str, str], Entry], list[Entry]]] = []
    for entry in entries:
        if entry.kind == "machine":
            machine = describe_machine(entry.details)
            if not machines or machines[-1][0] != machine:
                machines.append((machine, {}, []))
            continue
        if not machines:
            machines.append(("machine unknown", {}, []))
        _, results, others = machines[-1]
        if entry.kind == "result":
            results[entry.part, entry.step, entry.name] = entry
        elif entry.kind in ("failed", "skipped", "warned"):
            others.append(entry)
    return "\n\n".join(_table_of(*each) for each in machines) or "nothing has been measured"


def _table_of(machine: str, results: dict[tuple[str, str, str], Entry], others: list[Entry]) -> str:
    lines = [f"{machine}.", ""]
    lines += [_HEAD, *map(_row, results.values())] if results else ["Nothing was measured."]
    if others:
        lines += ["", "Missing, or to know:", "", *(f"* {entry.part}: {entry}" for entry in others)]
    return "\n".join(lines)


def _row(entry: Entry) -> str:
    stand_in = "stand-in: no GPU" if entry.stand_in else ""
    to_know = "; ".join(filter(None, (stand_in, entry.beside, entry.note)))
    cells = (entry.part, entry.step, entry.name, readable(entry.value), entry.unit, to_know)
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


if __name__ == "__main__":
    print(table(read_entries(Path(sys.argv[1]))))
