"""Busy cores: a note for the user if other work would keep a learner's threads waiting."""

from __future__ import annotations

import os

import psutil

from launch.planning.computing import learner_threads
from launch.planning.member_plan import MemberPlan

_GAUGED_S = 0.3


def note_busy_cores(member: MemberPlan) -> str:
    """Return the note that other work would keep a learner's threads waiting for each other, or "".

    If the learner has several threads, the load of this machine is measured for a third of a second. Two runs of TD3
    at once on two cores make 137 updates/s each with two threads, 260 with one.
    """
    config = member.config
    num_threads = learner_threads(config, member.environment, member.device.name, member.population)
    if config.has_processes or config.learner.torch_threads or num_threads == 1:
        return ""
    num_cores = os.cpu_count() or 1
    busy = psutil.cpu_percent(_GAUGED_S) / 100.0 * num_cores
    if busy + num_threads < num_cores + 0.5:
        return ""
    return (
        f"learner.torch-threads: other work keeps {busy:.1f} of {num_cores} cores busy, and the learner's "
        f"{num_threads} threads would wait for each other; --learner.torch-threads 1 is then faster"
    )
