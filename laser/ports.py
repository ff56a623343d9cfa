"""The Protocols between processes, the messages they carry, and the one way to wait.

Calls return `concurrent.futures.Future`s, in threads and on a cluster alike. Results are immutable and the receiver's.
Failures arrive as `PortError`s; a caller that waits does so through `wait`, so that nothing waits for ever and every
time-out says what was waited for.
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

T = TypeVar("T")


class PortError(RuntimeError):
    """The other side of a port could not do what was asked."""


class PortTimeoutError(PortError, TimeoutError):
    """A deadline passed; the message says what was waited for and what it was waiting on."""


class PortClosedError(PortError):
    """The other side is gone or shutting down."""


def wait(future: Future[T], timeout_s: float, what: str) -> T:
    """Return the future's result, or raise `PortTimeoutError` naming `what` after `timeout_s` seconds."""
    try:
        return future.result(timeout=timeout_s)
    except FutureTimeoutError as error:
        if future.done():  # the call itself timed out at the other side; its message is the better one
            raise
        future.cancel()
        raise PortTimeoutError(f"waited {timeout_s:g} s for {what}") from error


# A key names one row of one stored page. A write through a key whose generation has passed is dropped and counted.
KEY_DTYPE = np.dtype([("shard", np.int32), ("page", np.int32), ("generation", np.int64), ("row", np.int32)])

# Who made a row, where the rows of one item need not come from one unroll; the fields are those of unroll headers.
ORIGIN_DTYPE = np.dtype([("member", np.int32), ("task", np.int32), ("parameter_version", np.int64)])

View = Literal["unrolls", "steps", "streams"]


@dataclass(frozen=True)
class RetraceSpec:
    """How a shard derives a column of Q-retrace; see `replay_server.derived.retrace_sweep`.

    Args:
        discount: gamma until a write says otherwise.
        values: column of state values.
        ratios: column of importance ratios.
        advantages: column of advantages; "" takes them for 0.
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
        initial_from: statistic of mu, one number, that the member's own rows start from instead.
        far_bound: above 1 for a column of importance ratios: steps outside (1 / bound, bound) are counted as
            far-policy, by episode and in all, until a write moves the bound. 0: nothing is counted.
        retrace: for a column that the shard itself keeps at Q-retrace.
    """

    name: str
    initial: float = 0.0
    initial_from: str = ""
    far_bound: float = 0.0
    retrace: RetraceSpec | None = None


@dataclass(frozen=True)
class InsertReceipt:
    """What became of one insert: `num_inserted + num_duplicates + sum(rejected.values())` is what was sent.

    Args:
        num_inserted: unrolls stored now.
        num_duplicates: unrolls that had been stored by an earlier, repeated call.
        rejected: unrolls not stored, by reason.
    """

    num_inserted: int
    num_duplicates: int = 0
    rejected: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class SampleRequest:
    """Ask a replay for experience.

    Args:
        member: who asks; its limiter, columns and online queue are used.
        num_items: how many unrolls, steps or streams.
        table: "online" (each unroll once, only to its own member) or "replay".
        view: what an item is: "unrolls" (whole stored unrolls), "steps" (n-step windows folded into T=1 unrolls),
            "streams" (the next T rows of a reader that walks finished episodes from their first step).
        n_step: n of the n-step view.
        discount: gamma with which the n-step view folds rewards.
        reward_clip: the n-step view clips each reward to +- this before it sums them.
        at_most: for the online table: hand out what is there, from 1 to num_items, instead of exactly num_items.
        stream_set: for streams: a number the learner chose for all of its streams. An unknown set begins anew: every
            stream at an episode's first step, with `first` True in row 0.
        sequence: for streams: counts the set's requests from 0, each sent when the one before was answered. The newest
            one may be repeated, and is answered alike.
        streams: for streams: which of the set, num_items many; empty means 0 to num_items - 1.
        keys: KEY_DTYPE [num_items], for a look beside the sampler: exactly these stored steps; those that are gone are
            left out.
        uniform: for a look beside the sampler: each stored step is equally likely. Looks are of the "steps" view, and
            rate limiters neither hold them up nor count them.
        timeout_s: after this the request fails with a `PortTimeoutError` that says what it lacked.
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
    timeout_s: float = 60.0

    @property
    def is_look(self) -> bool:
        """Whether it goes past the sampler."""
        return self.uniform or self.keys is not None


@dataclass(frozen=True)
class FrameWindows:
    """Where the image observations of items are that are cut at rows: whole compressed unrolls, and the rows meant.

    A shard never decodes. The receiver decodes each unroll once and cuts item i's R observations out of it: for "steps"
    R = 2, its own step and its bootstrap observation; for "streams" R = T + 1, its rows.

    Args:
        frames: compressed frames by image name, of U distinct unrolls as stored.
        first: bool [U, T+1], where episodes begin in them.
        unrolls: int64 [N, R], which of the U unrolls.
        rows: int64 [N, R], the boundary row in 0..T.
    """

    frames: dict[str, PackedFrames]
    first: np.ndarray
    unrolls: np.ndarray
    rows: np.ndarray


@dataclass(frozen=True)
class Sample:
    """What a replay hands out: N items in one contiguous message.

    Args:
        unrolls: the items; for the "steps" view T=1, `rewards` are n-step sums and `discounts` says what remains.
            Streams come without `core_state`, which their learner holds; their headers are of row 0.
        keys: KEY_DTYPE [N], the first row of each item; [N, T], every row, for streams.
        probabilities: float64 [N], the probability with which each item was drawn, global over shards.
        num_stored: items the draw was made from, global over shards.
        columns: float32 [N, T] by column name, the requesting member's.
        discounts: float32 [N, 1] for the "steps" view (gamma^n, 0 after termination), None otherwise.
        frame_windows: image observations of "steps" and "streams" (`unrolls.frames` is empty there), None otherwise.
        origins: ORIGIN_DTYPE [N, T] for streams, whose rows have several makers; None where headers hold for all rows.
        streams: int64 [N], which stream each item belongs to; None for other views.
        statistics: sums over all that is stored, by name, which may be added over shards: of members that count
            far-policy steps or ask for statistics (`replay_server.derived.derived_columns.Derived.statistics`).
        num_draws: int64 [N], how often each item of a sampler's draw was drawn for this member, this time included.
        ages: int64 [N], about how many env steps (rows) were inserted after each item; of draws from the replay only.
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


