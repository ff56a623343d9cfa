"""NERS: a network scores replayed steps jointly, and learns from the change of the agent's return."""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

import numpy as np
import torch
from torch import Tensor, nn

from laser.compilation import cpu_has_bfloat16
from laser.networks.mlp import MLP
from laser.ops.replay_policy import ners_objective, ners_objective_of_code
from laser.ports import ColumnSpec
from laser.prioritization.base import Lesson, Replayed, ReplayReader
from laser.prioritization.config import SamplingConfig
from laser.prioritization.index_set import IndexSet
from laser.prioritization.learned import LearnedPrioritizer, squashed, step_numbers, time_feature
from laser.prioritization.step_features import StepFeatures, Steps
from laser.specs import EnvironmentSpec

SCORE, TD_ERROR, Q_TARGET = "ners_score", "ners_td_error", "ners_q_target"
CONTEXT_SIZES = (256, 512, 256, 128)
SCORE_SIZES = (256, 128, 64)
# No step may become impossible to draw.
_LEAST_SCORE = 1e-6


class ScoreNetwork(nn.Module):
    """Scores in (0, 1) of N steps, each from its own features and from the mean over the features of all steps.

        score_i = sigmoid(f_s([f_l(x_i), mean_j f_g(x_j)]))

    A permutation of the steps permutes the scores.

    Args:
        environment: spec of the steps.
        features: "all" or "few".
        global_context: include f_g.

    Source:
        Oh et al. 2021 (NERS), eqs. 3 and 4, table B.1.
    """

    def __init__(self, environment: EnvironmentSpec, features: Literal["all", "few"], global_context: bool):
        super().__init__()
        self.features = StepFeatures(environment, features)
        width = self.features.num_features
        self.local = MLP(width, CONTEXT_SIZES, "relu")
        self.shared = MLP(width, CONTEXT_SIZES, "relu") if global_context else None
        contexts = 2 if global_context else 1
        self.score = MLP(contexts * CONTEXT_SIZES[-1], SCORE_SIZES, "relu")
        self.output = nn.Linear(SCORE_SIZES[-1], 1)

    def forward(self, steps: Steps, num_batches: int = 1) -> Tensor:
        """Return scores, float32 [N], of consecutive batches of one size; means are taken within each batch."""
        features = self.features(steps).to(self.output.weight.dtype)
        context = self.local(features)
        if self.shared is not None:
            per_step = self.shared(features).unflatten(0, (num_batches, -1))
            together = per_step.mean(1, keepdim=True).expand_as(per_step).flatten(0, 1)
            context = torch.cat([context, together], -1)
        logits: Tensor = self.output(self.score(context)).squeeze(-1)
        return logits.float().sigmoid()


