"""`laser replay import`: a run directory whose saved replay holds a log, from which a run continues."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

from laser.config import ConfigError, Problem
from laser.torch_threads import torch_threads
from launch.records.run_directory import open_run
from launch.settings.train_config import TrainConfig
from launch.standard_output import name_long_waits
from launch.supervision.ending import Ending
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.session import plan_session, run_session
from launch.supervision.signals import stop_on_signals


@dataclass(frozen=True)
class ImportedLog:
    """A log in a replay: the run's directory, the log's name, and the unrolls and env steps that the replay holds."""

    run_dir: str
    name: str
    unrolls: int
    env_steps: int

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return dataclasses.asdict(self)


@torch_threads(1)
def import_replay(config: TrainConfig, command: Sequence[str] | None = None) -> ImportedLog:
    """Make a run whose replay holds every episode of a log, save it before its first step, and end it.

    Args:
        config: with `init_replay`, and the run directory to make.
        command: the command line that the user typed, for the record.

    Raises:
        ConfigError: the config has mistakes, or the log does not fit it.
        LaunchError: the run directory cannot be made or written.
        Interrupted: Ctrl-C came.
        StoppedError: SIGTERM came.
    """
    if config.resume:
        raise ConfigError([Problem("resume", "an import makes a new run", "leave it out")])
    learner = dataclasses.replace(config.learner, compile="off")  # it learns nothing here
    config = dataclasses.replace(config, checkpoint_replay=True, learner=learner)
    with name_long_waits(config.quiet):
        plan = plan_session([config])
        with open_run(config, command) as run, stop_on_signals() as stop:
            (outcome,) = run_session(plan, [run], stop, lambda recorders: nullcontext(), pruner=_EndsAtOnce())
    gauges = outcome.snapshot.gauges
    return ImportedLog(str(run.path), config.init_replay, int(gauges["ledger/stored"]), int(gauges["replay/num_steps"]))


class _EndsAtOnce:
    """A rule that ends a run before its first step."""

    def judge(self, supervisor: MemberSupervisor, why: Ending) -> Ending:
        """See `launch.supervision.schedule.Pruner`."""
        return why or Ending.STEPS
