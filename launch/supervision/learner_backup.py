"""The backup of a learner in memory: recent states, which cost too little to wait for the next checkpoint."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

from laser.ports import PortError
from launch.planning.memory import MOST_BACKUP_BYTES
from launch.recording.recorder import Recorder
from launch.topology import Topology
from learner.learner import Learner

_INTERVAL_S = 1.0
_MOST_SHARE = 0.02
"""Share of the time that a copy may be under way; it holds up the learner for a part of that."""


@dataclass(frozen=True)
class KeptLearner:
    """A learner's state at one of its updates, kept in memory.

    Args:
        state: from `Learner.state_dict`.
        counters: its counters as the recorder knew them.
    """

    state: dict[str, Any]
    counters: Mapping[str, float]

    @property
    def name(self) -> str:
        """The state's name in a line for the user."""
        return f"update {self.num_updates:,}, of which there is a copy in memory"

    @property
    def num_updates(self) -> int:
        """Updates of the learner."""
        return int(self.state["numbers"]["num_steps"])

    @property
    def is_finite(self) -> bool:
        """Whether all its tensors hold finite numbers; no learner could learn from others."""
        return all(value.isfinite().all() for group in self.state["tensors"].values() for value in group.values())

    def learner(self, replay_restored: bool) -> dict[str, Any]:
        """Return the learner's state, for `Learner.load_state_dict`; see `SavedMember.learner`."""
        return self.state | {"replay_restored": replay_restored}


class LearnerBackup:
    """Copies a learner's state into the memory of the main process, about once a second. Used from one thread.

    Large networks are copied less often, since a copy holds up the learner, and not at all where all members' copies
    would need more than 1 GiB. If the main process dies, too, the run continues from its checkpoint.

    Args:
        topology: the member's components.
        recorder: the member's recorder.
    """

    def __init__(self, topology: Topology, recorder: Recorder):
        self._topology, self._recorder = topology, recorder
        self._newest: KeptLearner | None = None
        self._copying: Future[dict[str, Any]] | None = None
        self._begun_at, self._due_at = 0.0, 0.0

    def look(self) -> None:
        """Take the copy that has arrived, if there is one, and ask for the next when it is time."""
        now = time.monotonic()
        if self._copying is None:
            if now >= self._due_at:
                self._begun_at = now
                self._copying = self._topology.learner.call(Learner.state_dict)
        elif self._copying.done():
            self._due_at = now + max(_INTERVAL_S, (now - self._begun_at) / _MOST_SHARE)
            self._take()

    def newest(self) -> KeptLearner | None:
        """Return the newest copy, once the learner has died; None if there is none that is of use."""
        if self._copying is not None and self._copying.done():
            self._take()
        self._copying = None  # the next one is of another learner
        return self._newest if self._newest is not None and self._newest.is_finite else None

    def _take(self) -> None:
        assert self._copying is not None
        copying, self._copying = self._copying, None
        if isinstance(copying.exception(), PortError):
            return  # it died: whoever replaces it says so
        state = copying.result()
        if _num_bytes(state) * self._topology.member.population > MOST_BACKUP_BYTES:
            self._newest, self._due_at = None, math.inf
            return
        self._newest = KeptLearner(state, self._recorder.counters_of("learner"))


def _num_bytes(state: Mapping[str, Any]) -> int:
    return sum(value.nbytes for group in state["tensors"].values() for value in group.values())
