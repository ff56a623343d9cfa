"""The numbers of a run's page: tiles, ledger, losses, processes, and its config."""

from __future__ import annotations

import math
from typing import Any

from dash import html

from launch.dashboard.comparing import flat
from launch.dashboard.library import Summary
from launch.dashboard.pages.parts import ago, table, tile
from launch.formats import short, size
from launch.recording.metric_table import RATE, RETURN, known_key, label_of, rows_of, values_by_field
from launch.recording.progress import duration
from launch.recording.return_curve import NUM_RETURNS
from launch.records.listing import Entry, last_state, printable

_LOG_LINES = 50
_BOTTLENECK, _EPISODES = known_key("bottleneck"), known_key("totals/episodes")


def tiles_of_run(summary: Summary) -> list[Any]:
    """Return the tiles above a run's panels."""
    moment, values = summary.latest.moment, summary.latest.values
    if moment is None:
        return []
    steps = summary.entry.config.get("steps")
    rate = values.get(RATE, 0.0)
    if summary.status != "running":
        rate = moment.env_steps / moment.seconds if moment.seconds > 0 else 0.0
    left = ""
    share = ""
    if isinstance(steps, int) and steps > 0:
        share = f"{min(100.0, 100 * moment.env_steps / steps):.0f} % of {steps:,}"
        if last_state(summary.entry.path) == "finished: solved":
            share = f"solved, of at most {steps:,}"
        if summary.status == "pruned":
            share = f"pruned, of {steps:,}"
        if summary.status == "running" and rate > 0 and steps > moment.env_steps:
            left = f"{duration((steps - moment.env_steps) / rate)} left"
    bottleneck = summary.latest.notes.get(_BOTTLENECK, "")
    name, _, rest = bottleneck.partition(" (")
    return [
        tile("env steps", f"{moment.env_steps:,}", share),
        *([] if moment.frames == moment.env_steps else [tile("frames", f"{moment.frames:,}", "")]),
        tile("learner steps", f"{moment.learner_steps:,}", ""),
        tile("return", short(values.get(RETURN)) or "none yet", _episodes(values)),
        tile("env steps / s", short(rate), left),
        tile("training time", duration(moment.seconds), f"newest numbers {ago(summary.age_s)}"),
        tile("bottleneck", printable(name, 40) or "unknown", printable(rest.rstrip(")"), 60)),
    ]


def _episodes(values: dict[str, float]) -> str:
    number_of = values.get(_EPISODES)
    if number_of is None or number_of >= NUM_RETURNS:
        return f"last {NUM_RETURNS} episodes"
    return "the only episode" if number_of == 1 else f"all {number_of:.0f} episodes so far"


def nothing_lost(summary: Summary) -> str:
    """Return the words for a box without numbers; a run that failed or was killed may not have counted everything."""
    if summary.status == "failed":
        return "nothing was counted as rejected, dropped or lost before the run failed"
    if summary.status == "interrupted":
        return "nothing was counted as rejected, dropped or lost before the run was killed"
    return "nothing was rejected, dropped or lost"


def log_end(text: str) -> str:
    """Return the last lines of a log, and all of a failure's: its traceback begins with the user's own file."""
    lines = text.splitlines()
    failed = [place for place, line in enumerate(lines) if line.split(" ", 2)[-1].startswith("failed: ")]
    return "\n".join(lines[min([max(0, len(lines) - _LOG_LINES), *failed[-1:]]) :])


def ledger_rows(values: dict[str, float]) -> list[tuple[str, str]]:
    """Return the rows of the ledger; for runs without a ledger, their substitute counters."""
    rows = list(rows_of("ledger"))
    found = [(key, row) for row in rows if not row.is_substitute for key in row.keys(values)]
    if found:
        return [(_after_slash(key, " / "), f"{values[key]:,.0f}") for key, _ in found]
    instead = [(key, row) for row in rows if row.is_substitute for key in row.keys(values)]
    return [(label_of(key, row), f"{values[key]:,.0f}") for key, row in instead]


def lost_rows(values: dict[str, float]) -> list[tuple[str, str]]:
    """Return what was rejected, dropped or lost, with numbers."""
    found = sorted(key for row in rows_of("lost") for key in row.keys(values) if values[key])
    return [(_after_slash(key, ": "), f"{values[key]:,.0f}") for key in found]


def _after_slash(key: str, between: str) -> str:
    return printable(key.split("/", 1)[1].replace("_", " ").replace("/", between))


def process_table(values: dict[str, float]) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """Return head and rows of the processes: their use of processor and memory, and of a GPU where one has a GPU."""
    numbers = ("cpu_percent", "memory_bytes", "gpu_percent", "gpu_memory_bytes")
    cpu, memory, gpu, gpu_memory = (values_by_field(f"process/{{process}}/{what}", values) for what in numbers)
    has_gpu = bool(gpu_memory)
    rows: list[tuple[str, ...]] = []
    for name in sorted(cpu.keys() | memory.keys()):
        of_gpu = (_percent(gpu.get(name)), size(gpu_memory.get(name))) if has_gpu else ()
        rows.append((printable(name), _percent(cpu.get(name)), size(memory.get(name)), *of_gpu))
    return ("process", "CPU", "memory", *(("GPU", "GPU memory") if has_gpu else ())), rows


def _percent(value: float | None) -> str:
    return "" if value is None or math.isnan(value) else f"{value:.0f} %"


def config_parts(entry: Entry) -> list[Any]:
    """Return a run's config: its difference from the preset, its origin, and every setting."""
    record = entry.record
    changes = record.get("changes")
    rows = []
    if isinstance(changes, dict):
        for key, change in changes.items():
            if isinstance(change, dict):
                rows.append([printable(str(part)) for part in (key, change.get("preset", ""), change.get("run", ""))])
    preset = printable(str(entry.config.get("preset", "") or "none"))
    same = "nothing: it is the unchanged preset" if isinstance(changes, dict) else "not recorded by this run"
    facts = [("command", record.get("command")), ("begun", record.get("created")), ("commit", record.get("commit"))]
    versions = record.get("versions")
    if isinstance(versions, dict):
        facts.append(("versions", ", ".join(f"{name} {value}" for name, value in versions.items())))
    # One text in place of a table: more cells make a page update more slowly.
    resolved = "\n".join(
        f"{printable(key):44} {printable(str(value), 400)}" for key, value in flat(entry.config).items()
    )
    return [
        html.Div(
            [
                html.Section(
                    [
                        html.H2(f"Differs from preset {preset} in"),
                        table(("key", "preset", "this run"), rows, same),
                        html.H2("Origin"),
                        table(("", ""), [(name, printable(str(value), 2000)) for name, value in facts if value]),
                    ],
                    className="panel",
                ),
                html.Section(
                    [html.H2("Settings"), html.Pre(resolved or "no config")], className="panel scroll", tabIndex=0
                ),
            ],
            className="halves",
        )
    ]
