"""SAC's update beside Stable-Baselines3's: the distance of the critics after the same weights, batches and noise.

    python benchmarks/sac_updates.py

Batches come from random actions on Hopper-v5. The one difference in the arithmetic: SB3's policy gradient uses the
critics after their update, LASER's before. The result shows whether a difference in returns comes from learning or from
acting.
"""

from __future__ import annotations

import dataclasses
import subprocess
import tempfile
from pathlib import Path
from typing import Literal, cast
from unittest import mock

import gymnasium
import measure
import numpy as np
import peer_venv
import torch

import laser.algorithms.sac
from laser.algorithms.sac import SacNetworks
from laser.environments import describe_environment
from laser.unroll import UnrollSpec
from launch.presets import load_preset
from learner.config import LearnerConfig
from learner.experience.collate import example_batch
from learner.updating.factory import make_updater
from learner.updating.updater import Updater

BATCH_SIZE, LEARNING_RATE = 256, 3e-4
PRECISIONS: tuple[Literal["float32", "bfloat16"], ...] = ("float32", "bfloat16")


def main() -> None:
    """Measure and print."""
    parser = measure.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=5, help="seeds of weights, batches and noise")
    parser.add_argument("--updates", type=int, default=3_000)
    peer_venv.add_option(parser)
    options = parser.parse_args()
    python = peer_venv.peer_python("sb3", options.venvs)
    torch.set_num_threads(1)
    num_seeds, num_updates = (1, 100) if options.quick else (options.seeds, options.updates)
    looks = sorted({1, 10, 100, num_updates})
    results = [compare(python, seed, looks) for seed in range(1, num_seeds + 1)]
    conclusions = []
    for place, look in enumerate(looks):
        theirs = np.array([row["sb3"][place] for row in results])
        for precision in PRECISIONS:
            ours = np.array([row[precision][place] for row in results])
            apart = np.array([row[f"{precision} apart"][place] for row in results])
            conclusions.append(
                f"after {look:,} updates, {precision}: mean Q {np.median(ours):.4g}, SB3's {np.median(theirs):.4g}; "
                f"ratio {np.median(ours / theirs):.4f} ({(ours / theirs).min():.4f} to {(ours / theirs).max():.4f}), "
                f"apart (rms) {np.median(apart):.2g}"
            )
    settings = {"seeds": num_seeds, "updates": num_updates, "quick": options.quick}
    measure.save("sac_updates", settings, results, conclusions)


def compare(python: Path, seed: int, looks: list[int]) -> dict[str, list[float]]:
    """Return mean Q of each side at several numbers of updates, and the root mean square difference from SB3's."""
    step, _ = make_step(seed, "float32")
    given = {**collect(seed, looks[-1]), **weights_of(step), "looks": np.array(looks)}
    with tempfile.TemporaryDirectory() as place:
        source, result = Path(place) / "given.npz", Path(place) / "result.npz"
        np.savez(source, **given)
        script = peer_venv.SCRIPTS / "sb3_sac_updates.py"
        subprocess.run([python, script, source, result], check=True, timeout=3600.0)
        theirs = np.load(result)["q"]
    told = {"sb3": theirs.mean((1, 2)).tolist()}
    for precision in PRECISIONS:
        ours = follow(*make_step(seed, precision), given, looks)
        told[precision] = ours.mean((1, 2)).tolist()
        told[f"{precision} apart"] = np.sqrt(np.square(ours - theirs).mean((1, 2))).tolist()
    return told


def make_step(seed: int, precision: Literal["float32", "bfloat16"]) -> tuple[Updater, UnrollSpec]:
    """Return the preset's updater and the layout of its items."""
    config = load_preset("sac", {})
    environment = describe_environment(config.env, config.environment)
    algorithm = config.algorithm.build(environment, config.network)
    spec = UnrollSpec(1, environment, algorithm.behaviour, dict(algorithm.core_state))
    learner = LearnerConfig(compile="off", precision=precision)
    return make_updater(algorithm, algorithm.seeded_networks(seed), spec, learner, torch.device("cpu"), seed), spec


def weights_of(step: Updater) -> dict[str, np.ndarray]:
    """Return weights [out, in] and biases [out] by `network/number`, in the order of the layers."""
    networks = cast(SacNetworks, step.state.networks)
    head = networks.actor.head
    linears = [layer for layer in networks.actor.encoder.mlp.modules() if isinstance(layer, torch.nn.Linear)]
    layers = {"policy": [(layer.weight, layer.bias) for layer in linears]}
    layers["policy"] += list(zip(head.weight.chunk(2), head.bias.chunk(2), strict=True))  # mean, log deviation
    for number in range(2):
        nets = networks.critics.nets
        pairs = zip(nets.weights, nets.biases, strict=True)
        layers[f"q{number}"] = [(weight[number].T, bias[number, 0]) for weight, bias in pairs]
    return {
        f"{name}/{place}": item.detach().clone().numpy()
        for name, pairs in layers.items()
        for place, item in enumerate(tensor for pair in pairs for tensor in pair)
    }


def collect(seed: int, num_updates: int, num_steps: int = 10_000) -> dict[str, np.ndarray]:
    """Step Hopper-v5 with random actions, and draw batches and noise."""
    env = gymnasium.make("Hopper-v5")
    env.action_space.seed(seed)
    observation, _ = env.reset(seed=seed)
    steps = []
    for _ in range(num_steps):
        action = env.action_space.sample()
        following, reward, terminated, truncated, _ = env.step(action)
        steps.append((observation, action, following, terminated, reward))
        observation = env.reset()[0] if terminated or truncated else following
    names = ("observations", "actions", "next_observations", "terminated", "rewards")
    stored = {name: np.array(column, np.float32) for name, column in zip(names, zip(*steps, strict=True), strict=True)}
    generator = np.random.default_rng(seed)
    drawn = generator.integers(num_steps, size=(num_updates, BATCH_SIZE))
    noise = generator.standard_normal((num_updates, 2, BATCH_SIZE, steps[0][1].size), np.float32)
    looked_at = {f"look_{name}": stored[name][::20] for name in ("observations", "actions")}
    return {name: value[drawn] for name, value in stored.items()} | looked_at | {"noise": noise}


def follow(step: Updater, spec: UnrollSpec, given: dict[str, np.ndarray], looks: list[int]) -> np.ndarray:
    """Apply the updates; return Q [evaluations, 2, states]."""
    data = {name: torch.as_tensor(value) for name, value in given.items()}
    config = load_preset("sac", {}).algorithm
    example = example_batch(spec, BATCH_SIZE, [], config.view)
    (name,) = example.observations
    noise: list[torch.Tensor] = []
    networks = cast(SacNetworks, step.state.networks)
    seen = []
    with mock.patch.object(laser.algorithms.sac, "normal_like", side_effect=lambda *_: noise.pop(0)):
        for number in range(looks[-1]):
            noise += data["noise"][number]
            batch = dataclasses.replace(
                example,
                observations={name: torch.stack([data[key][number] for key in ("observations", "next_observations")])},
                actions=data["actions"][number][None],
                rewards=data["rewards"][number][None],
                discounts=config.discount * (1.0 - data["terminated"][number][None]),
                valid=torch.ones_like(example.valid),
                importance_weights=torch.ones_like(example.importance_weights),
            )
            step(batch, LEARNING_RATE, {})
            if number + 1 in looks:
                with torch.no_grad():
                    values = networks.critics({name: data["look_observations"]}, data["look_actions"])
                seen.append(values.numpy())
    return np.stack(seen)


if __name__ == "__main__":
    main()
