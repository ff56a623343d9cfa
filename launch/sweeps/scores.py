"""Scores of members, by which a sweep prunes settings and searches for better ones."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Literal

from laser.config import Problem
from launch.recording.recorder import Recorder
from launch.settings.train_config import TrainConfig

ScoreName = Literal["auto", "evaluation", "return"]


def takes_evaluations(name: ScoreName, configs: Sequence[TrainConfig]) -> bool:
    """Return whether scores come from evaluations: if they are chosen, or if all members evaluate."""
    return name == "evaluation" or (name == "auto" and all(config.evaluation_interval for config in configs))


def find_score_problems(name: ScoreName, configs: Sequence[TrainConfig], first: int) -> Iterator[Problem]:
    """Yield the reasons why members would have no score in time.

    Args:
        name: the kind of score.
        configs: of the members.
        first: env steps from which on a score is needed, below the members' steps.
    """
    if not takes_evaluations(name, configs):
        return
    if not all(config.evaluation_interval for config in configs):
        wrong = "is evaluation, but not all members evaluate"
        yield Problem("score", wrong, "add --evaluation.interval N, or use --score return")
        return
    for config in configs:
        at = -(-first // config.evaluation_interval) * config.evaluation_interval
        if at >= config.steps:
            wrong = f"takes evaluations, and the first one from {first:,} env steps on comes at {at:,}, after the end"
            yield Problem("score", wrong, "lower --evaluation.interval, or use --score return")
            return


def read_score(recorder: Recorder, by_evaluation: bool, since: int = 0) -> float | None:
    """Return a member's present score; None while it has none.

    Args:
        recorder: of the member.
        by_evaluation: the mean return of the newest evaluation; False: the fitness over the last 20 training episodes
            (see `Recorder.fitness`).
        since: env steps; an evaluation of older weights does not count.
    """
    if not by_evaluation:
        return recorder.fitness()
    evaluated = recorder.newest_evaluation()
    return None if evaluated is None or evaluated[0] < since else evaluated[1]


def last_score(recorder: Recorder, by_evaluation: bool) -> float | None:
    """Return the score of a member that has ended; with fewer than 20 training episodes, that of all of them."""
    score = read_score(recorder, by_evaluation)
    if score is None and not by_evaluation:
        score = recorder.position().mean_return
    return None if score is None or math.isnan(score) else score
