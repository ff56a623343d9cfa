"""Checkpoints of a run: what they hold, and how a run continues from one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from actors.actor import Actor
from laser.environments.statistics import Statistics, statistics_to_json
from laser.ports import PortClosedError, wait
from laser.specs import environment_spec_from_json
from launch.errors import NothingToResumeError
from launch.planning.member_plan import MemberPlan
from launch.recording.recorder import Recorder, Snapshot
from launch.records.atomic_files import output_error
from launch.records.metrics_db import newest_env_steps
from launch.records.replay_segments import SavedShards, check_lists_of_segments, check_segments, find_fault
from launch.records.run_directory import RunDirectory
from launch.records.saved_state import check_saved_state, put_arrays_back, saved_statistics, take_arrays_out
from launch.settings.json_form import config_to_json
from launch.settings.train_config import TrainConfig
from launch.topology import Topology
from learner.checkpoint import Checkpoint, NoCheckpointError, load_newest_checkpoint, save_checkpoint
from learner.learner import Learner
from learner.updating.train_state import TrainState

_DEADLINE_S = 120.0
# Settings that do not change an environment's behaviour.
_LEFT_OUT: dict[str, Any] = {"kwargs": {}, "wrappers": "", "action_bounds": "clip"}
_HOW_TO_WAIT = ("deadline_s", "max_restarts", "restart_window_steps")


def save_member(
    run: RunDirectory,
    topology: Topology,
    recorder: Recorder,
    snapshot: Snapshot,
    accounts: Callable[[], list[dict[str, Any]]],
    with_actors: bool = True,
    with_replay: bool = True,
) -> Path:
    """Write a checkpoint, and return its directory: the learner, the recorder's counts, and in lockstep the actors.

    The replay is saved too if the config asks for it. With replay and actors a resumed lockstep run equals one that was
    never interrupted; otherwise actors begin new episodes and the replay fills anew.

    Args:
        run: the member's run directory.
        topology: the member's components.
        recorder: the member's recorder.
        snapshot: the member's state now.
        accounts: returns the accounts of the replay's shards (see `launch.supervision.replay_watch`).
        with_actors: False after a failure, since an actor may hang or be broken.
        with_replay: False if the replay is saved elsewhere (see `launch.supervision.shared_replay`).

    Raises:
        OutputError: the checkpoint cannot be written.
    """
    config = topology.config
    learner = wait(topology.learner.call(Learner.state_dict), _DEADLINE_S, "the learner's state")
    statistics = topology.statistics.collect() if with_actors else topology.statistics.newest
    saves_actors = with_actors and config.takes_turns
    saves_replay = with_replay and config.checkpoint_replay and topology.owns_replay
    actors = [
        wait(actor.call(Actor.state_dict), _DEADLINE_S, f"the state of {actor.name}") if saves_actors else None
        for actor in topology.actors
    ]
    tree = {
        "numbers": learner["numbers"],
        "generator": learner["arrays"]["generator"],
        "actors": actors,
        "replay": _save_replay(run, topology) if saves_replay else [],
        "statistics": statistics_to_json(statistics),
        "accounts": accounts(),
    }
    arrays: dict[str, np.ndarray] = {}
    recorder.flush()  # reports from before the checkpoint are written now, and not again after a resumption
    state = {
        "tree": take_arrays_out(tree, "", arrays),
        "recorder": recorder.state_dict(),
        "environment": topology.member.environment.to_json(),
        "actors_made_for": _made_for(config),
        "next_incarnation": topology.member.first_incarnation
        + (1 + max(actor.incarnation for actor in topology.actors)) * topology.member.incarnations_per_start,
    }
    try:
        path = save_checkpoint(
            run.checkpoints_path,
            snapshot.env_steps,
            learner["tensors"],
            state,
            arrays,
            keep_last=config.learner.keep_checkpoints,
            # From the newest training episodes: the newest evaluation may be of much older weights.
            score=snapshot.mean_return,
        )
        run.replay.remove_unused()
    except OSError as error:
        raise output_error(run.checkpoints_path, error) from error
    return path


def _save_replay(run: RunDirectory, topology: Topology) -> list[dict[str, Any]]:
    """Return the states of the saved shards; none where one has ended for good before anything was saved of it."""
    try:
        return run.replay.save(topology.shards)
    except PortClosedError:
        if not topology.config.outlasts_deaths:
            raise
        return []
    except OSError as error:
        raise output_error(run.path / "replay", error) from error


@dataclass(frozen=True)
class SavedMember(SavedShards):
    """A member's checkpoint, read and verified except for the replay's files, which are verified when they are read."""

    @cached_property
    def replay_fault(self) -> str:
        """The fault of the replay's files in words; empty without one. The first use reads all of them."""
        return find_fault(self.checkpoint)

    def replay(self) -> list[dict[str, Any]]:
        """Return the saved state of each shard; empty if the checkpoint holds none, or a file of it is unusable."""
        return [] if self.replay_fault else super().replay()

    @property
    def next_incarnation(self) -> int:
        """Incarnation of actors that begin anew, so that they never continue old sequences of unrolls by mistake."""
        return int(self.checkpoint.state["next_incarnation"])

    @property
    def statistics(self) -> Statistics:
        """The statistics of the environments' wrappers; {} without such wrappers."""
        return saved_statistics(self.checkpoint)

    @property
    def num_updates(self) -> int:
        """Updates of the learner."""
        return int(self.checkpoint.state["tree"]["numbers"]["num_steps"])

    @property
    def name(self) -> str:
        """The checkpoint's name."""
        return self.checkpoint.path.name

    @property
    def counters(self) -> Mapping[str, float]:
        """The learner's counters as the recorder knew them."""
        counters: Mapping[str, float] = self.recorder["last"].get("learner", {})
        return counters

    @property
    def recorder(self) -> dict[str, Any]:
        """The recorder's state."""
        state: dict[str, Any] = self.checkpoint.state["recorder"]
        return state

    @property
    def accounts(self) -> list[dict[str, Any]]:
        """The accounts of each shard, without its content; empty in checkpoints of older versions."""
        accounts: list[dict[str, Any]] = self.checkpoint.state["tree"].get("accounts", [])
        return accounts

    def learner(self, replay_restored: bool) -> dict[str, Any]:
        """Return the learner's state, for `Learner.load_state_dict`.

        Args:
            replay_restored: whether the replay holds what the learner's keys name.
        """
        tree = put_arrays_back(
            {name: self.checkpoint.state["tree"][name] for name in ("generator", "numbers")}, self.checkpoint.arrays
        )
        return {
            "tensors": self.checkpoint.tensors,
            "arrays": {"generator": tree["generator"]},
            "numbers": tree["numbers"],
            "replay_restored": replay_restored,
        }

    def load_into(self, topology: Topology, recorder: Recorder, replay_restored: bool) -> None:
        """Load the saved state into a member's components, without the replay (see `SavedReplay`).

        Args:
            topology: the member's new components.
            recorder: the member's recorder.
            replay_restored: whether the replay holds what the learner's keys name, be it from another member's
                checkpoint.

        Raises:
            NothingToResumeError: the checkpoint has other networks.
        """
        actors = put_arrays_back(self.checkpoint.state["tree"]["actors"], self.checkpoint.arrays)
        learner = self.learner(replay_restored)
        try:
            wait(topology.learner.call(Learner.load_state_dict, learner), _DEADLINE_S, "the learner to take its state")
        except ValueError as error:
            raise NothingToResumeError("network", str(error)) from error
        made_for = _made_for(topology.config)
        restored = (
            topology.config.takes_turns
            and all(actor is not None for actor in actors)
            and self.checkpoint.state.get("actors_made_for", made_for) == made_for
        )
        if restored:
            for actor, state in zip(topology.actors, actors, strict=True):
                wait(actor.call(Actor.load_state_dict, state), _DEADLINE_S, f"{actor.name} to take its state")
        recorder.load_state_dict(self.recorder, sources_start_over=not restored)


