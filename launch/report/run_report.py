"""The report of a run: scores with intervals, curves, what was set, how to repeat it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from launch.evaluation.evaluation_result import EvaluationResult, TaskResult, published_words
from launch.recording.metrics_db import Tick
from launch.recording.progress import duration
from launch.report.page import Page
from launch.report.pictures import Line, Panel, draw
from launch.report.recorded import Recorded

_SOURCES = {"online": "fresh", "own_replay": "own replay", "foreign_replay": "foreign replay"}


@dataclass(frozen=True)
class Sheet:
    """A picture of the report: its file's name, its words, and which metrics it draws, by label."""

    name: str
    words: str
    y_title: str
    metrics: dict[str, str]


SHEETS = (
    Sheet(
        "return",
        "Return",
        "return per episode",
        {"last 20 training episodes": "charts/mean_return", "evaluation": "evaluation/mean_return"},
    ),
    Sheet("length", "Length of episodes", "env steps", {"training": "charts/episodic_length"}),
    Sheet(
        "losses",
        "Losses",
        "loss",
        {
            "total": "loss",
            "policy": "pg_loss",
            "actor": "actor_loss",
            "value": "value_loss",
            "critic": "critic_loss",
            "Q": "q_loss",
        },
    ),
    Sheet("entropy", "Entropy of the policy", "nats", {"entropy": "entropy"}),
    Sheet(
        "acceptance",
        "Steps that the trust region accepts",
        "share",
        {words: f"accept_fraction_{source}" for source, words in _SOURCES.items()},
    ),
    Sheet(
        "divergence",
        "Divergence of the policy",
        "KL, nats",
        {
            **{f"to the implied policy, {words}": f"implied_kl_{source}" for source, words in _SOURCES.items()},
            "from the behaviour": "kl_from_behaviour",
            "from the average": "kl_from_average",
        },
    ),
    Sheet(
        "policy-lag",
        "Policy lag of what is learned from",
        "versions",
        {
            "fresh, median": "policy_lag/online/p50",
            "fresh, 90 %": "policy_lag/online/p90",
            "replayed, median": "policy_lag/own_replay/p50",
            "replayed, 90 %": "policy_lag/own_replay/p90",
            "foreign, median": "policy_lag/foreign_replay/p50",
            "foreign, 90 %": "policy_lag/foreign_replay/p90",
        },
    ),
    Sheet(
        "throughput",
        "Throughput of the stages",
        "env steps/s",
        {"acting": "charts/SPS", "sampling": "throughput/sampling", "learning": "throughput/learning"},
    ),
)


def write_run(recorded: Recorded, evaluation: EvaluationResult | None) -> tuple[Page, dict[str, bytes]]:
    """Return the page and the pictures by file name.

    Raises:
        OutputError: `metrics.db` is missing or damaged.
    """
    page, config, pictures = Page(recorded.path.resolve().name), recorded.config, {}
    page.paragraph(
        f"{config.algorithm.name} on {config.env}, preset {config.preset or 'none'}, seed {config.seed}. "
        + (_reached(recorded.end) if recorded.end else "Nothing was recorded yet.")
    )
    add_scores(page, recorded, evaluation)
    page.heading("Curves")
    for sheet in SHEETS:
        lines = [Line(label, points) for label, name in sheet.metrics.items() if (points := recorded.curve(name))]
        if lines:
            picture = draw([Panel("env steps", sheet.y_title, lines)], sheet.words)
            pictures[f"{sheet.name}.png"] = picture
            page.picture(picture, f"{sheet.words}: {', '.join(line.label for line in lines)}")
    if not pictures:
        page.paragraph("Nothing was recorded that could be drawn.")
    add_settings(page, recorded)
    return page, pictures


def add_scores(page: Page, recorded: Recorded, evaluation: EvaluationResult | None) -> None:
    """Add the table of final scores."""
    page.heading("Final scores")
    rows = list(_score_rows("training, newest episodes", recorded.newest_returns))
    if evaluation is not None:
        kind = "greedy" if evaluation.greedy else "sampled"
        rows += _score_rows(f"evaluation, {kind} actions", evaluation.tasks)
    if not rows:
        page.paragraph("No episode has finished by the newest checkpoint.")
        return
    page.table(("task", "what", "episodes", "mean return", "95 % interval", "normalised", "the LASER paper"), rows)
    page.paragraph("Intervals are bootstrapped over episodes of this one run; they say nothing about other seeds.")


def add_settings(page: Page, recorded: Recorded) -> None:
    """Add how to repeat it, what differs from the preset, all settings, and versions."""
    record = recorded.record
    page.heading("To repeat it")
    page.code(recorded.repeat)
    page.paragraph(f"As it was typed: {record['command']}")
    if len(record.get("history", [])) > 1:
        page.paragraph(f"It was resumed {len(record['history']) - 1} times.")
    page.heading("Differs from the preset in")
    rows = [(key, change["preset"], change["run"]) for key, change in recorded.changes.items()]
    if rows:
        page.table(("key", "preset", "this run"), rows)
    else:
        page.paragraph("Nothing." if recorded.config.preset else "It came from no preset.")
    page.heading("Config")
    page.table(("key", "value"), recorded.settings)
    page.heading("Versions")
    versions = {**record.get("versions", {}), "commit": record.get("commit") or "unknown"}
    page.table(("package", "version"), [(str(name), str(value)) for name, value in versions.items()])


def _reached(end: Tick) -> str:
    steps = f"{end.env_steps:,} env steps ({end.frames:,} frames), {end.learner_steps:,} learner steps"
    return f"{steps} in {duration(end.seconds)} of training."


def _score_rows(what: str, tasks: Sequence[TaskResult]) -> Iterable[Sequence[str]]:
    for task in tasks:
        low, high = task.interval
        yield (
            task.id,
            what,
            str(len(task.returns)),
            f"{task.mean_return:,.2f}",
            f"{low:,.2f} to {high:,.2f}",
            "" if task.normalised is None else f"{task.normalised:.3f}",
            "" if task.published is None else published_words(task.published),
        )


def default_directory(path: Path) -> Path:
    """Return where the report of a run or sweep goes unless another place is named."""
    return path / "report"
