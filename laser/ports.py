"""Ports: the Protocols between processes, the messages they carry, and `wait`.

Calls return `concurrent.futures.Future`s, in threads as on a cluster. Results are immutable and belong to the receiver.
Failures arrive as `PortError`s. Callers wait through `wait` only, so that every wait ends, and the message of every
time-out names what was waited for.
"""

from __future__ import annotations

import math
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeVar

import numpy as np

from laser.replay_stats import ReplayStats
from laser.unroll import PackedFrames, Unrolls
from laser.waiting import waiting_for

T = TypeVar("T")


class PortError(RuntimeError):
    """The other side of a port could not serve the call."""


class PortTimeoutError(PortError, TimeoutError):
    """A deadline passed; the message names what was waited for."""


class PortClosedError(PortError):
    """The other side is gone or shutting down."""


class NodeLostError(PortClosedError):
    """The other side has ended with its node, and nothing can start it again there."""


class NoPlaceError(NodeLostError):
    """A part cannot be placed: no node is left that has what it needs, such as a GPU."""


class PortAwayError(PortClosedError):
    """The other side is out of reach, or lost its contents and is being started anew: ask again."""


def wait(future: Future[T], timeout_s: float, what: str) -> T:
    """Return the future's result, or raise `PortTimeoutError` naming `what` after `timeout_s` seconds."""
    try:
        if future.done():
            return future.result()
        with waiting_for(what):
            return future.result(timeout=timeout_s)
    except FutureTimeoutError as error:
        if future.done():  # the call timed out at the other side, whose message says more
            raise
        future.cancel()
        raise PortTimeoutError(f"waited {timeout_s:g} s for {what}") from error


# A key names one row of one stored page. A write through a key with an outdated generation is dropped and counted.
KEY_DTYPE = np.dtype([("shard", np.int32), ("page", np.int32), ("generation", np.int64), ("row", np.int32)])

# The origin of a row, for items whose rows come from several unrolls; the fields are those of unroll headers.
ORIGIN_DTYPE = np.dtype([("member", np.int32), ("task", np.int32), ("parameter_version", np.int64)])

View = Literal["unrolls", "steps", "streams", "sequences"]


@dataclass(frozen=True)
class RetraceSpec:
    """Inputs of a Q-retrace column that a shard derives; see `replay_server.derived.retrace_sweep`.

    Args:
        discount: gamma, until a write changes it.
        values: column of state values.
        ratios: column of importance ratios.
        advantages: column of advantages; "": all are 0.
        lambda_: in [0, 1], shortens the traces.
    """

    discount: float
    values: str
    ratios: str
    advantages: str = ""
    lambda_: float = 1.0


@dataclass(frozen=True)
class ColumnSpec:
    """A mutable number per stored step, declared by an algorithm; each member of a sweep has its own.

    Args:
        name: e.g. "priority".
        initial: value of a row that was never written.
        initial_from: statistic of mu, one number per row, that replaces `initial` in the member's own rows.
        far_bound: for a column of importance ratios, a bound above 1: steps outside (1 / bound, bound) are counted as
            far-policy, per episode and in total, until a write changes the bound. 0: nothing is counted.
        retrace: set for a column that the shard itself fills with Q-retrace; None for all others.
    """

    name: str
    initial: float = 0.0
    initial_from: str = ""
    far_bound: float = 0.0
    retrace: RetraceSpec | None = None