def _made_for(config: TrainConfig) -> dict[str, Any]:
    """Return the settings on which actors' states depend: actors with other settings begin anew."""
    whole = config_to_json(config)
    made_for = {name: whole[name] for name in ("num_actors", "num_envs", "unroll_length")}
    # Left out by default, as in checkpoints from before there was a choice, so that runs continue from those too.
    environment = {
        name: value
        for name, value in whole["environment"].items()
        if name not in _HOW_TO_WAIT and not (name in _LEFT_OUT and value == _LEFT_OUT[name])
    }
    device = {} if config.actor.device == "cpu" else {"actor_device": config.actor.device}
    return made_for | device | {"env_groups": config.actor.env_groups, "environment": environment}


def read_newest(run: RunDirectory, member: MemberPlan) -> SavedMember | None:
    """Return a running member's newest checkpoint that verifies; None if it has not written one yet.

    Raises:
        NothingToResumeError: there are some, and none verifies.
    """
    return _restore(run, member) if run.has_checkpoint else None


def restore_all(
    runs: Sequence[RunDirectory], members: Sequence[MemberPlan]
) -> tuple[list[SavedMember | None], list[NothingToResumeError | None]]:
    """Read all members' checkpoints; the others continue without a member that failed before its first checkpoint.

    Returns:
        each member's checkpoint, None if none was asked for or found; and each member's reason why none was found, or
        None.

    Raises:
        NothingToResumeError: no member has a checkpoint.
    """
    read = [restore(run, member) for run, member in zip(runs, members, strict=True)]
    saved, lost = [state for state, _ in read], [error for _, error in read]
    errors = [error for error in lost if error is not None]
    if errors and not any(saved):
        raise errors[0]
    return saved, lost


def has_trained(run: RunDirectory) -> bool:
    """Return whether a run that was opened had trained before: one that was killed while it started had not."""
    return run.resumed and (run.has_checkpoint or newest_env_steps(run.metrics_path) > 0)


