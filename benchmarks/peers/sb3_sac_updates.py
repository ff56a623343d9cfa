"""Updates of Stable-Baselines3's SAC from given weights, batches and noise; saves the resulting Q values.

Runs in its own virtual environment (benchmarks/peer_venv.py), for benchmarks/sac_updates.py.
"""

from __future__ import annotations

import argparse
from types import SimpleNamespace

import gymnasium
import numpy as np
import torch
import torch.distributions.normal as normal
from stable_baselines3 import SAC
from stable_baselines3.common.logger import configure
from stable_baselines3.common.type_aliases import ReplayBufferSamples
from torch import nn


def load_linears(module: nn.Module, arrays: list[np.ndarray]) -> None:
    """Copy alternating weights [out, in] and biases [out] into a module's linear layers."""
    layers = [layer for layer in module.modules() if isinstance(layer, nn.Linear)]
    parameters = [item for layer in layers for item in (layer.weight, layer.bias)]
    with torch.no_grad():
        for parameter, array in zip(parameters, arrays, strict=True):
            parameter.copy_(torch.as_tensor(array))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("given", help="a .npz file: weights, batches, noise, and after which updates to look")
    parser.add_argument("result", help="a .npz file to write: Q_1 and Q_2 of the states that are looked at")
    options = parser.parse_args()

    torch.set_num_threads(1)
    given = {name: torch.as_tensor(value) for name, value in np.load(options.given).items()}
    sac = SAC("MlpPolicy", gymnasium.make("Hopper-v5"), learning_rate=3e-4, batch_size=256, device="cpu")
    sac.set_logger(configure(None, []))
    for name, module in (("policy", sac.actor), ("q0", sac.critic.qf0), ("q1", sac.critic.qf1)):
        load_linears(module, [given[key] for key in sorted(given) if key.startswith(f"{name}/")])
    sac.critic_target.load_state_dict(sac.critic.state_dict())

    noise: list[torch.Tensor] = []
    normal._standard_normal = lambda shape, dtype, device: noise.pop(0)
    looks = given["looks"].tolist()
    seen = []
    for number in range(looks[-1]):
        # It draws for the states first, then for those after them.
        noise += [given["noise"][number, 1], given["noise"][number, 0]]
        batch = [given[name][number] for name in ("observations", "actions", "next_observations")]
        batch += [given[name][number].unsqueeze(-1) for name in ("terminated", "rewards")]
        samples = ReplayBufferSamples(*batch)
        sac.replay_buffer = SimpleNamespace(sample=lambda *_, samples=samples, **__: samples)
        sac.train(gradient_steps=1, batch_size=256)
        if number + 1 in looks:
            with torch.no_grad():
                values = sac.critic(given["look_observations"], given["look_actions"])
            seen.append(torch.cat(values, 1).T.numpy())
    np.savez(options.result, q=np.stack(seen))


if __name__ == "__main__":
    main()
