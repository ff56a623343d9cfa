"""`laser replay export`: the whole episodes of a saved replay as a data set of Minari."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from laser.logs.episodes import LoggedEpisode
from laser.logs.writing import check_log, write_log
from laser.specs import environment_spec_from_json
from laser.unroll import UnrollSpec
from launch.errors import NothingToResumeError
from launch.logs.options import ReplayOptions
from launch.logs.whole_episodes import whole_episodes
from launch.records.replay_segments import SavedShards
from launch.records.run_directory import RunDirectory
from launch.records.run_record import read_record, saved_config
from launch.records.trust import trust_run
from launch.supervision.checkpointing import check_saved_run
from launch.supervision.shared_replay import read_shared
from learner.checkpoint import NoCheckpointError, load_newest_checkpoint


@dataclass(frozen=True)
class ExportedLog:
    """What was written: a data set's name, its episodes and env steps, and the mean of the episodes' returns."""

    name: str
    episodes: int
    env_steps: int
    mean_return: float

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints."""
        return asdict(self)


def export_replay(run_dir: Path, name: str, options: ReplayOptions) -> ExportedLog:
    """Write the whole episodes in the newest saved replay of a run, or of a sweep's shared replay.

    Args:
        run_dir: of the run, or of the sweep.
        name: minari:NAMESPACE/NAME-vN.
        options: see there.

    Raises:
        ConfigError: the name is malformed or taken, Minari is missing, or there is no whole episode.
        NothingToResumeError: the run has no checkpoint, or its replay was not saved.
        UntrustedError: the run names code that this user has not named before.
    """
    check_log("name", name)
    if options.trust:
        trust_run(run_dir)
    sweep = read_record(run_dir).get("sweep")
    if sweep is not None and not sweep["options"]["share_replay"]:
        wrong, member = f"{run_dir} holds a sweep whose members have a replay each", run_dir / "members" / "0"
        raise NothingToResumeError("run-dir", wrong, f"choose a member, e.g. {member}")
    first = run_dir / "members" / "0"
    path = first if first.is_dir() else run_dir
    config = saved_config(path)
    try:
        checkpoint, warnings = load_newest_checkpoint(path / "checkpoints", check_saved_run)
    except NoCheckpointError as error:
        raise NothingToResumeError("run-dir", str(error), "train it first") from error
    states = _saved_states(run_dir) if sweep is not None else []
    states = states or SavedShards(checkpoint, warnings).replay()
    if not states:
        raise NothingToResumeError("run-dir", f"{run_dir} saved no replay", "train with --checkpoint-replay")
    if any("contents" not in state for state in states):
        wrong = f"{path}: its replay was saved by an older version"
        raise NothingToResumeError("run-dir", wrong, "resume it, which saves it anew")
    environment = environment_spec_from_json(checkpoint.state["environment"])
    algorithm = config.algorithm.build(environment, config.network)
    spec = UnrollSpec(config.unroll_length, environment, algorithm.behaviour)
    returns: list[float] = []
    num_steps = 0

    def episodes() -> Iterator[LoggedEpisode]:
        nonlocal num_steps
        for contents in filter(None, (state["contents"] for state in states)):
            for episode in whole_episodes(spec, contents):
                returns.append(float(episode.rewards.sum()))
                num_steps += len(episode)
                yield episode

    num_episodes = write_log("name", name, environment, episodes(), config.algorithm.name)
    return ExportedLog(name, num_episodes, num_steps, float(np.mean(returns)))


def _saved_states(run_dir: Path) -> list[dict[str, Any]]:
    """Return the newest saved states of a sweep's shared replay; older versions saved them with member 0."""
    try:
        saved = read_shared(RunDirectory(run_dir, resumed=True))
    except NoCheckpointError as error:
        raise NothingToResumeError("run-dir", f"the replay: {error}", "resume the sweep") from error
    return [] if saved is None else saved.replay()