@dataclass(frozen=True)
class InsertReceipt:
    """Outcome of one insert: `num_inserted + num_duplicates + sum(rejected.values())` is the number sent.

    Args:
        num_inserted: unrolls stored now.
        num_duplicates: unrolls that an earlier call had stored.
        rejected: unrolls not stored, by reason.
    """

    num_inserted: int
    num_duplicates: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleRequest:
    """A request for experience from a replay.

    Args:
        member: the member that asks; its limiter, columns and online queue are used.
        num_items: number of unrolls, steps or episode streams.
        table: "online" (each unroll once, only to its own member) or "replay".
        view: what an item is: "unrolls" (whole stored unrolls), "steps" (n-step windows folded into T=1 unrolls),
            "streams" (the next T rows of an episode stream, which reads finished episodes from their first step),
            "sequences" (T rows in a row that begin at any stored step, across stored unrolls).
        n_step: n of the n-step view.
        discount: gamma with which the n-step view folds rewards.
        reward_clip: the n-step view clips each reward to +- this before it sums them.
        at_most: for the online table: take as many as are there, from 1 to num_items, instead of exactly num_items.
        stream_set: for streams: a number that the learner chose for all of its episode streams. In an unknown set every
            stream begins at an episode's first step, with `first` True in row 0.
        sequence: for streams: number of this request of the set, from 0. A request is sent after the answer to the
            previous one. The newest one may be repeated, and gets the same answer.
        streams: for streams: indices in the set, num_items many; empty: 0 to num_items - 1.
        keys: KEY_DTYPE [num_items], for a read that bypasses the sampler: exactly these stored steps. Steps that are no
            longer stored are left out.
        uniform: for a read that bypasses the sampler: each stored step is equally likely. Such reads are of the "steps"
            view, and rate limiters neither delay nor count them.
        num_from_log: how many of the items are drawn from the experience of a log, the others from what actors made;
            where one of them has no item, all come from the other. None: all items are drawn alike.
        timeout_s: after this the request fails with a `PortTimeoutError` whose message says what was missing.
    """

    member: int
    num_items: int
    table: Literal["online", "replay"] = "replay"
    view: View = "unrolls"
    n_step: int = 1
    discount: float = 1.0
    reward_clip: float = math.inf
    at_most: bool = False
    stream_set: int = 0
    sequence: int = 0
    streams: tuple[int, ...] = ()
    keys: np.ndarray | None = field(default=None, compare=False)
    uniform: bool = False
    num_from_log: int | None = None
    timeout_s: float = 60.0

    @property
    def is_look(self) -> bool:
        """Whether this request bypasses the sampler."""
        return self.uniform or self.keys is not None


@dataclass(frozen=True)
class FrameWindows:
    """Image observations of items that are parts of unrolls: whole compressed unrolls, and the rows of each item.

    A shard never decodes. The receiver decodes each unroll once and cuts item i's R observations out of it: for "steps"
    R = 2, the step and its bootstrap observation; for "streams" and "sequences" R = T + 1, all of its rows.

    Args:
        frames: compressed frames by image name, of U distinct unrolls as stored.
        first: bool [U, T+1], True where episodes begin in these unrolls.
        unrolls: int64 [N, R], index of the unroll, below U.
        rows: int64 [N, R], boundary row in that unroll, 0..T.
    """

    frames: dict[str, PackedFrames]
    first: np.ndarray
    unrolls: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Sample:
    """The answer of a replay: N items in one contiguous message.

    Args:
        unrolls: the items. In the "steps" view T=1 and `rewards` are n-step sums, which go with `discounts`. Items of
            episode streams have no `core_state`, which their learner holds, and sequences have none, since no state is
            stored amid an unroll; the headers of both are those of row 0.
        keys: KEY_DTYPE [N], the first row of each item; [N, T], every row, for streams and sequences.
        probabilities: float64 [N], the probability of drawing each item, global over shards.
        num_stored: number of items that could be drawn, global over shards.
        columns: float32 [N, T] by column name, of the requesting member.
        discounts: float32 [N, 1] for the "steps" view (gamma^n, 0 after termination), None otherwise.
        frame_windows: image observations of "steps", "streams" and "sequences" (`unrolls.frames` is empty there), None
            otherwise.
        origins: ORIGIN_DTYPE [N, T] for streams and sequences, whose rows have several origins; None where headers hold
            for all rows.
        streams: int64 [N], index of the episode stream of each item; None for other views.
        statistics: sums over all stored steps, by name, which may be added over shards; only for members that count
            far-policy steps or request statistics (`replay_server.derived.derived_columns.Derived.statistics`).
        num_draws: int64 [N], how often the sampler has drawn each item for this member, including this time.
        ages: int64 [N], approximate number of env steps (rows) inserted after each item; for replay draws only.
        num_stored_log: how many of the `num_stored` items are of a log; only for a request with `num_from_log`, else 0.
    """

    unrolls: Unrolls
    keys: np.ndarray
    probabilities: np.ndarray
    num_stored: int
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    discounts: np.ndarray | None = None
    frame_windows: FrameWindows | None = None
    origins: np.ndarray | None = None
    streams: np.ndarray | None = None
    statistics: dict[str, np.ndarray] = field(default_factory=dict)
    ages: np.ndarray | None = None
    num_draws: np.ndarray | None = None
    num_stored_log: int = 0


