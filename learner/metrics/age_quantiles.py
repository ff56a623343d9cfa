"""Quantiles of the policy lag and replay age of the newest batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from laser.ports import Sample
from learner.experience.mixing import Mix
from learner.quantiles import WITH_LARGEST, named_quantiles

# Newest batches between two reports that count: enough for quantiles, and a bound on memory and time.
_MOST_BATCHES = 32


@dataclass(slots=True)
class _Made:
    version: int
    online: np.ndarray | None  # member and parameter version that made each row
    replayed: np.ndarray | None
    ages: np.ndarray | None


class AgeQuantiles:
    """Summarises policy lag and replay age of the newest batches. Used from one thread.

    * `policy_lag/online/...` and `policy_lag/own_replay/...`: parameter versions, for the member's own experience.
    * `policy_lag/foreign_replay/...`: versions of the member that made the experience, behind the newest version of
      that member drawn so far. Each member counts its own versions, and other members are not asked for theirs.
    * `replay_age/...`: env steps inserted since.

    Each has `p10`, `p50`, `p90` and `max`: a mean would not separate experience of middling age from mostly fresh
    experience with some very old.

    Args:
        member: of the learner.
    """

    def __init__(self, member: int):
        self._member = member
        self._newest: deque[_Made] = deque(maxlen=_MOST_BATCHES)
        self._newest_versions: dict[int, int] = {}  # of other members

    def add(self, mix: Mix, version: int) -> None:
        """Count a batch; `version` is the learner's newest."""
        ages = None if mix.replayed is None else mix.replayed.ages
        self._newest.append(_Made(version, _makers(mix.online), _makers(mix.replayed), ages))

    def take(self) -> dict[str, float]:
        """Return the quantiles over the newest batches since the last call; metrics without values are left out."""
        found: dict[str, np.ndarray] = {}
        foreign: list[np.ndarray] = []
        online = [(made.version, made.online) for made in self._newest if made.online is not None]
        replayed = [(made.version, made.replayed) for made in self._newest if made.replayed is not None]
        for name, parts in (("online", online), ("own_replay", replayed)):
            if parts:
                makers = np.concatenate([part["member"].reshape(-1) for _, part in parts])
                versions = np.concatenate([part["parameter_version"].reshape(-1) for _, part in parts])
                newest = np.repeat([version for version, _ in parts], [part.size for _, part in parts])
                is_own = makers == self._member
                found[f"policy_lag/{name}"] = (newest - versions)[is_own]
                foreign += self._foreign_lags(makers[~is_own], versions[~is_own])
        found["policy_lag/foreign_replay"] = np.concatenate(foreign) if foreign else np.empty(0)
        ages = [made.ages for made in self._newest if made.ages is not None]
        found["replay_age"] = np.concatenate(ages) if ages else np.empty(0)
        self._newest.clear()
        taken: dict[str, float] = {}
        for name, values in found.items():
            if values.size:
                taken |= named_quantiles(name, values, WITH_LARGEST)
        return taken

    def _foreign_lags(self, makers: np.ndarray, versions: np.ndarray) -> Iterator[np.ndarray]:
        for maker in np.unique(makers).tolist() if makers.size else ():
            theirs = versions[makers == maker]
            self._newest_versions[maker] = max(self._newest_versions.get(maker, 0), int(theirs.max()))
            yield self._newest_versions[maker] - theirs


def _makers(part: Sample | None) -> np.ndarray | None:
    if part is None:
        return None
    return part.unrolls.headers if part.origins is None else part.origins
