"""The recovery of a member whose learner died: another learner continues from its newest state."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress

from laser.ports import NoPlaceError, PortError, PortTimeoutError, Report, wait
from launch.errors import NothingToResumeError
from launch.recording.recorder import Recorder
from launch.supervision.checkpointing import SavedMember
from launch.supervision.initial_weights import read_initial_weights
from launch.supervision.learner_backup import KeptLearner, LearnerBackup
from launch.topology import Topology
from learner.learner import Learner

START_DEADLINE_S = 600.0
"""Seconds for a worker to compile, or to make its environments."""
PLACE_DEADLINE_S = 600.0
"""Seconds for a node to join that has a place for the learner."""
_CALL_DEADLINE_S = 60.0
_LOOK_INTERVAL_S = 0.1
_PLACE_INTERVAL_S = 1.0
# Versions beyond those that are still on their way when the learner dies, where the store does not say its newest.
_UNKNOWN_VERSIONS = 10_000


class LearnerRecovery:
    """Puts another learner in the place of one that died. Used from one thread; only `finish` waits for the new one.

    It continues from the newest checkpoint or copy in memory, or from the initial weights if there is neither yet. The
    replay stays as it is, and so do the actors, which act with the newest parameters until there are newer ones.
    Versions are numbered above all that were published. Where learners have GPUs and none is left, the new one waits
    for a node.

    Args:
        topology: the member's components.
        recorder: the member's recorder.
        newest: reads the member's newest checkpoint that verifies; None if there is none yet. It raises
            `NothingToResumeError` if none verifies.
        say: receives a line for the user.
    """

    def __init__(
        self,
        topology: Topology,
        recorder: Recorder,
        newest: Callable[[], SavedMember | None],
        say: Callable[[str], None],
    ):
        self._topology, self._recorder = topology, recorder
        self._newest, self._say = newest, say
        self._backup = LearnerBackup(topology, recorder)
        self._state: SavedMember | KeptLearner | None = None
        self._taking_over: Future[str] | None = None
        self._begun_at = 0.0
        self._waits_since: float | None = None  # for a place
        self._looked_at = 0.0
        self._first_version, self._first_updates = -1, 0  # of the present learner, if it has taken over
        self._lost: defaultdict[str, float] = defaultdict(float)

    @property
    def is_under_way(self) -> bool:
        """Whether another learner is to come: it is getting ready, or waits for a place."""
        return self._taking_over is not None or self.waits_for_place

    @property
    def waits_for_place(self) -> bool:
        """Whether a new learner waits for a node that has a place for it."""
        return self._waits_since is not None

    def back_up(self) -> None:
        """Keep a copy of the learner in memory, from which another one continues; at every look while it learns."""
        self._backup.look()

    def begin(self, *, is_said: bool = False) -> None:
        """Start another learner in the place of the dead one, as soon as there is a place for it.

        Args:
            is_said: whether the user knows of the death.

        Raises:
            NothingToResumeError: there are checkpoints, and none can be used.
        """
        topology = self._topology
        try:
            topology.learner.replace()
        except NoPlaceError as error:
            if self._waits_since is None:
                self._waits_since = time.monotonic()
                minutes = f"{PLACE_DEADLINE_S / 60.0:g} minutes"
                self._say(f"{topology.learner.name} died; another one waits, {minutes} at most: {error}")
            return
        self._waits_since = None
        for shard in topology.shards:
            with suppress(PortError):  # a shard that does not answer serves no samples either
                shard.end_samples(topology.member.number)
        self._state = self._newest_state()
        published = self._newest_published()
        line = self._count_lost(published)
        if not is_said:
            self._say(line)
        # One version may still be on its way. On-policy actors expect a version of every batch, also of those that the
        # dead learner had loaded.
        self._first_version = max(self._known, published) + topology.config.learner.num_prefetch + 4
        if published < 0:  # the store has ended, too
            self._first_version += _UNKNOWN_VERSIONS
        self._first_updates = 0 if self._state is None else self._state.num_updates
        self._recorder.rewind_learner({} if self._state is None else self._state.counters)
        state = None if self._state is None else self._state.learner(replay_restored=True)
        self._taking_over = topology.learner.call(Learner.take_over, self._first_version, state)
        self._begun_at = time.monotonic()

    def begin_elsewhere(self) -> None:
        """Begin anew: the node of the new learner was lost before it started there."""
        if time.monotonic() - self._begun_at >= _PLACE_INTERVAL_S:
            self._taking_over = None
            self.begin(is_said=True)

    def look(self) -> bool:
        """Return whether the new learner is ready now; it does not tick yet.

        Raises:
            PortError: it died, too, did not get ready in time, or found no place in time.
            Exception: the error of the new learner.
        """
        if self._waits_since is not None:
            self._look_for_place(self._waits_since)
            return False
        if self._taking_over is None:
            return False
        if not self._taking_over.done():
            if time.monotonic() - self._begun_at > START_DEADLINE_S:
                raise PortTimeoutError(f"waited {START_DEADLINE_S:g} s for the new learner to start")
            return False
        taking_over, self._taking_over = self._taking_over, None
        taking_over.result()
        initial = None if self._state is not None else read_initial_weights(self._topology.member)
        if initial is not None:
            initial.load_into(self._topology.learner)
        self._state = None  # of no use any more, and as large as the networks
        return True

    def finish(self) -> None:
        """Wait until the new learner is ready, if one is getting ready; raise the errors of `look`.

        Raises:
            NoPlaceError: there is no place for it yet, and whoever calls this could wait for very long.
        """
        while self.is_under_way and not self.look():
            if self.waits_for_place:
                raise NoPlaceError(f"{self._topology.learner.name} has ended, and there is no place for another one")
            time.sleep(_LOOK_INTERVAL_S)

    def _newest_state(self) -> SavedMember | KeptLearner | None:
        kept = self._backup.newest()
        try:
            saved = self._newest()
        except NothingToResumeError:
            if kept is None:
                name = self._topology.learner.name
                self._say(f"{name} died, and no checkpoint is left from which another one could continue")
                raise
            return kept
        return kept if kept is not None and (saved is None or saved.num_updates <= kept.num_updates) else saved

    def _look_for_place(self, since: float) -> None:
        now = time.monotonic()
        if now - since > PLACE_DEADLINE_S:
            raise NoPlaceError(
                f"{self._topology.learner.name} has ended, and no place for another one came within "
                f"{PLACE_DEADLINE_S:g} s"
            )
        if now - self._looked_at >= _PLACE_INTERVAL_S:
            self._looked_at = now
            self.begin()

    @property
    def _known(self) -> int:
        """The newest version that the present learner reported or took over with."""
        return max(self._first_version, int(self._recorder.snapshot().gauges.get("parameter_version", -1)))

    def _newest_published(self) -> int:
        """Return the newest version in the store; -1 if the store does not answer."""
        try:
            return wait(self._topology.parameters.newest_version(), _CALL_DEADLINE_S, "the newest version")
        except PortError:
            return -1

    def _count_lost(self, published: int) -> str:
        """Count what the dead learner takes with it, and return the line about it."""
        gauges = self._recorder.snapshot().gauges
        saved = 0 if self._state is None else self._state.num_updates
        made, version = saved, published  # nothing is known of a first learner that never reported
        if self._first_version <= gauges.get("parameter_version", -math.inf):
            made, version = int(self._recorder.last("learner", "learner_steps")), int(gauges["parameter_version"])
            self._lost["column_writes_lost/died"] += gauges.get("column_writes_pending", 0.0)
        elif self._first_version >= 0:
            made, version = self._first_updates, self._first_version
        made += max(0, published - version) * self._topology.config.learner.publish_interval
        lost = max(0, made - saved)
        self._lost["updates_lost/died"] += lost
        self._recorder.report(Report("supervisor", dict(self._lost)))
        how = (
            f"another one continues from {self._state.name}"
            if self._state is not None
            else "there is no checkpoint yet, another one starts from the initial weights"
        )
        return f"{self._topology.learner.name} died: {how}; {lost} updates are lost"
