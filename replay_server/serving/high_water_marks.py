"""High-water marks: which unrolls have been seen, so that a repeated insert changes nothing."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from replay_server.storage.episode_index import StreamKey

FRESH, DUPLICATE, OLD_INCARNATION = 0, 1, 2


@dataclass(frozen=True)
class Plan:
    """What the marks say about the unrolls of one message, before anything is changed.

    Args:
        keys: the stream of each unroll.
        sequences: its sequence number.
        verdicts: int8 [N], FRESH, DUPLICATE or OLD_INCARNATION.
        num_lost: sequence numbers that were skipped.
        marks: new marks by stream.
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
    """One contiguous mark per stream (run, actor, incarnation, environment) and the newest incarnation per actor.

    The mark is the next sequence number expected. Skipped numbers count as lost and the mark moves past them: an unroll
    that arrives after a later one of its stream is a duplicate, stored or not. So each number below the mark is exactly
    one of inserted, rejected or lost, with one integer per stream instead of a set that grows.
    """

    _marks: dict[StreamKey, int] = field(default_factory=dict, init=False)
    _incarnations: dict[tuple[int, int], int] = field(default_factory=dict, init=False)
    arrived: Counter[tuple[int, int, int]] = field(default_factory=Counter, init=False)
    """Numbers that the marks passed since this was made, by (run, actor, incarnation): one entry per start."""

    def plan(self, headers: np.ndarray) -> Plan:
        """Judge the unrolls of one message (HEADER_DTYPE [N]) in order, changing nothing."""
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
        """Make a plan true; return the streams that ended because a newer incarnation of their actor came."""
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

    def state_dict(self) -> dict[str, Any]:
        """Return what `load_state_dict` needs."""
        return {
            "marks": [[list(key), mark] for key, mark in self._marks.items()],
            "incarnations": [[list(key), incarnation] for key, incarnation in self._incarnations.items()],
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave."""
        self._marks = {tuple(key): mark for key, mark in state["marks"]}
        self._incarnations = {tuple(key): incarnation for key, incarnation in state["incarnations"]}
