"""Failures of a session: the one line that the user reads, and the entry in the log."""

from __future__ import annotations

import dataclasses
import traceback
from collections.abc import Sequence

from actors.actor import EnvironmentBudgetError
from laser.config import Problem
from laser.environments.base import EnvironmentFailedError
from laser.ports import NodeLostError, PortError
from launch.commands import resume_command
from launch.errors import LaunchError, LimitError, RuntimeFailedError
from launch.gpu_errors import explain_error, memory_text, memory_words
from launch.limits import explain_limit
from launch.records.run_directory import RunDirectory
from launch.settings.train_config import TrainConfig
from launch.supervision.member_supervisor import Outcome
from learner.checkpoint import list_checkpoints


def as_launch_error(error: Exception, config: TrainConfig, runs: Sequence[RunDirectory]) -> Exception:
    """Return the error with one line for the user, unless it is an error of the program itself.

    Args:
        error: the error that ended the session.
        config: config of the session's members.
        runs: run directories of the members.
    """
    if isinstance(error, RuntimeFailedError):
        return RuntimeFailedError(error.problem.key, error.problem.wrong, error.problem.remedy + _how_to_go_on(runs))
    if isinstance(error, LaunchError):
        return error
    if isinstance(error, (EnvironmentBudgetError, EnvironmentFailedError)):
        return LaunchError("env", f"{config.env}: {error}", "fix the environment")
    limit = explain_limit(error)
    if limit is not None:
        return LimitError(limit.key, limit.wrong, limit.remedy + _how_to_go_on(runs))
    problem = _gpu_problem(error, config, len(runs))
    if problem is not None:
        return LaunchError(problem.key, problem.wrong, problem.remedy + _how_to_go_on(runs))
    if isinstance(error, NodeLostError):
        remedy = "start it again once another node is there, or with --restart, which waits for it"
        return RuntimeFailedError("runtime", str(error), remedy + _how_to_go_on(runs))
    if isinstance(error, PortError):
        return LaunchError("runtime", str(error), "see log.txt in the run directory for earlier errors")
    return error


def explained(outcome: Outcome, config: TrainConfig) -> Outcome:
    """Return the outcome of one of several members, with an explanation of the GPU error if one ended it."""
    error = outcome.error
    problem = None if error is None or isinstance(error, LaunchError) else _gpu_problem(error, config, 2)
    if problem is None:
        return outcome
    return dataclasses.replace(outcome, error=LaunchError(problem.key, problem.wrong, problem.remedy))


def log_failure(run: RunDirectory, error: Exception) -> None:
    """Write the error that ended a run to its log, with its traceback unless the line says everything.

    The user's line omits the traceback of a GPU error, and an environment's error names the user's own file only there.
    A run whose directory was moved or deleted has no log any more.
    """
    if not run.is_in_place:
        return
    run.log(f"failed: {type(error).__name__}: {error}")
    if not isinstance(error, LaunchError) or error.__cause__ is not None:
        run.log("".join(traceback.format_exception(error)))


def _gpu_problem(error: Exception, config: TrainConfig, num_members: int) -> Problem | None:
    """Return the explanation of a GPU error in a run of this config; None for other errors."""
    text = memory_text(error)
    if not text:
        problem = explain_error(error)
        # `log_failure` writes the traceback there.
        return problem and dataclasses.replace(
            problem, remedy=problem.remedy.replace("the traceback", "the traceback in log.txt")
        )
    sizes = {"impala_resnet": "network.width, ", "mlp": "network.hidden-sizes, "}.get(config.network.torso, "")
    fewer = ", use fewer members" if num_members > 1 else ""
    return Problem(
        "algorithm.batch-size",
        f"the GPU has no memory left for batches of {_batch_words(config)}{memory_words(text)}",
        f"lower it, unroll-length, {sizes}or learner.num-prefetch{fewer}, or end other programs on the GPU",
    )


def _batch_words(config: TrainConfig) -> str:
    """Return the size of a batch and the network in words."""
    settings, network = config.algorithm, config.network
    rows = settings.rows_per_item(config.unroll_length)
    items = f"unrolls of {rows} steps" if settings.view == "unrolls" else f"items of {rows} step{'s' * (rows > 1)}"
    name = {"auto": "the default network"}.get(network.torso, f"network.torso {network.torso}")
    width = f" of width {network.width}" if network.torso == "impala_resnet" else ""
    return f"{settings.batch_size} {items} through {name}{width}"


def _how_to_go_on(runs: Sequence[RunDirectory]) -> str:
    """Return how to continue from the last checkpoint, as the end of a remedy; "" if there is no checkpoint."""
    kept = [run.path for run in runs if list_checkpoints(run.checkpoints_path)]
    if not kept:
        return ""
    return f"; to continue from the last checkpoint: {resume_command(kept[0])}"
