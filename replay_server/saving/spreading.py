"""Saved shards spread over another number of shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from replay_server.saving.contents import Contents, join_contents


@dataclass(frozen=True)
class Refill:
    """What one of the new shards takes over.

    Args:
        made_for: properties that the new shard must share (see `Store.fingerprint`).
        contents: unrolls, the oldest first.
        columns: by member and name, the values of these unrolls, [N, T].
        steps: by member, env steps inserted and drawn so far.
    """

    made_for: Mapping[str, Any]
    contents: Contents
    columns: Mapping[int, Mapping[str, np.ndarray]]
    steps: Mapping[int, tuple[int, int]]


def spread(states: Sequence[Mapping[str, Any]], num_shards: int) -> list[Refill | None]:
    """Return what each of `num_shards` shards takes over; None for one that takes over nothing.

    The unrolls of an actor stay together, in their order. Those of different shards are ordered by their age as a share
    of all that was inserted into their shard.

    Args:
        states: saved states of shards, with contents.
        num_shards: number of new shards.
    """
    full = [state for state in states if state["contents"] is not None]
    ages = [state["contents"].positions / max(1, state["store"]["pages"]["num_inserted"]) for state in full]
    order = np.argsort(np.concatenate([*ages, np.empty(0)]), kind="stable")
    ranks = np.empty(len(order), np.int64)
    ranks[order] = np.arange(len(order))
    bounds = np.cumsum([0, *map(len, ages)])
    refills: list[Refill | None] = []
    for shard in range(num_shards):
        parts, columns = [], []
        for place, state in enumerate(full):
            contents = dataclasses.replace(state["contents"], positions=ranks[bounds[place] : bounds[place + 1]])
            mine = contents.headers["actor"] % num_shards == shard
            if mine.any():
                parts.append(contents.where(mine))
                columns.append(_columns(state, mine, contents))
        if not parts:
            refills.append(None)
            continue
        joined = np.sort(np.concatenate([part.positions for part in parts]))
        by_rank = np.argsort(np.concatenate([part.positions for part in parts]))
        values = {
            member: {name: np.concatenate([each[member][name] for each in columns])[by_rank] for name in named}
            for member, named in columns[0].items()
        }
        refills.append(Refill(full[0]["made_for"], join_contents(parts, joined), values, _steps(states, num_shards)))
    return refills


def _columns(state: Mapping[str, Any], mine: np.ndarray, contents: Contents) -> dict[int, dict[str, np.ndarray]]:
    """Return the columns of some of a state's unrolls, in the order of `contents.where(mine)`."""
    pages = state["store"]["pages"]["used"][mine]
    members = state["store"]["members"]
    return {
        int(number): {name: value[pages] for name, value in each["columns"].items()} for number, each in members.items()
    }


def _steps(states: Sequence[Mapping[str, Any]], num_shards: int) -> dict[int, tuple[int, int]]:
    """Return an equal share of the steps that each member's rate limiters have counted."""
    totals: dict[int, tuple[int, int]] = {}
    for state in states:
        for number, each in state["store"]["members"].items():
            before = totals.get(int(number), (0, 0))
            limiter = each["limiter"]
            totals[int(number)] = before[0] + limiter["inserted_steps"], before[1] + limiter["sampled_steps"]
    return {number: (one // num_shards, other // num_shards) for number, (one, other) in totals.items()}
