"""The beginning of a member: its saved state, or the weights of another run, put into its components."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from laser.environments.statistics import Statistics
from laser.ports import wait
from laser.specs import EnvironmentSpec
from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.settings.train_config import TrainConfig
from launch.supervision.checkpointing import SavedMember, has_trained
from launch.supervision.initial_weights import read_initial_weights
from launch.supervision.log_filling import fill_from_log
from launch.supervision.saved_replay import SavedReplay
from launch.topology import Topology

_DEADLINE_S = 60.0


def enter(
    run: RunDirectory,
    topology: Topology,
    recorder: Recorder,
    state: SavedMember | None,
    replay: SavedReplay,
    how: str,
    look: Callable[[], None] = lambda: None,
) -> list[str]:
    """Put a member's saved state, or the weights that it starts from, into its components, and note it in its log.

    Args:
        run: the member's run directory.
        topology: its components, which have started.
        recorder: its recorder.
        state: its saved state; None: it begins.
        replay: what was saved of the replay that it draws from, which its shards hold by now.
        how: how its learner computes, for the log.
        look: called while a log is read into the replay; an error that it raises ends the reading.

    Returns:
        what was taken from another run, or could not be taken, for the user.
    """
    words: list[str] = []
    if state is not None:
        state.load_into(topology, recorder, replay_restored=replay.has_keys_for(topology.shards))
        words += _give_statistics(topology, state.statistics)
        words += _about_empty_replay(topology.config, replay)
    else:
        words += _about_statistics(topology.member.environment)
        initial = None if has_trained(run) else read_initial_weights(topology.member)  # one that is lost ends at once
        if initial is not None:
            initial.load_into(topology.learner)
            words += [initial.words, *_give_statistics(topology, initial.statistics)]
    if topology.config.init_replay and topology.owns_replay and not replay.has_content:
        report, from_log = fill_from_log(topology.member, topology.shards, look)
        recorder.start_over(report.source)  # it was read before if the replay was not saved
        recorder.report(report)
        words.append(from_log)
    words += _share_of_log(topology)
    run.goes_on = True
    for line in (*words, f"running: {topology.describe()}; learner: {how}"):
        run.log(line)
    return words


def _about_empty_replay(config: TrainConfig, replay: SavedReplay) -> list[str]:
    """Return why the replay of a run that goes on starts empty; nothing if it does not, or nothing is drawn from it."""
    if replay.has_content:
        return []
    if replay.fault:
        return [f"warning: the saved replay cannot be used: {replay.fault}; the replay starts empty"]
    if config.init_replay or not config.algorithm.num_drawn:
        return []
    if config.checkpoint_replay:
        return ["the replay starts empty, since it was not saved before"]
    return ["the replay starts empty, since it was not saved; --checkpoint-replay saves it"]


def _share_of_log(topology: Topology) -> list[str]:
    """Return the share of draws from the log in words, or a warning if there is nothing to draw of one."""
    replay = topology.config.replay
    first, final = (replay.log_share_at(progress) for progress in (0.0, 1.0))
    if first is None or final is None or not topology.owns_replay:
        return []
    stats = [wait(shard.stats(), _DEADLINE_S, "the replay's contents") for shard in topology.shards]
    if not any(each.num_stored_log.unrolls for each in stats):
        return ["warning: the replay holds nothing of a log, so that nothing is drawn by replay.log-share"]
    return [f"of what is replayed, {first:.0%} is of the log" + ("" if first == final else f", {final:.0%} at the end")]


def _about_statistics(environment: EnvironmentSpec) -> Iterator[str]:
    """Yield which statistics of wrappers checkpoints will hold, and which not."""
    if environment.saved_statistics:
        yield f"checkpoints hold the statistics {', '.join(environment.saved_statistics)}: --resume goes on with them"
    if environment.unsaved_statistics:
        yield (
            f"warning: checkpoints leave out the statistics {', '.join(environment.unsaved_statistics)}, which begin "
            "anew after --resume; a wrapper's gymnasium.wrappers.utils.RunningMeanStd is saved"
        )


def _give_statistics(topology: Topology, statistics: Statistics) -> list[str]:
    """Give statistics to the wrappers around the actors' environments; return a warning if they do not fit."""
    if topology.statistics.restore(statistics):
        return []
    names = ", ".join(dict.fromkeys(each.name for moments in statistics.values() for each in moments))
    return [f"warning: the saved statistics of {names} fit none of the environment's wrappers, which begin anew"]
