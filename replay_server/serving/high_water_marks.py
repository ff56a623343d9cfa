"""High-water marks of sequence numbers, by which a shard recognises unrolls that are inserted again."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from replay_server.storage.episode_index import StreamKey

FRESH, DUPLICATE, OLD_INCARNATION = 0, 1, 2


@dataclass(frozen=True)
class Plan:
    """Verdicts on the unrolls of one message, and the marks after it; nothing is changed yet.

    Args:
        keys: the (run, actor, incarnation, environment) of each unroll.
        sequences: the sequence number of each unroll.
        verdicts: int8 [N], FRESH, DUPLICATE or OLD_INCARNATION.
        num_lost: sequence numbers that were skipped.
        marks: new marks by key.
        incarnations: new incarnations by (run, actor).
    """

    keys: list[StreamKey]
    sequences: list[int]
    verdicts: np.ndarray
    num_lost: int
    marks: dict[StreamKey, int]
    incarnations: dict[tuple[int, int], int]


@dataclass
class HighWaterMarks:
    """A high-water mark per key (run, actor, incarnation, environment), and the newest incarnation per actor.

    The mark is the next expected sequence number. Skipped numbers count as lost and the mark moves past them: an unroll
    that arrives after a later one of its key is a duplicate, stored or not. So each number below the mark is exactly
    one of inserted, rejected or lost, and one integer per key suffices instead of a growing set.
    """

    _marks: dict[StreamKey, int] = field(default_factory=dict, init=False)
    _incarnations: dict[tuple[int, int], int] = field(default_factory=dict, init=False)
    arrived: Counter[tuple[int, int, int]] = field(default_factory=Counter, init=False)
    """Sequence numbers that the marks passed, or whose insert failed, since construction, by (run, actor, incarnation).

    An actor makes no more unrolls after an insert has failed, so no number is counted twice.
    """

    def plan(self, headers: np.ndarray) -> Plan:
        """Return the verdicts on the unrolls of one message (HEADER_DTYPE [N]), in order; changes nothing."""
        parts = [headers[name].tolist() for name in ("run", "actor", "incarnation", "environment", "sequence")]
        keys: list[StreamKey] = list(zip(*parts[:4], strict=True))
        verdicts = np.zeros(len(headers), np.int8)
        marks: dict[StreamKey, int] = {}
        incarnations: dict[tuple[int, int], int] = {}
        num_lost = 0
        for i, (key, sequence) in enumerate(zip(keys, parts[4], strict=True)):
            run, actor, incarnation, _ = key
            newest = incarnations.get((run, actor), self._incarnations.get((run, actor)))
            if newest is not None and incarnation < newest:
                verdicts[i] = OLD_INCARNATION
                continue
            if newest is None or incarnation > newest:
                incarnations[run, actor] = incarnation
            expected = marks.get(key)
            if expected is None:
                expected = self._marks.get(key, 0)
            if sequence < expected:
                verdicts[i] = DUPLICATE
            else:
                num_lost += sequence - expected
                marks[key] = sequence + 1
        return Plan(keys, parts[4], verdicts, num_lost, marks, incarnations)

    def commit(self, plan: Plan) -> list[StreamKey]:
        """Apply a plan; return the keys that ended because a newer incarnation of their actor came."""
        known = {actor for actor in plan.incarnations if actor in self._incarnations}
        self._incarnations.update(plan.incarnations)
        for key, mark in plan.marks.items():
            self.arrived[key[:3]] += mark - self._marks.get(key, 0)
        self._marks.update(plan.marks)
        if not known:
            return []
        ended = [key for key in self._marks if key[:2] in known and key[2] < self._incarnations[key[:2]]]
        for key in ended:
            del self._marks[key]
        return ended

    def arrived_in_vain(self, headers: np.ndarray) -> None:
        """Count the unrolls of a message whose insert failed; the marks stay."""
        self.arrived.update(zip(*(headers[name].tolist() for name in ("run", "actor", "incarnation")), strict=True))

    def state_dict(self) -> dict[str, Any]:
        """Return the marks and incarnations as JSON values."""
        return {
            "marks": [[list(key), mark] for key, mark in self._marks.items()],
            "incarnations": [[list(key), incarnation] for key, incarnation in self._incarnations.items()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self._marks, self._incarnations = {}, {}
        self.merge(state)

    def merge(self, state: dict[str, Any]) -> None:
        """Take over the higher marks and the newer incarnations of a state from `state_dict`."""
        for mine, theirs in ((self._marks, state["marks"]), (self._incarnations, state["incarnations"])):
            for key, number in theirs:
                mine[tuple(key)] = max(number, mine.get(tuple(key), 0))
