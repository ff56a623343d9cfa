"""The part of the replayed steps that came from a log, beside the part that was asked for."""

from __future__ import annotations

import numpy as np

from learner.experience.mixing import Mix


class LogFraction:
    """Counts the replayed steps of batches, and those made by actors of a log, numbered below 0. Used from one thread.

    * `replay/log_share`: the part of the replayed steps that came from a log, since the last report.
    * `replay/log_share_set`: the share of items that is asked for, if one is.
    """

    def __init__(self) -> None:
        self._num_steps = self._num_of_log = 0

    def add(self, mix: Mix) -> None:
        """Count a batch that was learned from."""
        if mix.replayed is None:
            return
        unrolls = mix.replayed.unrolls
        valid = unrolls.fields["valid"]
        self._num_steps += int(np.count_nonzero(valid))
        self._num_of_log += int(np.count_nonzero(valid[unrolls.headers["actor"] < 0]))

    def take(self, asked: float | None) -> dict[str, float]:
        """Return the metrics since the last call; {} without replayed steps.

        Args:
            asked: the share that is asked for; None: none is.
        """
        if not self._num_steps:
            return {}
        taken = {"replay/log_share": self._num_of_log / self._num_steps}
        self._num_steps = self._num_of_log = 0
        return taken if asked is None else taken | {"replay/log_share_set": asked}
