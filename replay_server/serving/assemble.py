"""Sample assembly: copies drawn pages and rows into one contiguous message."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from laser.ports import KEY_DTYPE, ORIGIN_DTYPE, FrameWindows, Sample, SampleRequest
from laser.unroll import Unrolls
from replay_server.samplers import Draw
from replay_server.serving.windows import fold
from replay_server.store.episode_streams import StreamRows
from replay_server.store.members import Member
from replay_server.store.store import Store


def assemble_unrolls(store: Store, member: Member, draw: Draw, shard: int) -> Sample:
    """Return whole stored unrolls."""
    headers, fields = store.pages.gather(draw.pages)
    return Sample(
        Unrolls(headers, fields, store.frames(draw.pages)),
        _keys(store, draw.pages, draw.rows, shard),
        draw.probabilities,
        draw.num_stored,
        member.columns.gather(draw.pages),
    )


def assemble_steps(store: Store, member: Member, draw: Draw, shard: int, request: SampleRequest) -> Sample:
    """Return n-step windows as T=1 unrolls; boundary rows are the step's observation and the bootstrap observation.

    `rewards` are the folded sums; `terminated` is True if the window ends with a termination; `last_action` and
    `last_reward` are zero at an episode's first step. Images come as `FrameWindows`.
    """
    windows = fold(store.index, draw.pages, draw.rows, request.n_step, request.discount, request.reward_clip)
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
    fields |= _before_rows(store, pages, draw.rows, fields["first"][:, 0])
    return Sample(
        Unrolls(_headers_of_rows(store, draw), fields),
        _keys(store, draw.pages, draw.rows, shard),
        draw.probabilities,
        draw.num_stored,
        member.columns.gather_rows(draw.pages, draw.rows),
        windows.discounts[:, None],
        _frame_windows(store, (pages, windows.pages), (draw.rows, windows.boundaries)),
    )


def assemble_streams(store: Store, member: Member, drawn: StreamRows, streams: Sequence[int], shard: int) -> Sample:
    """Return the next T rows of each episode stream, joined across pages and episodes.

    `last_action` and `last_reward` belong to the row before row 0, and are zero at an episode's first step. Images come
    as `FrameWindows`. Recurrent states are left out: the learner holds them.
    """
    num_stored = store.index.num_streamable
    return _assemble_rows(store, member, drawn, num_stored, shard, np.array(streams, np.int64))


def assemble_sequences(store: Store, member: Member, draw: Draw, shard: int) -> Sample:
    """Return the T rows from each drawn step on, joined across two pages of the same environment.

    `last_action` and `last_reward` are as for episode streams, and so are images. Recurrent states are left out: none
    is stored amid an unroll.
    """
    unroll_length = store.spec.unroll_length
    pages = np.repeat(draw.pages.astype(np.int64)[:, None], unroll_length + 1, axis=1)
    rows = draw.rows[:, None] + np.arange(unroll_length + 1)
    # Row T of a page is row 0 of the next one, which a sequence from row 0 on does not need.
    leaves = (rows >= unroll_length) & (draw.rows > 0)[:, None]
    following = np.broadcast_to(store.index.next_page[draw.pages].astype(np.int64)[:, None], pages.shape)
    places = StreamRows(
        np.where(leaves, following, pages), np.where(leaves, rows - unroll_length, rows), draw.probabilities
    )
    return _assemble_rows(store, member, places, draw.num_stored, shard, None)


def _assemble_rows(
    store: Store, member: Member, drawn: StreamRows, num_stored: int, shard: int, streams: np.ndarray | None
) -> Sample:
    """Return items whose T rows, and a row to bootstrap from, lie at any places of the store."""
    unroll_length = store.spec.unroll_length
    boundaries = drawn.pages * (unroll_length + 1) + drawn.rows
    pages, rows = drawn.pages[:, :-1], drawn.rows[:, :-1]
    steps = pages * unroll_length + rows
    fields = {}
    for name, field in store.spec.fields.items():
        if field.rows != "once":
            at = steps if field.rows == "steps" else boundaries
            fields[name] = store.pages.rows[name].take(at, axis=0)
    fields |= _before_rows(store, pages[:, 0], rows[:, 0], fields["first"][:, 0])
    draw = Draw(pages[:, 0].astype(np.int32), rows[:, 0], drawn.probabilities, num_stored)
    made = store.pages.gather_headers(pages.reshape(-1)).reshape(pages.shape)
    origins = np.empty(pages.shape, ORIGIN_DTYPE)
    for name in ORIGIN_DTYPE.names or ():
        origins[name] = made[name]
    columns = member.columns.gather_rows(pages.reshape(-1), rows.reshape(-1))
    return Sample(
        Unrolls(_headers_of_rows(store, draw), fields),
        _keys(store, pages, rows, shard),
        draw.probabilities,
        draw.num_stored,
        {name: values.reshape(pages.shape) for name, values in columns.items()},
        None,
        _frame_windows(store, list(drawn.pages.T), list(drawn.rows.T)),
        origins,
        streams,
    )


def _before_rows(store: Store, pages: np.ndarray, rows: np.ndarray, first: np.ndarray) -> dict[str, np.ndarray]:
    """Return `last_action` and `last_reward` of rows [N]; zero at an episode's first step."""
    fields = {}
    at_start, begins = np.flatnonzero(rows == 0), np.flatnonzero(first)
    before = pages * store.spec.unroll_length + rows - 1
    for last, now in (("last_action", "actions"), ("last_reward", "rewards")):
        values = store.pages.rows[now].take(before, axis=0, mode="clip")
        values[at_start] = store.pages.fields[last].take(pages[at_start], axis=0)
        values[begins] = 0
        fields[last] = values
    return fields


def _keys(store: Store, pages: np.ndarray, rows: np.ndarray, shard: int) -> np.ndarray:
    keys = np.empty(pages.shape, KEY_DTYPE)
    keys["shard"] = shard
    keys["page"] = pages
    keys["generation"] = store.pages.generation[pages]
    keys["row"] = rows
    return keys


def _headers_of_rows(store: Store, draw: Draw) -> np.ndarray:
    headers = store.pages.gather_headers(draw.pages)
    headers["step_in_episode"] += draw.rows
    split = np.flatnonzero(store.index.begins_inside[draw.pages])
    if len(split):
        # An episode may begin between row 0, which the header describes, and the drawn row.
        rows = draw.rows[split]
        begins = store.pages.fields["first"][draw.pages[split], 1 : store.spec.unroll_length]
        begins &= np.arange(1, store.spec.unroll_length) <= rows[:, None]
        num_begun = begins.sum(axis=1)
        headers["episode"][split] += num_begun
        since_begin = rows - (store.spec.unroll_length - 1 - begins[:, ::-1].argmax(axis=1))
        headers["step_in_episode"][split] = np.where(num_begun, since_begin, headers["step_in_episode"][split])
    return headers


def _frame_windows(store: Store, pages: Sequence[np.ndarray], rows: Sequence[np.ndarray]) -> FrameWindows | None:
    """Return the unrolls and rows from which images are cut; `pages` and `rows` have one array [N] per row."""
    if not store.images:
        return None
    at = np.stack(rows, axis=1)
    distinct, unrolls = np.unique(np.stack(pages, axis=1), return_inverse=True)
    return FrameWindows(store.frames(distinct), store.pages.fields["first"][distinct], unrolls.reshape(at.shape), at)