def restore(run: RunDirectory, member: MemberPlan) -> tuple[SavedMember | None, NothingToResumeError | None]:
    """Read a resumed member's checkpoint; return it, None for one that begins, or the reason why none was found."""
    if not has_trained(run):
        return None, None
    try:
        return _restore(run, member), None
    except NothingToResumeError as error:
        return None, error


def _check_resumable(checkpoint: Checkpoint) -> None:
    """Check that a run can continue from a checkpoint, if need be with an empty replay.

    Raises:
        ValueError: something is missing, damaged or of another kind.
    """
    check_saved_state(checkpoint)
    check_lists_of_segments(checkpoint)


def check_saved_run(checkpoint: Checkpoint) -> None:
    """Check that a checkpoint holds a run's state, and that the files of its replay are as they were written.

    Raises:
        ValueError: something is missing, damaged or of another kind.
    """
    check_saved_state(checkpoint)
    check_segments(checkpoint)


def _restore(run: RunDirectory, member: MemberPlan) -> SavedMember:
    """Read the newest checkpoint that passes verification.

    Raises:
        NothingToResumeError: there is none, or its environment is another one.
    """
    checkpoint, bad = _load(run, member)
    warnings = [f"{words}; {checkpoint.path.name} is used" for words in bad]
    for warning in warnings:
        run.log(f"warning: {warning}")
    saved = environment_spec_from_json(checkpoint.state["environment"])
    if not saved.same_spaces(member.environment):
        if saved.without_action_masks().same_spaces(member.environment.without_action_masks()):
            how, value = ("with", "auto") if saved.has_action_masks else ("without", "off")
            wrong = f"the checkpoint was trained {how} action masks"
            raise NothingToResumeError("environment.action-masks", wrong, f"use {value}")
        wrong = f"the checkpoint was trained on {saved.id}, whose spaces differ from {member.config.env}"
        raise NothingToResumeError("env", wrong, f"use --env {saved.id}")
    return SavedMember(checkpoint, warnings)


def _load(run: RunDirectory, member: MemberPlan) -> tuple[Checkpoint, list[str]]:
    """Return the newest checkpoint that the member can continue from, and warnings of `load_newest_checkpoint`.

    If all have other networks, the newest is returned: the config has changed, and `load_into` says so.

    Raises:
        NothingToResumeError: none passes verification.
    """
    fits = _FitsNetworks(member)
    try:
        return load_newest_checkpoint(run.checkpoints_path, fits.check)
    except NoCheckpointError as error:
        if not fits.num_others:
            raise NothingToResumeError("resume", str(error), "start afresh with another --run-dir") from error
    return load_newest_checkpoint(run.checkpoints_path, _check_resumable)


class _FitsNetworks:
    """The check of saved runs that also compares their tensors with a member's networks; it counts other networks.

    Args:
        member: the member, whose networks are built at the first check.
    """

    def __init__(self, member: MemberPlan):
        self._member = member
        self.num_others = 0

    @cached_property
    def _own(self) -> dict[str, dict[str, Tensor]]:
        """The tensors that a learner loads, by group and name; a run may have been without a target network so far."""
        algorithm = self._member.algorithm
        state = TrainState(algorithm, algorithm.seeded_networks(0), torch.device("cpu"), 0)
        tensors: dict[str, dict[str, Tensor]] = {
            "networks": state.networks.state_dict(),
            "optimizer": state.optimizer.state_dict(),
        }
        return tensors | {f"target_{name}": {"vector": each.parameters.vector} for name, each in state.targets.items()}

    def check(self, checkpoint: Checkpoint) -> None:
        """Raise `ValueError` unless the member can continue from a checkpoint."""
        _check_resumable(checkpoint)
        for group, own in self._own.items():
            tensors = checkpoint.tensors.get(group, {})
            saved, expected = _shapes_of(tensors), _shapes_of(own)
            if not saved and group.startswith("target_"):
                continue
            if saved != expected:
                self.num_others += 1
                names = sorted(name for name in saved.keys() | expected if saved.get(name) != expected.get(name))
                first, more = names[0], f" and {len(names) - 1} more" if names[1:] else ""
                shape, wanted = saved.get(first, "none"), expected.get(first, "none")
                raise ValueError(f"{group}/{first} has the shape {shape} in place of {wanted}{more}")
            _check_numbers(group, tensors, own)


def _check_numbers(group: str, saved: Mapping[str, Tensor], own: Mapping[str, Tensor]) -> None:
    """Raise `ValueError` unless tensors of the right shapes have the right dtypes, and finite numbers."""
    for name, value in saved.items():
        if value.dtype != own[name].dtype:
            raise ValueError(f"{group}/{name} must be {own[name].dtype}, got {value.dtype}")
        if not value.isfinite().all():
            raise ValueError(f"{group}/{name} has numbers that are not finite")


def _shapes_of(tensors: Mapping[str, Tensor]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(value.shape) for name, value in tensors.items()}