class Ners(LearnedPrioritizer):
    """Writes the scores of drawn steps, from which the sampler `ners` draws: P ~ score^alpha, 1 for steps never drawn.

    Scores depend on stored data only, including TD error and Q target of the step's last draw, so that they need not
    wait for the loss. After each evaluation of the agent, the network takes one step along

        (J(pi) - J(pi before)) * sum_{i in I} grad log p_i

    where I is a uniform subset of the steps drawn between the beginnings of both evaluations. p is normalised over all
    stored steps, estimated from as many steps as in I, drawn uniformly and scored together with I. Losses are corrected
    by (N P)^-beta.

    Source:
        Oh et al. 2021 (NERS), algorithm 1.
    """

    needs: ClassVar[tuple[tuple[str, ...], ...]] = (("td_error",), ("q",))
    columns: ClassVar[tuple[ColumnSpec, ...]] = tuple(ColumnSpec(name, 1.0) for name in (SCORE, TD_ERROR, Q_TARGET))

    def __init__(self, config: SamplingConfig, environment: EnvironmentSpec, device: torch.device, seed: int):
        super().__init__(config, environment, device, seed)
        self.drawn = IndexSet(self.settings.batch_size)  # drawn since the last mark
        self.drawn_before = IndexSet(self.settings.batch_size)  # before the last mark, no return yet
        self._is_marked = False
        self._dtype = _scoring_dtype(device)
        self._scorer = self._frozen()

    @property
    def relative_weights(self) -> bool:
        """See `Prioritizer.relative_weights`."""
        return bool(self.settings.relative_weights)

    def make_network(self, environment: EnvironmentSpec) -> nn.Module:
        """See `LearnedPrioritizer.make_network`."""
        return ScoreNetwork(environment, self.settings.features, self.settings.global_context)

    def prepare(self, replayed: Sequence[Replayed]) -> list[dict[str, Tensor]]:
        """See `Prioritizer.prepare`: return the scores, of all batches at once, so that weights are loaded once."""
        with torch.inference_mode():
            scores = self._scorer(joined([self._steps_of(each) for each in replayed]), len(replayed))
            scores = scores.nan_to_num(1.0).clamp(min=_LEAST_SCORE)
            return [{SCORE: part.unsqueeze(0)} for part in scores.chunk(len(replayed))]

    def values(self, replayed: Replayed, per_step: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """See `Prioritizer.values`: TD errors and Q targets for the next scores, squashed as the paper does."""
        self.drawn.add(replayed.sample.keys, self.rng)
        td_errors = per_step["td_error"]
        seen = squashed(torch.stack([td_errors, td_errors + per_step["q"]]))
        return dict(zip((TD_ERROR, Q_TARGET), seen, strict=True))

    def learn(self, replay_reward: float, reader: ReplayReader) -> Lesson | None:
        """See `LearnedPrioritizer.learn`."""
        keys = self._take_judged()  # before the read: even if it fails, the next reward is not theirs
        replayed = reader.read(keys) if len(keys) else None
        if replayed is None:
            return None
        parts = [self._steps_of(replayed)]
        if self.settings.normalizer == "replay":
            parts.append(self._steps_of(reader.draw_uniformly(self.settings.batch_size)))
        # The scores used for drawing had this minimum too; the logarithm of a score of 0 would end all learning.
        scores = self.network(joined(parts)).clamp(min=_LEAST_SCORE)
        num_drawn = len(parts[0].rewards)  # some keys may no longer be stored
        drawn, others = scores[:num_drawn], scores[num_drawn:]
        self.climb(self._objective(drawn, replay_reward, others))
        self._heard |= {"score_mean": float(scores.detach().mean()), "score_std": float(scores.detach().std())}
        self._heard["steps_learned_from"] = float(len(drawn))
        self._scorer = self._frozen()
        return None

    def _objective(self, drawn: Tensor, replay_reward: float, others: Tensor) -> Tensor:
        if self.settings.normalizer == "none":
            return ners_objective_of_code(drawn, replay_reward)
        stored = others if self.settings.normalizer == "replay" else drawn
        return ners_objective(drawn, replay_reward, self.config.priority_exponent, stored)

    def mark_evaluation(self) -> None:
        """See `Prioritizer.mark_evaluation`; if a mark gets no return, its draws count for the next mark."""
        self.drawn_before.take_over(self.drawn)
        self._is_marked = True

    def forget_judged(self) -> None:
        """See `LearnedPrioritizer.forget_judged`."""
        self._take_judged()

    def forget_keys(self) -> None:
        """See `Prioritizer.forget_keys`."""
        self.drawn.clear()
        self.drawn_before.clear()

    def state_dict(self) -> dict[str, Any]:
        """See `Prioritizer.state_dict`."""
        state = super().state_dict()
        state["numbers"] |= {"drawn": self.drawn.state_dict(), "drawn_before": self.drawn_before.state_dict()}
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """See `Prioritizer.load_state_dict`."""
        super().load_state_dict(state)
        self.drawn.load_state_dict(state["numbers"]["drawn"])
        if "drawn_before" in state["numbers"]:
            self.drawn_before.load_state_dict(state["numbers"]["drawn_before"])
        self._scorer = self._frozen()

    def _take_judged(self) -> np.ndarray:
        if not self._is_marked:
            self.drawn_before.take_over(self.drawn)
        keys, self._is_marked = self.drawn_before.keys, False
        self.drawn_before.clear()
        return keys

    def _steps_of(self, replayed: Replayed) -> Steps:
        return steps_of(replayed, self.settings.bounded_twice)

    def _frozen(self) -> nn.Module:
        # A copy, so that another thread may score while the network is trained.
        return copy.deepcopy(self.network).requires_grad_(False).to(self._dtype)


def steps_of(replayed: Replayed, bounded_twice: bool = False) -> Steps:
    """Return the inputs of the scores, from stored data; `bounded_twice`: see `NersConfig`."""
    batch = replayed.batch
    rewards, td_errors, q_targets = batch.rewards[0], batch.columns[TD_ERROR][0], batch.columns[Q_TARGET][0]
    observations = {name: value[:2] for name, value in batch.observations.items()}
    if not bounded_twice:
        return Steps(observations, batch.actions[0], rewards, time_feature(replayed, rewards), td_errors, q_targets)
    times = step_numbers(replayed, rewards).tanh()
    return Steps(observations, batch.actions[0], rewards, times, td_errors.tanh(), q_targets.tanh())


def joined(parts: Sequence[Steps]) -> Steps:
    """Return the concatenated steps."""
    if len(parts) == 1:
        return parts[0]
    names = [item.name for item in dataclasses.fields(Steps) if item.name != "observations"]
    observations = {name: torch.cat([part.observations[name] for part in parts], 1) for name in parts[0].observations}
    return Steps(observations, **{name: torch.cat([getattr(part, name) for part in parts]) for name in names})


def _scoring_dtype(device: torch.device) -> torch.dtype:
    # Three digits suffice for scores, which set how often a step is drawn, and take a third of the time on such CPUs.
    if device.type == "cuda":
        return torch.float32
    return torch.bfloat16 if cpu_has_bfloat16() else torch.float32
