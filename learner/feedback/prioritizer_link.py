"""What goes between the learner and the sampler: a rule's numbers, looks at the replay, and metrics of draws."""

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

_LOOK_DEADLINE_S = 30.0


class PrioritizerLink:
    """Feeds the sampler. `prepare` and `correction` may be called from another thread than the rest.

    Args:
        prioritizer: the rule, or None where the sampler goes by nothing that is written.
        looks: reads stored steps for the rule.
    """

    def __init__(self, prioritizer: Prioritizer | None, looks: ReplayLooks):
        self._prioritizer = prioritizer
        self._looks = looks
        self._draws = DrawMetrics()

    @property
    def columns(self) -> tuple[ColumnSpec, ...]:
        """The rule's."""
        return () if self._prioritizer is None else self._prioritizer.columns

    def correction(self, progress: float) -> Correction:
        """Return how losses correct for uneven draws after a fraction `progress` of the run."""
        rule = self._prioritizer
        if rule is None or not rule.corrects:
            return Correction()
        return Correction(rule.config.importance_at(progress), rule.relative_weights)

    def prepare(self, mixes: Sequence[Mix], batches: Sequence[Batch]) -> list[dict[str, Tensor]]:
        """Return what the rule says of batches before the loss; see `Prioritizer.prepare`."""
        pairs = zip(mixes, batches, strict=True)
        replayed = [Replayed(mix.replayed, batch) for mix, batch in pairs if mix.replayed is not None]
        if self._prioritizer is None or not replayed:
            return [{} for _ in mixes]
        said = iter(self._prioritizer.prepare(replayed))
        return [{} if mix.replayed is None else next(said) for mix in mixes]

    def values(self, mix: Mix, batch: Batch, output: LossOutput) -> dict[str, Tensor]:
        """Return the rule's column values of a batch that was learned from, [T or 1, B] by name."""
        if mix.replayed is None:
            return {}
        # Uncorrected draws are even ones from a part of the replay.
        all_may_be_drawn = self._prioritizer is None or self._prioritizer.corrects
        probabilities = mix.replayed.probabilities if all_may_be_drawn else None
        self._draws.add(output.per_step, probabilities, mix.replayed.num_draws, len(mix.replayed.unrolls))
        if self._prioritizer is None:
            return {}
        said = {name: value.detach() for name, value in output.per_step.items()}
        return self._prioritizer.values(Replayed(mix.replayed, batch), said)

    def mark_evaluation(self) -> None:
        """Tell the rule that an evaluation begins; see `Prioritizer.mark_evaluation`."""
        if self._prioritizer is not None:
            self._prioritizer.mark_evaluation()

    def hear(self, mean_return: float) -> Lesson | None:
        """Tell the rule how the agent does now; see `Prioritizer.hear`.

        Raises:
            PortError: the replay could not be read.
        """
        return None if self._prioritizer is None else self._prioritizer.hear(mean_return, self._looks)

    def forget_agent(self) -> None:
        """Tell the rule that another agent has taken this one's place."""
        if self._prioritizer is not None:
            self._prioritizer.forget_agent()

    def metrics(self) -> dict[str, float]:
        """Return what to record."""
        return self._draws.take() | ({} if self._prioritizer is None else self._prioritizer.metrics())

    def state_dict(self) -> dict[str, Any]:
        """Return the rule's state; see `Prioritizer.state_dict`."""
        return {"tensors": {}, "numbers": {}} if self._prioritizer is None else self._prioritizer.state_dict()

    def load_state_dict(self, state: Mapping[str, Any], replay_restored: bool) -> None:
        """Restore what `state_dict` gave; a rule that was not there before begins anew.

        Args:
            state: from `state_dict`.
            replay_restored: the replay holds what it held then.

        Raises:
            ValueError: it belongs to other settings.
        """
        if self._prioritizer is None or not state["numbers"]:
            return
        self._prioritizer.load_state_dict(state)
        if not replay_restored:
            self._prioritizer.forget_keys()


class ReplayLooks:
    """Implements `laser.prioritization.base.ReplayReader`.

    Args:
        replay: where steps are.
        member: whose columns come with them.
        n_step: n of their windows.
        reward_clip: see `SampleRequest`.
        discount: returns gamma as it is now.
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
            timeout_s=_LOOK_DEADLINE_S,
            **how,
        )
        sample: Sample = wait(self._replay.sample(request), _LOOK_DEADLINE_S, "the replay to show stored steps")
        if not len(sample.unrolls):
            return None
        return Replayed(sample, self._load(Mix(None, sample)))
