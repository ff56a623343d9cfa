"""The beginning of a member: its saved state, or the weights of another run, put into its components."""

from __future__ import annotations

from launch.recording.recorder import Recorder
from launch.records.run_directory import RunDirectory
from launch.supervision.checkpointing import SavedMember
from launch.supervision.initial_weights import read_initial_weights
from launch.topology import Topology


def enter(
    run: RunDirectory, topology: Topology, recorder: Recorder, state: SavedMember | None, has_replay: bool, how: str
) -> list[str]:
    """Put a member's saved state, or the weights that it starts from, into its components, and note it in its log.

    Args:
        run: the member's run directory.
        topology: its components, which have started.
        recorder: its recorder.
        state: its saved state; None: it begins.
        has_replay: whether the replay that it draws from was saved.
        how: how its learner computes, for the log.

    Returns:
        what was taken from another run, or could not be taken, for the user.
    """
    words = []
    if state is not None:
        state.load_into(topology, recorder, replay_restored=has_replay)
        if not has_replay and topology.config.algorithm.num_drawn:
            words.append("the replay starts empty, since it was not saved; --checkpoint-replay saves it")
    initial = read_initial_weights(topology.member)
    if initial is not None:
        initial.load_into(topology.learner)
        words.append(initial.words)
    run.goes_on = True
    for line in (*words, f"running: {topology.describe()}; learner: {how}"):
        run.log(line)
    return words
