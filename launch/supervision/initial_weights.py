"""Weights of another run for the start of a new one: `--init-from RUN[@best|@STEP]`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from laser.config import ConfigError, Problem
from laser.environments.statistics import Statistics
from laser.ports import wait
from laser.specs import environment_spec_from_json
from launch.planning.member_plan import MemberPlan
from launch.records.run_directory import RunDirectory
from launch.records.saved_state import check_saved_state, saved_statistics
from launch.runtimes.runtime import Worker
from launch.settings.train_config import TrainConfig
from learner.checkpoint import (
    BadCheckpointError,
    Checkpoint,
    NoCheckpointError,
    list_checkpoints,
    load_best_checkpoint,
    load_checkpoint,
    load_newest_checkpoint,
)
from learner.checkpoint_names import steps_of
from learner.learner import Learner

_DEADLINE_S = 120.0
_KEY = "init-from"
_MOST_NAMED = 3


@dataclass(frozen=True)
class InitialWeights:
    """The tensors that a run takes from another one.

    Args:
        tensors: the network's tensors by name; those that do not fit are left out.
        words: what was taken, and what was not.
        statistics: statistics of the wrappers that its environments had.
    """

    tensors: dict[str, Tensor]
    words: str
    statistics: Statistics = field(default_factory=dict)

    def load_into(self, learner: Worker[Learner]) -> None:
        """Put the tensors into a learner, whose optimiser stays as it is, and publish the networks."""
        own = wait(learner.call(Learner.weights), _DEADLINE_S, "the learner's weights")
        merged = {"networks": {**own["networks"], **self.tensors}, "optimizer": own["optimizer"]}
        wait(learner.call(Learner.adopt, merged), _DEADLINE_S, "the learner to take the weights of another run")


def read_initial_weights(member: MemberPlan) -> InitialWeights | None:
    """Return the weights that a member which begins starts from; None if they are random.

    Raises:
        ConfigError: there is no such checkpoint, or it belongs to other spaces or networks: with `init_strict`, if
            anything differs, else if nothing fits.
    """
    config = member.config
    if not config.init_from:
        return None
    checkpoint = _read(config.init_from)
    other = environment_spec_from_json(checkpoint.state["environment"])
    take_part = "--init-strict false takes what fits"
    if config.init_strict and not other.same_spaces(member.environment):
        raise _problem(
            f"{config.init_from} was trained on {other.id}, whose spaces differ from {config.env}", take_part
        )
    own = member.algorithm.seeded_networks(0).state_dict()
    saved = checkpoint.tensors["networks"]
    fits = {name: value for name, value in saved.items() if name in own and own[name].shape == value.shape}
    missing = [name for name in own if name not in fits]
    differing = missing + [name for name in saved if name not in own]
    if not fits or (config.init_strict and differing):
        what = (
            f"{len(differing)} tensors differ ({_listed(differing)})"
            if fits
            else "no tensor has the same name and shape"
        )
        raise _problem(f"{config.init_from} has other networks: {what}", take_part if fits else "choose another run")
    words = f"took {len(fits)} of {len(own)} tensors from {checkpoint.path}"
    return InitialWeights(
        fits, words + (f"; new are {_listed(missing)}" if missing else ""), saved_statistics(checkpoint)
    )


def find_missing_weights(configs: Sequence[TrainConfig]) -> list[Problem]:
    """Return a problem for each checkpoint from which runs are to begin and that does not exist or cannot be read."""
    problems = []
    for text in dict.fromkeys(config.init_from for config in configs if config.init_from and not config.resume):
        try:
            _read(text)
        except ConfigError as error:
            problems += error.problems
    return problems


def _read(text: str) -> Checkpoint:
    name, at, which = text.rpartition("@")
    if not at or not (which == "best" or which.isdecimal()):
        name, which = text, ""
    root = RunDirectory(Path(name).expanduser(), resumed=True).checkpoints_path
    try:
        if which.isdecimal():
            return _read_step(name, root, int(which))
        load = load_best_checkpoint if which == "best" else load_newest_checkpoint
        checkpoint, _ = load(root, check_saved_state)
    except (NoCheckpointError, BadCheckpointError) as error:
        raise _problem(str(error), "give the directory of a run that was trained") from error
    return checkpoint


def _read_step(name: str, root: Path, step: int) -> Checkpoint:
    steps = {steps_of(path.name): path for path in reversed(list_checkpoints(root))}
    if step not in steps:
        kept = ", ".join(map(str, steps)) or "none"
        raise _problem(f"{name} has no checkpoint after {step} env steps", f"its checkpoints are after {kept}")
    checkpoint = load_checkpoint(steps[step])
    try:
        check_saved_state(checkpoint)
    except ValueError as error:
        raise BadCheckpointError(f"{checkpoint.path} cannot be used: {error}") from error
    return checkpoint


def _listed(names: list[str]) -> str:
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def _problem(wrong: str, remedy: str) -> ConfigError:
    return ConfigError([Problem(_KEY, wrong, remedy)])