@dataclass(frozen=True)
class Sweep:
    """Update of derived columns after a write, backwards through the episodes of the rows written.

    Args:
        reach: "episodes": to their first steps; "changed": until derived numbers change by no more than `tolerance`;
            "all": everything stored; "none": nothing.
        discount: new value of gamma.
        tolerance: see `reach`.
    """

    reach: Literal["none", "episodes", "changed", "all"]
    discount: float
    tolerance: float = 0.0


@dataclass(frozen=True)
class ColumnWrites:
    """New numbers for stored rows.

    Args:
        member: the member whose columns are written.
        keys: KEY_DTYPE [N]; values start at `keys["row"]`.
        values: float32 [N, T] or [N, 1] by column name.
        final_values: float32 [N] by column name, for the row after each key's row. They are written only where that row
            holds an episode's final observation.
        far_bounds: new bounds for counting far-policy steps, by column name.
        sweep: update of the derived columns; None: no update.
        redraw: samplers that draw from a random subset choose a new subset, on every shard.
    """

    member: int
    keys: np.ndarray
    values: dict[str, np.ndarray]
    final_values: dict[str, np.ndarray] = field(default_factory=dict)
    far_bounds: dict[str, float] = field(default_factory=dict)
    sweep: Sweep | None = None
    redraw: bool = False


@dataclass(frozen=True)
class WriteReceipt:
    """Rows written, and rows dropped because their page had been reused (stale generation)."""

    num_written: int
    num_stale: int


class ReplayPort(Protocol):
    """A shard, or a client of several, as actors and learners see it. May be called from any thread."""

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """Store unrolls; the receipt comes once the rate limiters let them in. Repeating a call changes nothing."""

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """Draw items; the sample comes once enough is stored and the rate limiter allows the draw."""

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """Write column values."""

    def stats(self) -> Future[ReplayStats]:
        """Return counters and sizes: the ledger, fill, limiter state."""

    def client_state(self) -> dict[str, Any]:
        """Return the state on this side of the port that later calls depend on, as JSON values; {} if there is none."""

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Restore a state from `client_state`."""


@dataclass(frozen=True)
class Parameters:
    """One published version of the networks: the parameters and buffers that acting needs, flattened, read-only.

    Args:
        version: number of the publication, from 0.
        vector: float32 [num_parameters]; see `laser.flat_parameters.FlatParameters`.
    """

    version: int
    vector: np.ndarray


class ParameterPort(Protocol):
    """The store where the learner publishes and actors fetch parameters. May be called from any thread."""

    def publish(self, parameters: Parameters) -> Future[None]:
        """Make this the newest version."""

    def newest(self, newer_than: int) -> Future[Parameters | None]:
        """Return the newest version without waiting, or None if it is not newer than `newer_than`."""


@dataclass(frozen=True)
class EpisodeResult:
    """One finished episode, undiscounted and unclipped.

    Args:
        episode_return: sum of the environment's own rewards.
        length: env steps (agent decisions).
        task: index into the environment spec's tasks.
        member: the member that played the episode.
    """

    episode_return: float
    length: int
    task: int = 0
    member: int = 0


@dataclass(frozen=True)
class Report:
    """A small message that may be late or lost without harm.

    Args:
        source: the sender, e.g. "actor/0" or "learner".
        counters: running totals by name (they only grow), e.g. {"env_steps": 512}.
        gauges: newest values by name.
        episodes: episodes finished since the last report.
        at_env_steps: env steps of the run to which the report belongs; None: those at its arrival.
    """

    source: str
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    episodes: tuple[EpisodeResult, ...] = ()
    at_env_steps: int | None = None


class ReportPort(Protocol):
    """The receiver of all reports. Never blocks the sender."""

    def report(self, report: Report) -> None:
        """Send a report."""
