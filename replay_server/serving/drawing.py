"""Drawing: decides whether a sample request can be answered, and answers it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from laser.ports import Sample, SampleRequest
from replay_server.samplers import Draw
from replay_server.samplers.uniform_steps import draw_beside
from replay_server.serving.assemble import assemble_sequences, assemble_steps, assemble_streams, assemble_unrolls
from replay_server.store.members import Member
from replay_server.store.store import Store


class Drawing:
    """Draws samples from a store. Not thread-safe: its shard's lock guards it.

    Args:
        store: the store to draw from.
        shard: the shard's number in keys.
        rng: of all draws.
    """

    def __init__(self, store: Store, shard: int, rng: np.random.Generator):
        self._store = store
        self._shard = shard
        self._rng = rng

    def lacks(self, request: SampleRequest, stored_ever: int) -> str | None:
        """Return why a request cannot be answered now, or None; `stored_ever` steps were inserted by all members."""
        store, member = self._store, self._store.members[request.member]
        empty = None if store.index.num_steps else "nothing is stored"
        if request.is_look:
            return None if request.keys is not None else empty
        if request.table == "online":
            num_queued = len(member.queue)
            return None if num_queued >= (1 if request.at_most else request.num_items) else f"{num_queued} queued"
        if request.view == "streams":
            empty = None if store.index.num_streamable else "no episode has finished yet"
        if request.view == "sequences":
            starts = store.index.starts
            empty = None if starts is not None and starts.total else "no whole sequence is stored"
        per_item = 1 if request.view == "steps" else store.index.unroll_length
        return member.limiter.sample_lacks(request.num_items * per_item, stored_ever) or empty

    def repeated(self, request: SampleRequest) -> Sample | None:
        """Return the earlier answer to a repeated request for episode streams; None for all other requests."""
        if request.table == "online" or request.view != "streams":
            return None
        return self._store.streams.repeated(request)

    def answer(self, request: SampleRequest) -> Sample:
        """Return a sample for the request, for which `lacks` has returned None."""
        store, member = self._store, self._store.members[request.member]
        if request.is_look:
            draw = draw_beside(store.index, request, self._rng)
            return assemble_steps(store, member, draw, self._shard, request)
        if request.table == "online":
            return self._take_online(member, min(request.num_items, len(member.queue)))
        if request.view == "streams":
            drawn = store.streams.advance(request, self._rng)
            numbers = request.streams or range(request.num_items)
            sample = assemble_streams(store, member, drawn, numbers, self._shard)
            member.limiter.sampled(int(sample.unrolls.fields["valid"].sum()))
            sample = self._with_statistics(sample, request)
            store.streams.keep(request, sample)
            return sample
        draw = member.draw(request.view, request.num_items, request.num_from_log, self._rng)
        num_draws = member.count(request.view, draw)
        if request.view == "steps":
            member.limiter.sampled(request.num_items)
            sample = assemble_steps(store, member, draw, self._shard, request)
        else:
            assemble = assemble_unrolls if request.view == "unrolls" else assemble_sequences
            sample = assemble(store, member, draw, self._shard)
            member.limiter.sampled(int(sample.unrolls.fields["valid"].sum()))
        return self._with_statistics(sample, request, num_draws)

    def _with_statistics(self, sample: Sample, request: SampleRequest, num_draws: np.ndarray | None = None) -> Sample:
        first = sample.keys if sample.keys.ndim == 1 else sample.keys[:, 0]
        ages = self._store.pages.ages(first["page"]) * self._store.index.unroll_length
        statistics = self._store.derived[request.member].statistics()
        num_log = 0 if request.num_from_log is None else self._store.index.num_of_log(request.view)
        return replace(sample, statistics=statistics, ages=ages, num_draws=num_draws, num_stored_log=num_log)

    def _take_online(self, member: Member, num_items: int) -> Sample:
        num_queued = len(member.queue)
        pages = member.dequeue(num_items)
        draw = Draw(pages, np.zeros(num_items, np.int64), np.ones(num_items), num_queued)
        sample = assemble_unrolls(self._store, member, draw, self._shard)
        self._store.release(pages)
        return sample
