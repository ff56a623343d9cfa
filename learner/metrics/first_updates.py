"""The measurement of a run's start: what its first updates learned from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from torch import Tensor

from laser.algorithms.metrics import SOURCES, MetricMeans
from learner.experience.mixing import Mix

NUM_UPDATES = 100
_ACCEPTED = "accept_fraction_"


class FirstUpdates:
    """Measures the sources, the age and the acceptance of the first updates' steps. Used from one thread.

    * `start/updates`: number of updates measured.
    * `start/share/SOURCE`: part of the steps from a source (see `SOURCES`).
    * `start/age/SOURCE`: mean age of these steps, in published versions since that of the policy that made them.
      For steps of other members it counts from the newest version of theirs that was drawn.
    * `start/accepted/SOURCE`: part of these steps that the trust region accepts, for losses with one.

    Args:
        member: of the learner.
    """

    def __init__(self, member: int):
        self._member = member
        self._num_updates = 0
        self._steps: defaultdict[str, float] = defaultdict(float)
        self._ages: defaultdict[str, float] = defaultdict(float)
        self._newest_versions: defaultdict[int, int] = defaultdict(int)  # of other members
        self._metrics = MetricMeans()
        self._is_taken = False

    def add(self, mix: Mix, version: int, metrics: Mapping[str, Tensor]) -> None:
        """Measure an update; nothing after the first `NUM_UPDATES`.

        Args:
            mix: the batch.
            version: the learner's newest.
            metrics: of the loss.
        """
        if self._num_updates >= NUM_UPDATES:
            return
        self._num_updates += 1
        self._metrics.add(metrics)
        for part, own in ((mix.online, "online"), (mix.replayed, "own_replay")):
            if part is None:
                continue
            origins = part.unrolls.headers if part.origins is None else part.origins
            first = origins.reshape(len(origins), -1)[:, 0]  # the rows of an item have one maker
            valid = part.unrolls.fields["valid"]
            steps = valid.reshape(len(valid), -1).sum(1)
            for maker in np.unique(first["member"]).tolist():
                theirs = first["member"] == maker
                versions = first["parameter_version"][theirs].astype(np.int64)
                source, newest = own, version
                if maker != self._member:
                    newest = self._newest_versions[maker] = max(self._newest_versions[maker], int(versions.max()))
                    source = "foreign_replay"
                self._steps[source] += float(steps[theirs].sum())
                self._ages[source] += float(((newest - versions) * steps[theirs]).sum())

    def take(self) -> dict[str, float]:
        """Return the measurement, once; {} before the last of the first updates."""
        if self._is_taken or self._num_updates < NUM_UPDATES:
            return {}
        self._is_taken = True
        taken, total = {"start/updates": float(self._num_updates)}, sum(self._steps.values())
        accepted = {name: share for name, share in self._metrics.take().items() if name.startswith(_ACCEPTED)}
        for source in SOURCES.values():
            steps = self._steps[source]
            taken[f"start/share/{source}"] = steps / total if total else 0.0
            if steps:
                taken[f"start/age/{source}"] = self._ages[source] / steps
            if _ACCEPTED + source in accepted:
                taken[f"start/accepted/{source}"] = accepted[_ACCEPTED + source]
        return taken
