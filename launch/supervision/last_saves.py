"""The last saves of a session that fails: what can be saved is, and nothing hides why it failed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from launch.errors import NothingToResumeError, OutputError
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import save_member
from launch.supervision.member_supervisor import MemberSupervisor


def check_in_place(runs: Sequence[RunDirectory]) -> None:
    """Raise `OutputError` if a run's directory or one of its files was deleted or moved while it trained."""
    for run in runs:
        gone = run.find_gone()
        if gone is not None:
            raise OutputError(gone.key, gone.wrong, gone.remedy)


def save_what_can_be_saved(run: RunDirectory, supervisor: MemberSupervisor, with_replay: bool) -> None:
    """Write a checkpoint after a failure; log an error of this write, since the user sees the first error.

    Args:
        run: the member's run directory.
        supervisor: its supervisor.
        with_replay: whether the replay is the member's own.
    """
    if isinstance(supervisor.error, NothingToResumeError) or not run.is_in_place:
        return
    for worker in supervisor.topology.workers:
        worker.stop()
    try:
        supervisor.end_accounts()
    except Exception as error:  # noqa: BLE001 - logged; the first failure is raised
        run.log(f"the accounts of unrolls are incomplete: {type(error).__name__}: {error}")
    if supervisor.topology.learner.failure() is not None:
        return

    def save() -> None:
        snapshot, topology = supervisor.recorder.snapshot(), supervisor.topology
        accounts = supervisor.parts.replay.accounts
        save_member(run, topology, supervisor.recorder, snapshot, accounts, with_actors=False, with_replay=with_replay)

    try_to_save(run, save)


def try_to_save(run: RunDirectory, save: Callable[[], None]) -> None:
    """Save, and log an error: the failure that led here is raised by the caller."""
    try:
        save()
    except Exception as error:  # noqa: BLE001 - logged; the first failure is raised
        run.log(f"no checkpoint could be written: {type(error).__name__}: {error}")
