"""Reactor's first claim: plain importance sampling varies most, truncated less, leave-one-out least.

Two measurements:

* One decision among three actions, enumerated: bias and total variance of every estimator, with a near and a far
  behaviour policy, and with exact action values.
* Agents during training on small recurrent tasks: with the same networks and the same batches from the replay, one
  gradient of the policy's weights per estimator; its total variance over batches, relative to leave-one-out with
  beta = 1.

Source: Gruslys et al. 2017 (the Reactor), section 2.2.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any, cast

import numpy as np
import torch
from parts import measure
from small_agent import SmallAgent

from laser.algorithms.reactor import ESTIMATORS as FUNCTIONS
from laser.algorithms.reactor import ReactorConfig
from launch.presets import load_preset

PI, Q_PI, Q_HAT, NOISE = (0.7, 0.2, 0.1), (1.0, 0.0, 2.0), (0.5, 0.2, 1.0), 0.5
CASES = {
    "mu nearby": ((0.1, 0.3, 0.6), Q_HAT),
    "mu far away": ((0.01, 0.39, 0.6), Q_HAT),
    "mu nearby, exact action values": ((0.1, 0.3, 0.6), Q_PI),
}
ESTIMATORS = {
    "leave-one-out, beta = 1": ("leave_one_out", 1.0),
    "leave-one-out, beta = min(5, 1/mu)": ("leave_one_out", 5.0),
    "importance sampling, truncated at 5": ("importance_sampling", 5.0),
    "importance sampling": ("importance_sampling", float("inf")),
}
ALL = {**ESTIMATORS, "leave-one-out, beta = 1/mu": ("leave_one_out", float("inf"))}
TASKS = ("mini/Catch-v0", "mini/KeyDoor3-v0")


def enumerate_bandit(estimator: str, clip: float, mu: tuple[float, ...], q_hat: tuple[float, ...]) -> dict[str, float]:
    """Return bias and total variance of the gradient with respect to softmax logits."""
    log_pi, exact = torch.tensor(PI, dtype=torch.float64).log(), torch.tensor(Q_PI, dtype=torch.float64)
    outcomes = []
    for action, probability in enumerate(mu):
        for sign in (-1.0, 1.0):
            logits = log_pi.clone().requires_grad_()
            objective = FUNCTIONS[estimator](
                logits.log_softmax(-1),
                torch.tensor(q_hat, dtype=torch.float64),
                exact[action] + sign * NOISE,
                torch.tensor(action),
                torch.tensor(mu, dtype=torch.float64).log(),
                clip,
            )
            outcomes.append((probability / 2.0, torch.autograd.grad(objective, logits)[0].numpy()))
    mean = sum(probability * gradient for probability, gradient in outcomes)
    pi, q_pi = np.array(PI), np.array(Q_PI)
    right = pi * (q_pi - pi @ q_pi)
    variance = sum(probability * ((gradient - mean) ** 2).sum() for probability, gradient in outcomes)
    return {"bias": float(np.linalg.norm(mean - right)), "variance": float(variance)}


def measure_agent(env: str, seed: int, stages: tuple[int, ...], num_batches: int) -> dict[str, list[float]]:
    """Return the total variance of the policy's gradient at each stage, by estimator."""
    values = {"env": env, "seed": seed, "runtime": "lockstep", "learner.replay-core-state": "zero"}
    agent = SmallAgent(load_preset("reactor_mini", values))
    found: dict[str, list[float]] = {label: [] for label in ALL}
    before = 0
    for stage in stages:
        agent.train(stage - before)
        before = stage
        step = agent.learner.updater
        named = [(name, value) for name, value in step.state.networks.named_parameters() if "policy" in name]
        gradients: dict[str, list[np.ndarray]] = {label: [] for label in ALL}
        for _ in range(num_batches):
            ready = None
            while ready is None:
                ready = agent.learner.loader.poll(1.0)
            for label, (estimator, clip) in ALL.items():
                own = cast(ReactorConfig, agent.algorithm.config)
                config = dataclasses.replace(own, estimator=estimator, clip=clip, entropy_cost=0.0)
                algorithm = config.build(agent.environment, agent.config.network)
                targets = {name: target.networks for name, target in step.state.targets.items()}
                loss = algorithm.loss(step.state.networks, targets, ready.batch, {}, None).loss
                parts = torch.autograd.grad(loss, [value for _, value in named])
                gradients[label].append(torch.cat([part.flatten() for part in parts]).double().numpy())
        for label, rows in gradients.items():
            found[label].append(float(np.var(np.stack(rows), axis=0, ddof=1).sum()))
    agent.close()
    return found


def main() -> None:
    made = measure.parser(__doc__)
    made.add_argument("--seeds", type=int, default=5, help="agents per task")
    made.add_argument("--batches", type=int, default=200, help="from which each variance is estimated")
    options = made.parse_args()
    torch.set_num_threads(1)
    begun = time.perf_counter()
    stages = (2_000, 10_000, 20_000)
    if options.quick:
        options.seeds, options.batches, stages = 1, 10, (800, 1_600)
    bandit = {
        case: {label: enumerate_bandit(*ALL[label], mu, q_hat) for label in ALL} for case, (mu, q_hat) in CASES.items()
    }
    conclusions = [
        f"{case}: {label}: bias {row['bias']:.4f}, variance {row['variance']:.4f}"
        for case, rows in bandit.items()
        for label, row in rows.items()
    ]
    agents: dict[str, Any] = {}
    for env in TASKS[:1] if options.quick else TASKS:
        found = [measure_agent(env, seed, stages, options.batches) for seed in range(1, options.seeds + 1)]
        base = np.array([seed["leave-one-out, beta = 1"] for seed in found])
        agents[env] = {label: np.array([seed[label] for seed in found]).tolist() for label in ALL}
        for label, rows in agents[env].items():
            relative = np.median(np.array(rows) / base, axis=0)
            shown = ", ".join(f"{value:.3g} at {stage:,}" for value, stage in zip(relative, stages, strict=True))
            line = f"{env}: {label}: variance relative to beta = 1, by env steps (medians): {shown}"
            print(line, flush=True)
            conclusions.append(line)
    minutes = round((time.perf_counter() - begun) / 60.0, 1)
    settings = {**vars(options), "stages": stages, "minutes": minutes}
    measure.save("claims/reactor_variance", settings, {"bandit": bandit, "agents": agents}, conclusions)


if __name__ == "__main__":
    main()
