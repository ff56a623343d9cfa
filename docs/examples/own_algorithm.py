"""An algorithm of your own: V-trace targets with PPO's clipped surrogate in place of the policy gradient.

python own_algorithm.py
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar

from laser import load_preset  # above torch, which reads once what LASER sets for it

# isort: split
import torch
from torch import Generator, nn

import laser
from laser.algorithms.actor_critic import ActorCriticAlgorithm, next_core_state
from laser.algorithms.base import AlgorithmConfig, LossOutput, Schedule, Targets
from laser.batch import Batch
from laser.config import Bounds
from laser.networks.config import NetworkConfig
from laser.ops.policy_gradient import value_loss, weighted_sum
from laser.ops.vtrace import vtrace_targets
from laser.specs import EnvironmentSpec


@dataclass(frozen=True)
class ClippedConfig(AlgorithmConfig):
    """Settings, each with its range and a sentence of help; `AlgorithmConfig` has those that all algorithms share."""

    name: ClassVar[str] = "clipped"

    surrogate_clip: Annotated[float, Bounds(above=0.0, below=1.0), "how far the ratio may leave 1"] = 0.2
    entropy_cost: Annotated[float, Bounds(least=0.0), "weight of the policy's entropy, in nats"] = 0.01
    baseline_cost: Annotated[float, Bounds(least=0.0), "weight of the value loss"] = 0.5

    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Clipped:
        """Return the algorithm; raise ValueError here if it cannot act in these spaces."""
        return Clipped(self, environment, network)


class Clipped(ActorCriticAlgorithm):
    """loss = -E min(rho * adv, clip(rho, 1 - c, 1 + c) * adv) + baseline_cost * value_loss - entropy_cost * entropy.

    The class holds no parameters: networks are arguments, so that actors, learner and tests share one object. Acting
    and the policy statistics that actors store come from `ActorCriticAlgorithm`.
    """

    config: ClippedConfig

    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """Return the scalar to minimise and metrics; a pure function of its arguments."""
        output = self.evaluate(networks, batch)
        # T+1 rows: the last only bootstraps.
        pi = {name: value[:-1] for name, value in output.policy.items()}
        values, bootstrap_value = output.values[:-1], output.values[-1]

        log_pi, entropies = self.distribution.log_prob_and_entropy(pi, batch.actions)
        log_rhos = log_pi - self.distribution.log_prob(batch.mu, batch.actions)
        vs, advantages = vtrace_targets(
            log_rhos.detach(),
            batch.rewards,
            batch.discounts,
            values.detach(),
            bootstrap_value.detach(),
            pg_rho_clip=float("inf"),  # these advantages contain the ratio, which the code below divides out
            valid=batch.valid,
        )
        rhos = log_rhos.clamp(max=20.0).exp()
        advantages = advantages / rhos.detach().clamp(min=1e-6)
        clip = self.config.surrogate_clip
        surrogate = torch.minimum(rhos * advantages, rhos.clamp(1.0 - clip, 1.0 + clip) * advantages)

        # Rows without a transition (`valid` is False) have weight 0 in every sum.
        weights = batch.valid / batch.valid.sum().clamp(min=1)
        policy_loss = -weighted_sum(surrogate, weights)
        baseline_loss = value_loss(values, vs, weights)
        entropy = weighted_sum(entropies, weights)
        loss = policy_loss + self.config.baseline_cost * baseline_loss - self.config.entropy_cost * entropy
        metrics = {"loss": loss, "pg_loss": policy_loss, "value_loss": baseline_loss, "entropy": entropy}
        metrics = {name: value.detach() for name, value in metrics.items()}
        return LossOutput(loss, metrics, core_state=next_core_state(output))


def main(**values: Any) -> laser.TrainResult:
    """Train on CartPole, then play; `values` change the preset as the command line's flags do."""
    algorithm = ClippedConfig(
        learning_rate=1e-3, optimizer="adam", optimizer_epsilon=1e-5, max_gradient_norm=1.0, replay_fraction=0.5
    )
    preset = load_preset("cartpole", {"steps": 30_000, **values})
    result = laser.train(dataclasses.replace(preset, algorithm=algorithm))
    laser.evaluate(result.run_dir, episodes=10)
    return result


if __name__ == "__main__":
    main()
