"""The beginning of a member: its saved state, or the weights of another run, put into its components."""

from __future__ import annotations

from collections.abc import Callable

from laser.environments.statistics import Statistics
from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import SavedMember
from launch.supervision.initial_weights import read_initial_weights
from launch.supervision.log_filling import fill_from_log
from launch.supervision.saved_replay import SavedReplay
from launch.topology import Topology


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
        if not replay.has_content and topology.config.algorithm.num_drawn and not topology.config.init_replay:
            words.append("the replay starts empty, since it was not saved; --checkpoint-replay saves it")
    initial = read_initial_weights(topology.member)
    if initial is not None:
        initial.load_into(topology.learner)
        words += [initial.words, *_give_statistics(topology, initial.statistics)]
    if topology.config.init_replay and topology.owns_replay and not replay.has_content:
        report, from_log = fill_from_log(topology.member, topology.shards, look)
        recorder.start_over(report.source)  # it was read before if the replay was not saved
        recorder.report(report)
        words.append(from_log)
    run.goes_on = True
    for line in (*words, f"running: {topology.describe()}; learner: {how}"):
        run.log(line)
    return words


def _give_statistics(topology: Topology, statistics: Statistics) -> list[str]:
    """Give statistics to the wrappers around the actors' environments; return a warning if they do not fit."""
    if topology.statistics.restore(statistics):
        return []
    names = ", ".join(dict.fromkeys(each.name for moments in statistics.values() for each in moments))
    return [f"warning: the saved statistics of {names} fit none of the environment's wrappers, which begin anew"]
