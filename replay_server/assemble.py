"""Assembling samples: from drawn pages and rows to one contiguous message."""

from __future__ import annotations

import numpy as np

from laser.ports import KEY_DTYPE, FrameWindows, Sample
from laser.unroll import Unrolls
from replay_server.members import Member
from replay_server.samplers import Draw
from replay_server.store import Store
from replay_server.windows import Windows, fold


def assemble_unrolls(store: Store, member: Member, draw: Draw, shard: int) -> Sample:
    """Return whole stored unrolls."""
    headers, fields = store.pages.gather(draw.pages)
    return Sample(
        Unrolls(headers, fields, store.frames(draw.pages)),
        _keys(store, draw, shard),
        draw.probabilities,
        draw.num_stored,
        member.columns.gather(draw.pages),
    )


def assemble_steps(store: Store, member: Member, draw: Draw, shard: int, num_steps: int, discount: float) -> Sample:
    """Return n-step windows as T=1 unrolls: boundary rows are the step's observation and the one to bootstrap from.

    `rewards` are the folded sums, `terminated` says that the window ends with a termination, `last_action` and
    `last_reward` are zero at an episode's first step. Images come as `FrameWindows`.
    """
    windows = fold(store.index, draw.pages, draw.rows, num_steps, discount)
    unroll_length = store.spec.unroll_length
    pages = draw.pages.astype(np.int64)
    steps = pages * unroll_length + draw.rows
    boundaries = np.empty((len(pages), 2), np.int64)
    boundaries[:, 0] = pages * (unroll_length + 1) + draw.rows
    boundaries[:, 1] = windows.pages * np.int64(unroll_length + 1) + windows.boundaries
    fields = {
        "rewards": windows.rewards[:, None],
        "terminated": windows.terminated[:, None],
        "valid": np.ones((len(pages), 1), bool),  # samplers draw valid steps only
    }
    for name, field in store.spec.fields.items():
        if name in fields:
            continue
        if field.rows == "steps":
            fields[name] = store.pages.rows[name].take(steps, axis=0)[:, None]
        elif field.rows == "boundaries":
            fields[name] = store.pages.rows[name].take(boundaries, axis=0)
    at_start = np.flatnonzero(draw.rows == 0)
    first = np.flatnonzero(fields["first"][:, 0])
    for last, now in (("last_action", "actions"), ("last_reward", "rewards")):
        values = store.pages.rows[now].take(steps - 1, axis=0, mode="clip")
        values[at_start] = store.pages.fields[last].take(pages[at_start], axis=0)
        values[first] = 0
        fields[last] = values
    return Sample(
        Unrolls(_headers_of_rows(store, draw), fields),
        _keys(store, draw, shard),
        draw.probabilities,
        draw.num_stored,
        member.columns.gather_rows(draw.pages, draw.rows),
        windows.discounts[:, None],
        _frame_windows(store, draw, windows) if store.images else None,
    )


def _keys(store: Store, draw: Draw, shard: int) -> np.ndarray:
    keys = np.empty(len(draw.pages), KEY_DTYPE)
    keys["shard"] = shard
    keys["page"] = draw.pages
    keys["generation"] = store.pages.generation[draw.pages]
    keys["row"] = draw.rows
    return keys


def _headers_of_rows(store: Store, draw: Draw) -> np.ndarray:
    headers = store.pages.gather_headers(draw.pages)
    headers["step_in_episode"] += draw.rows
    split = np.flatnonzero(store.index.begins_inside[draw.pages])
    if len(split):
        # Episodes that begin between row 0, which the header describes, and the drawn row.
        rows = draw.rows[split]
        begins = store.pages.fields["first"][draw.pages[split], 1 : store.spec.unroll_length]
        begins &= np.arange(1, store.spec.unroll_length) <= rows[:, None]
        num_begun = begins.sum(axis=1)
        headers["episode"][split] += num_begun
        since_begin = rows - (store.spec.unroll_length - 1 - begins[:, ::-1].argmax(axis=1))
        headers["step_in_episode"][split] = np.where(num_begun, since_begin, headers["step_in_episode"][split])
    return headers


def _frame_windows(store: Store, draw: Draw, windows: Windows) -> FrameWindows:
    both = np.stack([draw.pages, windows.pages], axis=1)
    pages, unrolls = np.unique(both, return_inverse=True)
    rows = np.stack([draw.rows, windows.boundaries], axis=1)
    first = store.pages.fields["first"][pages]
    return FrameWindows(store.frames(pages), first, unrolls.reshape(both.shape), rows)
