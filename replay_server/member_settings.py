"""Settings of one member's use of a replay: its online queue, rate limit and columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace

from laser.ports import ColumnSpec


@dataclass(frozen=True)
class RateLimit:
    """Settings of one member's rate limiter, all in env steps.

    `difference = inserts * samples_per_insert - samples` must stay in [min_difference, max_difference], and nothing
    is drawn before `min_steps` have been inserted. The band is `samples_per_insert * min_steps +- error_buffer`.

    Args:
        samples_per_insert: replayed steps drawn per step inserted; inf switches the inequality off.
        min_steps: steps inserted before the first is drawn.
        max_insert_steps: largest number of steps in one insert.
        max_sample_steps: largest number of steps in one sample.
        error_buffer: half the width of the band; None: twice `least_buffer`.

    Raises:
        ValueError: the band is so narrow that inserts and samples could wait for each other for ever.

    Source: Cassirer et al. 2021, "Reverb", section 3.4. The two conditions are ours: while an insert of I steps waits,
    a sample must be possible, (max - min) >= I * samples_per_insert + S, and `min_steps` must be reachable.
    """

    samples_per_insert: float = math.inf
    min_steps: int = 0
    max_insert_steps: int = 1
    max_sample_steps: int = 1
    error_buffer: float | None = None

    def __post_init__(self) -> None:
        if not self.samples_per_insert > 0:
            raise ValueError(f"samples_per_insert must be above 0, got {self.samples_per_insert}")
        if min(self.min_steps, self.max_insert_steps - 1, self.max_sample_steps - 1) < 0:
            raise ValueError(
                "min_steps must be at least 0, max_insert_steps and max_sample_steps at least 1, got "
                f"{self.min_steps}, {self.max_insert_steps} and {self.max_sample_steps}"
            )
        if self.limits and not self.buffer >= self.least_buffer:
            raise ValueError(
                f"error_buffer must be at least {self.least_buffer:g} steps or the rate limiter deadlocks, got "
                f"{self.error_buffer:g}: an insert brings up to {self.max_insert_steps} steps, worth "
                f"{self.max_insert_steps * self.samples_per_insert:g} samples, and a sample takes up to "
                f"{self.max_sample_steps}; widen error_buffer, or make inserts and samples smaller"
            )

    @property
    def limits(self) -> bool:
        """Whether the inequality is on."""
        return math.isfinite(self.samples_per_insert)

    @property
    def least_buffer(self) -> float:
        """The narrowest half-width that cannot deadlock."""
        return max(self.max_insert_steps * self.samples_per_insert, float(self.max_sample_steps))

    @property
    def buffer(self) -> float:
        """Half the width of the band."""
        return 2.0 * self.least_buffer if self.error_buffer is None else self.error_buffer

    @property
    def min_difference(self) -> float:
        """Smallest difference allowed after a sample."""
        return self.samples_per_insert * self.min_steps - self.buffer

    @property
    def max_difference(self) -> float:
        """Largest difference allowed after an insert."""
        return self.samples_per_insert * self.min_steps + self.buffer


@dataclass(frozen=True)
class MemberSettings:
    """One member's settings of a replay.

    Args:
        member: the member's number, as in the headers of its unrolls.
        online_capacity: unrolls that may wait in its online queue, over all shards; 0: it learns from the replay only.
        rate: of its rate limiter; `min_steps` counts over all shards.
        columns: its mutable columns.
        walks_streams: whether it draws episode streams, so that it draws nothing before an episode has finished.
        needs_statistics: whether its samples contain sums of rewards and observations over all stored steps.
    """

    member: int
    online_capacity: int = 0
    rate: RateLimit = field(default_factory=RateLimit)
    columns: tuple[ColumnSpec, ...] = ()
    walks_streams: bool = False
    needs_statistics: bool = False

    def share(self, num_shards: int) -> MemberSettings:
        """Return one shard's share of these settings; columns and steps per call are the same on all shards."""
        return replace(
            self,
            online_capacity=-(-self.online_capacity // num_shards),
            rate=replace(self.rate, min_steps=-(-self.rate.min_steps // num_shards)),
        )