@dataclass(frozen=True)
class Sweep:
    """How far derived columns follow a write, back through the episodes of the rows written.

    Args:
        reach: "episodes" to their first steps; "changed" until the derived numbers change by no more than `tolerance`;
            "all" everything stored; "none" nothing.
        discount: gamma, from now on.
        tolerance: see `reach`.
    """

    reach: Literal["none", "episodes", "changed", "all"]
    discount: float
    tolerance: float = 0.0


@dataclass(frozen=True)
class ColumnWrites:
    """New numbers for stored rows.

    Args:
        member: whose columns.
        keys: KEY_DTYPE [N]; values start at `keys["row"]`.
        values: float32 [N, T] or [N, 1] by column name.
        final_values: float32 [N] by column name, for the row after each key's, where that one holds an episode's final
            observation; elsewhere they are left out.
        far_bounds: bounds that far-policy steps are counted by from now on, by column name.
        sweep: brings derived columns up to date; None leaves them.
        redraw: samplers that chose at random what may be drawn at all choose anew, on every shard.
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
    """A shard, or a client of many, as actors and learners see it. May be called from any thread."""

    def insert(self, unrolls: Unrolls) -> Future[InsertReceipt]:
        """Store unrolls; the receipt comes once the rate limiters let them in. Repeating a call changes nothing."""

    def sample(self, request: SampleRequest) -> Future[Sample]:
        """Draw items; the sample comes once there is enough and the rate limiter allows it."""

    def write(self, writes: ColumnWrites) -> Future[WriteReceipt]:
        """Write column values."""

    def stats(self) -> Future[ReplayStats]:
        """Return counters and sizes: the ledger, fill, limiter state."""

    def client_state(self) -> dict[str, Any]:
        """Return what the next calls depend on at this side of the port, as JSON values; {} where nothing does."""

    def load_client_state(self, state: dict[str, Any]) -> None:
        """Restore what `client_state` gave."""


@dataclass(frozen=True)
class Parameters:
    """One published version of the networks: what acting needs of their parameters and buffers, flattened, read-only.

    Args:
        version: counts publications from 0.
        vector: float32 [num_parameters]; see `laser.flat_parameters.FlatParameters`.
    """

    version: int
    vector: np.ndarray


class ParameterPort(Protocol):
    """Where the learner publishes and actors look. May be called from any thread."""

    def publish(self, parameters: Parameters) -> Future[None]:
        """Make this the newest version."""

    def newest(self, newer_than: int) -> Future[Parameters | None]:
        """Return the newest version at once, or None when nothing newer than `newer_than` exists."""


@dataclass(frozen=True)
class EpisodeResult:
    """One finished episode, undiscounted and unclipped.

    Args:
        episode_return: sum of the environment's own rewards.
        length: env steps (agent decisions).
        task: index into the environment spec's tasks.
        member: the agent that played it.
    """

    episode_return: float
    length: int
    task: int = 0
    member: int = 0


@dataclass(frozen=True)
class Report:
    """A small message that may be late or lost without harm.

    Args:
        source: who, e.g. "actor/0" or "learner".
        counters: running totals by name (they only grow), e.g. {"env_steps": 512}.
        gauges: newest values by name.
        episodes: episodes finished since the last report.
        at_env_steps: the env steps this belongs to; None means "now".
    """

    source: str
    counters: dict[str, float] = field(default_factory=dict)
    gauges: dict[str, float] = field(default_factory=dict)
    episodes: tuple[EpisodeResult, ...] = ()
    at_env_steps: int | None = None


class ReportPort(Protocol):
    """Where everyone sends reports. Never blocks the sender."""

    def report(self, report: Report) -> None:
        """Hand over a report."""
