"""A replay that begins with a log: `--init-replay minari:NAME`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import cast

import numpy as np

from laser.futures import done
from laser.messages import take_unrolls
from laser.ports import InsertReceipt, Parameters, ReplayPort, Report
from laser.unroll import Unrolls
from laser.waiting import waiting_for
from launch.factories import make_log_reader
from launch.planning.member_plan import MemberPlan


def fill_from_log(
    member: MemberPlan, shards: Sequence[ReplayPort], look: Callable[[], None] = lambda: None
) -> tuple[Report, str]:
    """Insert every episode of the log `init-replay` into a member's replay, once; the shards share the episodes out.

    The experience is not the agent's own: it is in no online queue, holds up no rate limiter, and its steps are no env
    steps of the run.

    Args:
        member: the member that the experience is stored for.
        shards: of its replay, without other calls to them meanwhile.
        look: called after each round; an error that it raises ends the reading.

    Returns:
        a report of the unrolls that were made, and words for the user.

    Raises:
        PortError: the replay did not take an unroll.
    """
    config, num_unrolls, num_steps = member.config, 0, 0
    with waiting_for(lambda: f"{config.init_replay} to be read into the replay, {num_steps:,} steps so far"):
        for index, shard in enumerate(shards):
            inserts = _WithoutEmpty(shard)
            reader, log = make_log_reader(member, cast(ReplayPort, inserts), _NoParameters(), index, len(shards))
            before, is_over = num_steps, False
            while not is_over:
                is_over = log.is_over  # an episode that ended with the last row has its final observation in the next
                reader.take_turn()
                num_steps = before + inserts.num_steps
                look()
            num_unrolls += inserts.num_unrolls
    words = f"the replay begins with {num_steps:,} steps of {config.init_replay}"
    if num_steps > config.replay.capacity_steps:
        words += f", of which it holds the last {config.replay.capacity_steps:,}"
    return Report("log", {"unrolls": float(num_unrolls)}), words


class _NoParameters:
    """A parameter port without news: a log's actions need none."""

    def publish(self, parameters: Parameters) -> Future[None]:
        """Refuse."""
        raise NotImplementedError("nobody learns from a log while it is read")

    def newest(self, newer_than: int) -> Future[Parameters | None]:
        """Return None."""
        return done(None)


class _WithoutEmpty:
    """The inserts of a replay port, without the unrolls of a log that has ended; it counts the others."""

    def __init__(self, replay: ReplayPort):
        self._replay = replay
        self.num_unrolls = self.num_steps = 0

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """See `ReplayPort.insert`."""
        valid, first = unrolls.fields["valid"], unrolls.fields["first"]
        # Row 0 may be the final observation of an episode that ended with the unroll before.
        kept = np.flatnonzero(valid.any(axis=1) | ~first[:, 0])
        if not len(kept):
            return done(InsertReceipt(0))
        self.num_unrolls += len(kept)
        self.num_steps += int(valid[kept].sum())
        return self._replay.insert(take_unrolls(unrolls, kept))
