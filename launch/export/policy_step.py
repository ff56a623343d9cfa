"""One step of a trained policy as a function of tensors alone, which exporters can trace."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from laser.algorithms.base import ActInput, Algorithm
from laser.ops.frame_stacks import stacks_to_channels
from laser.specs import ArraySpec, CategorySpec, ContinuousActions, EnvironmentSpec, FramesSpec, MaskSpec

_STATE, _NEXT = "state/", "next_state/"  # ONNX allows no output to be called as an input is
_PAST = ("last_action", "last_reward", "first")
_OWN = (*_PAST, "action", "taken")
_SOME_ENVS = 3  # of examples: exporters treat sizes 0 and 1 as constants


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of an exported policy, in order; every array has the environments as its first axis.

    Args:
        inputs: specs by name: the observations; for agents with a memory also `last_action` (in the policy's own
            units), `last_reward`, `first` (True where an episode begins) and `state/NAME`.
        outputs: names: `action`, the most likely one in the environment's units; `policy/NAME`, the statistics of the
            distribution of actions; for agents with a memory `taken`, the next `last_action`, and `next_state/NAME`.
    """

    inputs: dict[str, ArraySpec]
    outputs: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON value: shapes without the first axis."""
        shapes = {name: {"shape": list(spec.shape), "dtype": spec.dtype} for name, spec in self.inputs.items()}
        return {"inputs": shapes, "outputs": list(self.outputs)}

    def example(self) -> tuple[Tensor, ...]:
        """Return zeros for the inputs of a few environments."""
        return tuple(
            torch.zeros((_SOME_ENVS, *spec.shape), dtype=getattr(torch, spec.dtype)) for spec in self.inputs.values()
        )


class PolicyStep(nn.Module):
    """Map observations, and the memory of agents that have one, to actions, the policy's statistics and the new memory.

    Args:
        algorithm: chooses actions.
        networks: its trained networks; they are shared, not copied.
        environment: spaces.
    """

    low: Tensor
    high: Tensor
    start: Tensor

    def __init__(self, algorithm: Algorithm, networks: nn.Module, environment: EnvironmentSpec):
        super().__init__()
        self.networks = networks
        self._algorithm = algorithm
        self._environment = environment
        self._remembers = bool(algorithm.core_state)
        inputs = {input_name(name): _array_of(spec) for name, spec in environment.observations.items()}
        outputs = ["action", *(f"policy/{name}" for name in algorithm.behaviour)]
        if self._remembers:
            inputs |= dict(zip(_PAST, (environment.actions.array, ArraySpec(()), ArraySpec((), "bool")), strict=True))
            inputs |= {_STATE + name: spec for name, spec in algorithm.core_state.items()}
            outputs += ["taken", *(_NEXT + name for name in algorithm.core_state)]
        self.signature = Signature(inputs, tuple(outputs))
        actions = environment.actions
        if isinstance(actions, ContinuousActions):
            self.register_buffer("low", torch.tensor(actions.low, dtype=torch.float32), persistent=False)
            self.register_buffer("high", torch.tensor(actions.high, dtype=torch.float32), persistent=False)
        else:
            self.register_buffer("start", torch.tensor(actions.start or 0, dtype=torch.int64), persistent=False)

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Act once; inputs and outputs are those of `signature`, in its order."""
        named = dict(zip(self.signature.inputs, inputs, strict=True))
        observations = {name: self._as_seen(name, named[input_name(name)]) for name in self._environment.observations}
        num_envs = inputs[0].shape[0]
        action, state = self._environment.actions.array, dict(self._algorithm.core_state)
        if self._remembers:
            last_action, last_reward, first = (named[name] for name in _PAST)
            core_state = {name: named[_STATE + name] for name in state}
        else:
            last_action = inputs[0].new_zeros((num_envs, *action.shape), dtype=getattr(torch, action.dtype))
            last_reward = inputs[0].new_zeros(num_envs, dtype=torch.float32)
            first = inputs[0].new_ones(num_envs, dtype=torch.bool)
            # What only exploration remembers, such as a noise; the most likely action does without.
            core_state = {
                name: inputs[0].new_zeros((num_envs, *spec.shape), dtype=getattr(torch, spec.dtype))
                for name, spec in self._algorithm.acting_state.items()
            }
        seen = ActInput(observations, last_action, last_reward, first, core_state)
        output = self._algorithm.act(self.networks, seen, None, greedy=True)
        found = [self._written(output.actions), *(output.mu[name] for name in self._algorithm.behaviour)]
        if self._remembers:
            found += [output.actions, *(output.core_state[name] for name in state)]
        return tuple(found)

    def _as_seen(self, name: str, value: Tensor) -> Tensor:
        return stacks_to_channels(value) if isinstance(self._environment.observations[name], FramesSpec) else value

    def _written(self, actions: Tensor) -> Tensor:
        """Return actions in the environment's units, as `ActionWriter` writes them."""
        if not isinstance(self._environment.actions, ContinuousActions):
            return actions + self.start
        shape, bounds = self._environment.actions.shape, self._environment.actions.bounds
        if bounds == "clip":
            actions = actions.clamp(-1.0, 1.0)
        elif bounds == "tanh":
            actions = actions.tanh()
        written = self.low + 0.5 * (self.high - self.low) * (actions + 1.0)
        if bounds != "none":
            written = torch.minimum(torch.maximum(written, self.low), self.high)
        return written if shape is None or len(shape) == 1 else written.reshape(written.shape[0], *shape)


def input_name(observation: str) -> str:
    """Return the name of an observation's input: its own, or `observation/NAME` where the file has one of that name."""
    return f"observation/{observation}" if observation in _OWN or "/" in observation else observation


def _array_of(spec: Any) -> ArraySpec:
    if isinstance(spec, FramesSpec):
        return ArraySpec((spec.stack, *spec.frame_shape), "uint8")
    if isinstance(spec, MaskSpec):
        return ArraySpec(spec.shape, "bool")
    return ArraySpec(spec.shape, "int32" if isinstance(spec, CategorySpec) else "float32")
