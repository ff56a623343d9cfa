"""The report of a run: scores with intervals, curves, settings, and the command that repeats the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from launch.evaluation.evaluation_result import EvaluationResult, TaskResult, published_words
from launch.formats import short
from launch.recording.metric_panels import PANELS, Line, Panel, names_of
from launch.recording.metric_table import EVALUATION
from launch.recording.progress import duration
from launch.records.curves import carried
from launch.records.series import EMPTY, Series
from launch.records.tick import Tick
from launch.report import pictures
from launch.report.page import Page
from launch.report.recorded import Recorded

_MOST_EVALUATIONS = 12


def write_run(recorded: Recorded, evaluation: EvaluationResult | None) -> tuple[Page, dict[str, bytes]]:
    """Return the page and the pictures by file name.

    Raises:
        OutputError: `metrics.db` is missing or damaged.
    """
    page, config, files = Page(recorded.path.resolve().name), recorded.config, {}
    page.paragraph(
        f"{config.algorithm.name} on {config.env}, preset {config.preset or 'none'}, seed {config.seed}. "
        + (_reached(recorded.end) if recorded.end else "Nothing was recorded yet.")
    )
    add_scores(page, recorded, evaluation)
    add_evaluations(page, recorded)
    page.heading("Curves")
    for panel, lines in _panels(recorded):
        drawn = [pictures.Panel("env steps", panel.y_title, lines)]
        light, dark = (pictures.draw(drawn, panel.title, theme=theme) for theme in pictures.THEMES)
        files[f"{panel.report}.png"] = light
        page.picture(light, f"{panel.title}: {', '.join(line.label for line in lines)}", dark)
    if not files:
        page.paragraph("No recorded curve can be drawn.")
    add_settings(page, recorded)
    return page, files


def _panels(recorded: Recorded) -> Iterator[tuple[Panel, list[pictures.Line]]]:
    """Yield the report's panels from the table of metrics, with their lines."""
    known = recorded.latest.values
    panels = [panel.of_run(known) for panel in PANELS if panel.report]
    series = recorded.series(names_of(panels))
    for panel in panels:
        chosen = [line for line in panel.chosen(series) if line.kind == "value" and not line.is_faint]
        if chosen:
            yield panel, [_drawn(line, series) for line in chosen]


def _drawn(line: Line, series: Mapping[str, Series]) -> pictures.Line:
    middle = series[line.name]
    points = list(zip(middle.axes["env_steps"].tolist(), middle.values.tolist(), strict=True))
    edges = [carried(series[name], middle.ticks).tolist() for name in line.band or () if name in series]
    return pictures.Line(line.label, points, band=list(zip(*edges, strict=True)) if len(edges) == 2 else ())


def add_scores(page: Page, recorded: Recorded, evaluation: EvaluationResult | None) -> None:
    """Add the table of final scores."""
    page.heading("Final scores")
    rows = list(_score_rows("training, newest episodes", recorded.newest_returns))
    if evaluation is not None:
        kind = "greedy" if evaluation.greedy else "sampled"
        rows += _score_rows(f"evaluation, {kind} actions", evaluation.tasks)
    if not rows:
        page.paragraph("No episode had finished at the newest checkpoint.")
        return
    page.table(("task", "what", "episodes", "mean return", "95 % interval", "normalised", "the LASER paper"), rows)
    page.paragraph("Intervals are bootstrapped over episodes of this one run; they say nothing about other seeds.")


def add_evaluations(page: Page, recorded: Recorded) -> None:
    """Add what the run's evaluations reached while it trained, and its newest video."""
    returns = recorded.series([EVALUATION]).get(EVALUATION, EMPTY)
    if len(returns):
        page.heading("Evaluations while it trained")
        steps = returns.axes["env_steps"].tolist()
        rows = [(f"{at:,.0f}", short(value)) for at, value in zip(steps, returns.values.tolist(), strict=True)]
        shown = rows[-_MOST_EVALUATIONS:]
        page.table(("env steps", "mean return"), shown)
        if len(shown) < len(rows):
            page.paragraph(f"The last {len(shown)} of {len(rows)}; the curve below shows all.")
    film = recorded.newest_video
    if film is not None:
        path, content, kind = film
        page.heading("The newest video")
        page.video(content, kind, path.name)


def add_commands(page: Page, recorded: Recorded) -> None:
    """Add the commands that the user typed."""
    first, *others = recorded.commands
    page.paragraph(f"The original command: {first}")
    if len(recorded.record.get("history", [])) > 1:
        num = len(recorded.record["history"]) - 1
        times = "once" if num == 1 else f"{num} times"
        page.paragraph(f"It was resumed {times}, and the command above has the settings of the last time:")
        page.code("\n".join(others or [first]))


def add_settings(page: Page, recorded: Recorded) -> None:
    """Add the repeating command, the differences from the preset, all settings, and versions."""
    record = recorded.record
    page.heading("To repeat it")
    page.code(recorded.repeat)
    if recorded.ended_settings:
        page.paragraph("PBT changed these settings while it trained; the command repeats their schedule.")
        rows = [(key, before, after) for key, (before, after) in recorded.ended_settings.items()]
        page.table(("key", "at the beginning", "at the end"), rows)
    add_commands(page, recorded)
    page.heading("Differs from the preset in")
    rows = [(key, change["preset"], change["run"]) for key, change in recorded.changes.items()]
    if rows:
        page.table(("key", "preset", "this run"), rows)
    else:
        page.paragraph("Nothing." if recorded.config.preset else "The run has no preset.")
    with page.folded("Config"):
        page.table(("key", "value"), recorded.settings)
    versions = {**record.get("versions", {}), "commit": record.get("commit") or "unknown"}
    with page.folded("Versions"):
        page.table(("package", "version"), [(str(name), str(value)) for name, value in versions.items()])


def _reached(end: Tick) -> str:
    steps = f"{end.env_steps:,} env steps ({end.frames:,} frames), {end.learner_steps:,} learner steps"
    return f"{steps} in {duration(end.seconds)} of training."


def _score_rows(what: str, tasks: Sequence[TaskResult]) -> Iterable[Sequence[str]]:
    for task in tasks:
        yield (
            task.id,
            what,
            str(len(task.returns)),
            short(task.mean_return),
            "" if task.interval is None else " to ".join(map(short, task.interval)),
            "" if task.normalised is None else short(task.normalised),
            "" if task.published is None else published_words(task.published),
        )


def default_directory(path: Path) -> Path:
    """Return the default directory of the report of a run or sweep."""
    return path / "report"
