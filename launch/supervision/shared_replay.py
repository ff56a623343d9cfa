"""The saved replay of a sweep whose members share one: it lies in the sweep's own directory, apart from its members.

    RUN/checkpoints/000003-step-12000/    the shards' states, and the accounts of unrolls
    RUN/replay/                           what they held (see `launch.records.replay_segments`)

Members begin and end at different times, and each keeps its last checkpoints. If these held the replay, the files of
members that have ended would never become superfluous.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from laser.ports import PortError
from launch.errors import NothingToResumeError
from launch.records.atomic_files import output_error
from launch.records.replay_segments import SavedShards, check_segments
from launch.records.run_directory import RunDirectory
from launch.records.saved_state import check_saved_shards, take_arrays_out
from launch.runtimes.runtime import ShardPort
from launch.settings.train_config import TrainConfig
from launch.supervision.last_saves import check_in_place
from launch.supervision.member_supervisor import MemberSupervisor
from launch.supervision.saved_replay import SavedReplay
from learner.checkpoint import Checkpoint, NoCheckpointError, list_checkpoints, load_newest_checkpoint, save_checkpoint


class SharedReplay:
    """The files of the replay that the members of a sweep share. Used from one thread.

    Args:
        run: the sweep's own directory.
        config: of the sweep; whether the replay is saved, and how many checkpoints are kept.
        say: receives warnings for the user.
    """

    def __init__(self, run: RunDirectory, config: TrainConfig, say: Callable[[Sequence[str]], None]):
        self._run, self._config, self._say = run, config, say

    def newest(self) -> SavedShards | None:
        """Return the running sweep's newest checkpoint that can be used; None, and a line in the log, if none can."""
        try:
            return read_shared(self._run)
        except NoCheckpointError as error:
            self._run.log(f"the replay: {error}")
            return None

    def content(self) -> list[dict[str, Any]]:
        """Return the newest saved states of all shards, with what they held; empty: there are none yet.

        Raises:
            NothingToResumeError: there are some, and none can be used.
        """
        try:
            newest = read_shared(self._run)
        except NoCheckpointError as error:
            remedy = f"remove {self._run.checkpoints_path} to continue with an empty replay"
            raise NothingToResumeError("resume", f"the replay: {error}", remedy) from error
        if newest is None:
            return []
        for words in newest.warnings:
            self._warn(f"{words}; {newest.checkpoint.path.name} of the replay is used")
        return newest.replay()

    def begin_from(self, saved: SavedReplay) -> None:
        """Go on from what was saved and the shards hold by now, without writing it again."""
        if saved.is_shared:
            self._run.replay.begin_from(saved.content)

    def save(self, shards: Sequence[ShardPort], env_steps: int, supervisors: Sequence[MemberSupervisor]) -> None:
        """Write a checkpoint of the shards if the config asks for it, and remove files that none needs any more.

        If a shard does not answer, the user hears of it, and the checkpoints before stay.

        Args:
            shards: of the replay.
            env_steps: of the members so far, for the checkpoint's name.
            supervisors: of the members that have a place; the one that owns the shards looks at what was saved.

        Raises:
            OutputError: it cannot be written.
        """
        if not self._config.checkpoint_replay:
            return
        check_in_place([self._run])
        arrays: dict[str, np.ndarray] = {}
        try:
            tree = take_arrays_out({"replay": self._run.replay.save(shards)}, "", arrays)
            root, keep_last = self._run.checkpoints_path, self._config.learner.keep_checkpoints
            save_checkpoint(root, env_steps, {}, {"tree": tree}, arrays, keep_last)
            self._run.replay.remove_unused()
            for supervisor in supervisors:
                supervisor.account_for_saved_replay()
        except PortError as error:
            self._warn(f"the replay was not saved: {error}")
        except OSError as error:
            raise output_error(self._run.path / "replay", error) from error

    def _warn(self, words: str) -> None:
        self._run.log(f"warning: {words}")
        self._say([f"warning: {words}"])


def read_shared(run: RunDirectory) -> SavedShards | None:
    """Return the newest saved state of a sweep's shared replay; None: there is none yet.

    Raises:
        NoCheckpointError: there are some, and none passes verification.
    """
    if not list_checkpoints(run.checkpoints_path):
        return None
    return SavedShards(*load_newest_checkpoint(run.checkpoints_path, _check))


def _check(checkpoint: Checkpoint) -> None:
    check_saved_shards(checkpoint)
    check_segments(checkpoint)
