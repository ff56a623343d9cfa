"""The protocol of an evaluation whose Atari games begin behind the starts of a file."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from laser.config import Problem, raise_problems
from laser.environments import EnvironmentConfig, task_ids
from laser.environments.suite import find_suite
from laser.user_classes import class_path


def behind_starts(env: str, protocol: EnvironmentConfig, starts: str) -> EnvironmentConfig:
    """Return the protocol with the starts of a file in place of no-ops and of fire at the reset.

    Args:
        env: id of an environment, or of several tasks.
        protocol: to change.
        starts: path of the file; see `laser.environments.starts.read_starts`.

    Raises:
        ConfigError: an environment is no Atari game, has no starts in the file, or does not repeat its starts.
    """
    from laser.environments.starts import BehindStart, read_starts  # imports Gymnasium and ale-py

    problems = []
    for id in task_ids(env):
        if find_suite(id).name != "Atari":
            problems.append(Problem("starts", f"{id} is no Atari game, and starts are of Atari games"))
            continue
        try:
            read_starts(Path(starts), id)
        except ValueError as error:
            wrong, _, remedy = str(error).partition("; ")
            problems.append(Problem("starts", wrong, remedy))
    if protocol.sticky_actions:
        wrong = f"sticky actions ({protocol.sticky_actions:g}) lead a start elsewhere each time"
        problems.append(Problem("starts", wrong, "use --sticky-actions 0"))
    raise_problems(problems)
    wrapper = f"{class_path(BehindStart)}({json.dumps(str(Path(starts).absolute()))})"
    wrappers = ",".join(filter(None, (wrapper, protocol.wrappers)))
    return replace(protocol, wrappers=wrappers, max_noops=0, fire_at_reset=False)
