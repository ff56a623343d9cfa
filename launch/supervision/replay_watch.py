"""The watch over a member's replay: its statistics, the accounts of unrolls, and shards that die."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from typing import Any

from laser.ports import PortClosedError, Report, wait
from laser.replay_stats import ReplayStats
from launch.errors import NothingToResumeError
from launch.recording.accounts import Accounts, Ended, ended_for_good
from launch.recording.recorder import Recorder
from launch.recording.replay_gauges import ReplayGauges
from launch.records.replay_segments import SavedShards
from launch.runtimes.runtime import ShardPort, Worker, WorkerDiedError
from launch.supervision.budgets import Budgets
from launch.supervision.restart_watch import RestartWatch
from launch.supervision.settling import settle
from launch.topology import Topology
from replay_server.serving.high_water_marks import HighWaterMarks
from replay_server.serving.ledger import Ledger

_CALL_DEADLINE_S = 120.0
_LOOK_INTERVAL_S = 2.0


class ReplayWatch:
    """Reads the replay's statistics, accounts for unrolls of actors and shards that end, and lets shards begin again.

    A shard that died begins with its part of the newest checkpoint, or empty, and continues its ledger as it was last
    seen. Its actors are replaced by others, which choose a shard anew. Used from one thread.

    Args:
        topology: the member's components.
        recorder: the member's recorder.
        budgets: how often a shard may die.
        newest: reads the newest checkpoint that may hold the replay; None if there is none.
        lost: called for each shard that began again, with a reason and a line for the user.
        say: receives a line about each shard that has ended for good, for the user.
    """

    def __init__(
        self,
        topology: Topology,
        recorder: Recorder,
        budgets: Budgets,
        newest: Callable[[], SavedShards | None],
        lost: Callable[[str, str], None],
        say: Callable[[str], None],
    ):
        self._topology, self._recorder, self._newest, self._lost = topology, recorder, newest, lost
        self._say = say
        self._accounts = Accounts()
        self._ended: set[tuple[int, int]] = set()
        self._budgets = budgets
        self._gauges = ReplayGauges(topology.member.number)
        self._look: Future[ReplayStats] | None = None
        self._looked_at = 0.0
        self._from: dict[int, str] = {}  # the source of each shard that begins again
        self._watches: dict[int, RestartWatch] = {}
        if topology.owns_replay:
            self.watch_shards()

    def watch_shards(self) -> None:
        """Let shards that die begin again from now on, each time `watch` is called."""
        self._watches = {
            index: RestartWatch(
                f"shard {index} of the replay",
                shard.presence,
                partial(self._begin_again, index),
                partial(self._budgets.may_die, f"shard {index}"),
                partial(self._begun, index),
            )
            for index, shard in enumerate(self._topology.shards)
            if self._topology.config.outlasts_deaths
        }

    def take_over(self, other: ReplayWatch) -> None:
        """Let shards that die begin again in the place of another member's watch, with what it has seen of them."""
        self._accounts.take_over(other._accounts)
        self.watch_shards()

    def watch(self) -> None:
        """Let shards that died begin again; learners do without one that ended for good, with its node.

        Raises:
            PortError: a shard died too often, or the last one has ended for good.
        """
        for index, watch in list(self._watches.items()):
            try:
                watch.look()
            except PortClosedError as error:
                if isinstance(error, WorkerDiedError) or len(self._watches) == 1:
                    raise
                del self._watches[index]
                self._accounts.give_up(index)
                self._say(f"{error}; learners draw from the other shards, and what it held is lost")

    def ask(self) -> None:
        """Read the replay's statistics every few seconds, without waiting for them."""
        if self._look is None and time.monotonic() - self._looked_at >= _LOOK_INTERVAL_S:
            self._look, self._looked_at = self._topology.replay.stats(), time.monotonic()
        elif self._look is not None and self._look.done():
            if self._look.exception() is None:
                self.look_at(self._look.result())
            self._look = None

    def look_at(self, stats: ReplayStats) -> None:
        """Report the replay's statistics, and keep them for the time when a shard is lost."""
        self._accounts.look(stats)
        whole = self._accounts.complete(stats)
        self._recorder.report(Report("replay", gauges=self._gauges.gauges(whole, time.monotonic())))

    def look_now(self) -> None:
        """Read the replay's statistics and wait for them."""
        try:
            self.look_at(wait(self._topology.replay.stats(), _CALL_DEADLINE_S, "the replay's statistics"))
        except PortClosedError:
            self._accounts.lose_all_shards()

    def accounts(self) -> list[dict[str, Any]]:
        """Return the accounts of all shards for a checkpoint; of one that has ended for good, as it was last seen."""
        return [self._accounts_of_shard(index, shard) for index, shard in enumerate(self._topology.shards)]

    def _accounts_of_shard(self, index: int, shard: ShardPort) -> dict[str, Any]:
        try:
            return shard.accounts()
        except PortClosedError:
            seen = self._accounts.last_seen(index)
            if seen is None or not self._topology.config.outlasts_deaths:
                raise
            # Its streams have ended with it: its actors have begun others.
            ledger = Ledger(**vars(ended_for_good(seen).ledger))
            return {"streams": HighWaterMarks().state_dict(), "ledger": ledger.state_dict()}

    def end(self, actor: Worker[Any], reason: str) -> None:
        """Open the account of an actor that makes no more unrolls, if it is not open yet."""
        key = (self._topology.actors.index(actor), actor.incarnation)
        if key not in self._ended:
            self._ended.add(key)
            self._accounts.end(self._account_of(actor, reason))

    def settle(self) -> None:
        """Settle what is under way in the stopped member, and report its accounts for the last time."""
        for actor, reason in settle(self._topology):
            self.end(actor, reason)
        self.look_now()
        if self._accounts.has_lost_shards:
            for actor in self._topology.actors:  # its last unrolls may have been on the way to such a shard
                if self._accounts.num_missing(self._account_of(actor, "stopped")):
                    self.end(actor, "stopped")
        self._report()

    def report(self) -> None:
        """Report the unrolls lost with actors and shards; call it at the end, since some may still arrive before."""
        self.look_now()
        self._report()

    def _report(self) -> None:
        self._recorder.report(Report("supervisor", self._accounts.counters()))

    def _begin_again(self, index: int) -> Future[None]:
        state, why = self._newest_usable() if self._topology.config.checkpoint_replay else (None, "")
        parts = [] if state is None else state.replay()
        part = parts[index] if index < len(parts) else None
        seen = self._accounts.last_seen(index)
        if part is not None and (seen is None or part["ledger"]["inserted"] > seen.ledger.inserted):
            part, why = None, "it is newer than the last statistics, so that unrolls would be unaccounted for"
        self._from[index] = "begins empty" + (f", since what was saved cannot be used: {why}" if why else "")
        if state is not None and part is not None:
            self._from[index] = f"continues from {state.checkpoint.path.name}"
        return self._topology.shards[index].begin_again(part, seen)

    def _newest_usable(self) -> tuple[SavedShards | None, str]:
        """Return the newest checkpoint if there is one, and what is wrong with it, or with all of them."""
        try:
            state = self._newest()
        except NothingToResumeError as error:
            return None, str(error.problem.wrong)
        return state, "" if state is None else state.replay_fault

    def _begun(self, index: int) -> None:
        self._lost("shard_died", f"shard {index} of the replay died: another one {self._from[index]}")

    def _account_of(self, actor: Worker[Any], reason: str) -> Ended:
        member, config = self._topology.member, self._topology.config
        num_incarnations = member.incarnations_per_start
        first = member.first_incarnation + actor.incarnation * num_incarnations
        return Ended(
            config.seed,
            member.first_actor + self._topology.actors.index(actor),
            range(first, first + num_incarnations),
            int(self._recorder.last(actor.name, "unrolls")),
            config.num_envs * config.unroll_length,
            reason,
        )
