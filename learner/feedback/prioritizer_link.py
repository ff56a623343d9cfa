"""The link between learner and prioritizer: column values, reads of stored steps, metrics of draws."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from laser.algorithms.base import LossOutput
from laser.batch import Batch
from laser.ports import ColumnSpec, ReplayPort, Sample, SampleRequest, wait
from laser.prioritization.base import Lesson, Prioritizer, Replayed
from learner.experience.collate import Correction
from learner.experience.mixing import Mix
from learner.metrics.draw_metrics import DrawMetrics

_READ_DEADLINE_S = 30.0


class PrioritizerLink:
    """Passes batches to the prioritizer and its column values back to the learner.

    `prepare` and `correction` may be called from another thread than the rest.

    Args:
        prioritizer: the rule, or None for a sampler that reads no written column.
        looks: reads stored steps for the rule.
    """

    def __init__(self, prioritizer: Prioritizer | None, looks: ReplayLooks):
        self._prioritizer = prioritizer
        self._looks = looks
        self._draws = DrawMetrics()

    @property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """Columns that the rule writes."""
        return () if self._prioritizer is None else self._prioritizer.columns

    def correction(self, progress: float) -> Correction:
        """Return the correction for non-uniform draws after a fraction `progress` of the run."""
        rule = self._prioritizer
        if rule is None or not rule.corrects:
            return Correction()
        return Correction(rule.config.importance_at(progress), rule.relative_weights)

    def prepare(self, mixes: Sequence[Mix], batches: Sequence[Batch]) -> list[dict[str, Tensor]]:
        """Return the rule's column values that do not depend on the loss; see `Prioritizer.prepare`."""
        pairs = zip(mixes, batches, strict=True)
        replayed = [Replayed(mix.replayed, batch) for mix, batch in pairs if mix.replayed is not None]
        if self._prioritizer is None or not replayed:
            return [{} for _ in mixes]
        results = iter(self._prioritizer.prepare(replayed))
        return [{} if mix.replayed is None else next(results) for mix in mixes]

    def values(self, mix: Mix, batch: Batch, output: LossOutput) -> dict[str, Tensor]:
        """Return the rule's column values of a batch that was learned from, [T or 1, B] by name."""
        if mix.replayed is None:
            return {}
        # Uncorrected draws are uniform ones from a part of the replay.
        all_may_be_drawn = self._prioritizer is None or self._prioritizer.corrects
        probabilities = mix.replayed.probabilities if all_may_be_drawn else None
        self._draws.add(output.per_step, probabilities, mix.replayed.num_draws, len(mix.replayed.unrolls))
        if self._prioritizer is None:
            return {}
        per_step = {name: value.detach() for name, value in output.per_step.items()}
        return self._prioritizer.values(Replayed(mix.replayed, batch), per_step)

    def mark_evaluation(self) -> None:
        """Mark the start of an evaluation for the rule; see `Prioritizer.mark_evaluation`."""
        if self._prioritizer is not None:
            self._prioritizer.mark_evaluation()

    def hear(self, mean_return: float) -> Lesson | None:
        """Pass the agent's mean return to the rule; see `Prioritizer.hear`.

        Raises:
            PortError: the replay could not be read.
        """
        return None if self._prioritizer is None else self._prioritizer.hear(mean_return, self._looks)

    def forget_agent(self) -> None:
        """Make the rule forget the agent's returns, after another agent has taken its place."""
        if self._prioritizer is not None:
            self._prioritizer.forget_agent()

    def metrics(self) -> dict[str, float]:
        """Return metrics of the draws and of the rule, by name."""
        return self._draws.take() | ({} if self._prioritizer is None else self._prioritizer.metrics())

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state; see `Prioritizer.state_dict`."""
        return {"tensors": {}, "numbers": {}} if self._prioritizer is None else self._prioritizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], replay_restored: bool) -> None:
        """Restore the rule's state; without one in `state`, the rule begins anew.

        Args:
            state: from `state_dict`.
            replay_restored: whether the replay has the same content as then; if not, the rule forgets its keys.

        Raises:
            ValueError: the state belongs to other settings.
        """
        if self._prioritizer is None or not state["numbers"]:
            return
        self._prioritizer.load_state_dict(state)
        if not replay_restored:
            self._prioritizer.forget_keys()


class ReplayLooks:
    """Reads stored steps; implements `laser.prioritization.base.ReplayReader`.

    Args:
        replay: holds the steps.
        member: whose columns come with the steps.
        n_step: n of the n-step windows.
        reward_clip: see `SampleRequest`.
        discount: returns the current gamma.
        load: makes a batch of a mix.
    """

    def __init__(
        self,
        replay: ReplayPort,
        member: int,
        n_step: int,
        reward_clip: float,
        discount: Callable[[], float],
        load: Callable[[Mix], Batch],
    ):
        self._replay = replay
        self._member = member
        self._n_step = n_step
        self._reward_clip = reward_clip
        self._discount = discount
        self._load = load

    def read(self, keys: np.ndarray) -> Replayed | None:
        """See `ReplayReader.read`."""
        return self._look(len(keys), keys=keys)

    def draw_uniformly(self, num_items: int) -> Replayed:
        """See `ReplayReader.draw_uniformly`."""
        replayed = self._look(num_items, uniform=True)
        assert replayed is not None, "the replay waits until it holds something"
        return replayed

    def _look(self, num_items: int, **how: Any) -> Replayed | None:
        request = SampleRequest(
            self._member,
            num_items,
            view="steps",
            n_step=self._n_step,
            discount=self._discount(),
            reward_clip=self._reward_clip,
            timeout_s=_READ_DEADLINE_S,
            **how,
        )
        sample: Sample = wait(self._replay.sample(request), _READ_DEADLINE_S, "the replay to show stored steps")
        if not len(sample.unrolls):
            return None
        return Replayed(sample, self._load(Mix(None, sample)))
