"""Everything that is measured of a learner's updates and of the batches that they learned from."""

from __future__ import annotations

from collections.abc import Mapping

from torch import Tensor

from laser.algorithms.base import LossOutput
from laser.algorithms.metrics import MetricMeans
from learner.experience.mixing import Mix
from learner.metrics.age_quantiles import AgeQuantiles
from learner.metrics.consumption import Consumption
from learner.metrics.first_updates import FirstUpdates
from learner.metrics.log_fraction import LogFraction
from learner.metrics.makers import Makers


class UpdateMetrics:
    """Adds up what updates say, until it is taken for a report. Used from one thread.

    Args:
        member: index of the agent in its sweep.
        may_hold_log: whether the replay may hold steps of a log.
    """

    def __init__(self, member: int, *, may_hold_log: bool):
        self._means = MetricMeans()
        self._ages = AgeQuantiles(member)
        self._first = FirstUpdates(member)
        self._learned = Consumption()
        self._makers = Makers(member)
        self._log = LogFraction() if may_hold_log else None

    def add(self, mix: Mix, version: int, metrics: Mapping[str, Tensor], output: LossOutput) -> None:
        """Add an update.

        Args:
            mix: the batch that was learned from.
            version: the newest published version of the parameters.
            metrics: of the update.
            output: of the loss.
        """
        self._means.add(metrics)
        self._learned.add(mix)
        self._ages.add(mix, version)
        self._first.add(mix, version, metrics)
        self._makers.add(mix, output.per_step)
        if self._log is not None:
            self._log.add(mix)

    def take_gauges(self, asked_of_log: float | None) -> dict[str, float]:
        """Return means, ages and shares since the last call.

        Args:
            asked_of_log: the share of replayed items that is asked for of a log; None: none is.
        """
        gauges = self._means.take() | self._ages.take() | self._first.take()
        return gauges if self._log is None else gauges | self._log.take(asked_of_log)

    def take_counts(self) -> dict[str, float]:
        """Return what was learned from, and by whom it was made, since the last call."""
        return self._learned.take() | self._makers.take()
