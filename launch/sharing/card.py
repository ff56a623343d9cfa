"""The model card of a shared agent: what it is, how well it plays, and how to use it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from launch.evaluation.evaluation_result import EvaluationResult, write_interval
from launch.report.recorded import Recorded

VIDEO, CURVE = "replay.mp4", "curve.png"
"""The Hub plays a file of this name beside the card of an agent."""


def front_matter(recorded: Recorded, evaluation: EvaluationResult) -> str:
    """Return the card's metadata as YAML, which the Hub reads: the library, tags, and the mean return of each task."""
    from huggingface_hub import EvalResult, ModelCardData

    algorithm = recorded.config.algorithm.name
    results = [
        EvalResult(
            task_type="reinforcement-learning",
            task_name="reinforcement-learning",
            dataset_type=task.id,
            dataset_name=task.id,
            metric_type="mean_reward",
            metric_name="mean_reward",
            metric_value=f"{task.mean_return:.2f}"
            + (f" (95 % interval {write_interval(task.interval, '.2f')})" if task.interval else ""),
        )
        for task in evaluation.tasks
    ]
    words = ["deep-reinforcement-learning", "reinforcement-learning", "laser", algorithm]
    words += [task.id for task in evaluation.tasks] + recorded.config.tags
    data = ModelCardData(library_name="laser-rl", tags=words, model_name=algorithm, eval_results=results)
    return f"---\n{data.to_yaml()}\n---\n"


def write_card(recorded: Recorded, evaluation: EvaluationResult, repo: str, files: Sequence[str]) -> str:
    """Return the card, with the curve and the video if they are among the files."""
    config, record = recorded.config, recorded.record
    rows = [
        f"| {task.id} | {len(task.returns)} | {task.mean_return:,.2f} | {write_interval(task.interval, ',.2f')} |"
        for task in evaluation.tasks
    ]
    changes = [f"| {key} | {each['preset']} | {each['run']} |" for key, each in recorded.changes.items()]
    parts = [
        f"# {config.algorithm.name} on {config.env}",
        f"Trained by LASER: preset {config.preset or 'none'}, seed {config.seed}, {evaluation.env_steps:,} env steps.",
        f"![{config.env}]({VIDEO})" if VIDEO in files else "",
        "## Returns",
        _table("| task | episodes | mean return | 95 % interval over episodes |", rows),
        f"Actions are {'the most likely ones' if evaluation.greedy else 'sampled'}. One run says nothing about others.",
        f"![mean return over training]({CURVE})" if CURVE in files else "",
        "## Use",
        f"    pip install laser-rl\n    laser pull {repo} --run-dir agent\n    laser eval agent\n    laser play agent",
        "## To repeat the training",
        f"    {recorded.repeat}",
        "Settings that differ from the preset:" if changes else "All settings are the preset's.",
        _table("| setting | preset | this run |", changes) if changes else "",
        f"Versions: {json.dumps(record.get('versions', {}))}; commit {record.get('commit', 'unknown')}.",
    ]
    return front_matter(recorded, evaluation) + "\n\n".join(part for part in parts if part) + "\n"


def _table(head: str, rows: Sequence[Any]) -> str:
    return "\n".join([head, "|" + "---|" * (head.count("|") - 1), *rows])
