"""The policy of an actor: networks on one device, one published version at a time, NumPy in and out."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from laser.algorithms.base import ActInput, ActOutput, Algorithm
from laser.compilation import has_bfloat16
from laser.compiled_program import CompilationError, CompiledProgram
from laser.flat_parameters import FlatParameters, call_with
from laser.gpu import finish, on_stream
from laser.graphed_program import GraphedProgram
from laser.host_calls import HostCalls
from laser.ops.frame_stacks import stacks_to_channels
from laser.ports import Parameters
from laser.specs import EnvironmentSpec, FramesSpec


class PolicyState:
    """The state of a policy for N environments between two steps.

    Args:
        num_envs: N.
        environment: spec with the shape of actions.
        algorithm: algorithm with the shape of the recurrent state.
    """

    def __init__(self, num_envs: int, environment: EnvironmentSpec, algorithm: Algorithm):
        action = environment.actions.array
        self.last_action = np.zeros((num_envs, *action.shape), action.dtype)
        self.last_reward = np.zeros(num_envs, np.float32)
        self.first = np.ones(num_envs, bool)
        state = {**algorithm.core_state, **algorithm.acting_state}
        self.core_state = {name: np.zeros((num_envs, *array.shape), array.dtype) for name, array in state.items()}

    def state_dict(self) -> dict[str, Any]:
        """Return copies of all arrays."""
        core = {f"core_state/{name}": value.copy() for name, value in self.core_state.items()}
        return {
            "last_action": self.last_action.copy(),
            "last_reward": self.last_reward.copy(),
            "first": self.first.copy(),
            **core,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`; copies the arrays, which from another process cannot be written."""
        self.last_action, self.last_reward = state["last_action"].copy(), state["last_reward"].copy()
        self.first = state["first"].copy()
        self.core_state = {name: state[f"core_state/{name}"].copy() for name in self.core_state}


class Policy:
    """Acts for many environments with the parameters loaded last. Used from one thread.

    Args:
        algorithm: algorithm that chooses actions.
        environment: spaces.
        seed: seed of the actions' random numbers.
        device: device of the networks.
        greedy: take the mode of the distribution instead of a sample.
        compiled: compile acting, once per number of environments; on a GPU it is one CUDA graph.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        environment: EnvironmentSpec,
        seed: int,
        device: str = "cpu",
        *,
        greedy: bool = False,
        compiled: bool = False,
    ):
        self.algorithm = algorithm
        self.environment = environment
        self.device = torch.device(device)
        self.greedy = greedy
        self._seed = seed
        self.networks = algorithm.seeded_networks(seed).to(self.device).eval()
        self.parameters = FlatParameters(self.networks, algorithm.acts_with)
        self.version = -1
        self.generator = torch.Generator(device=self.device).manual_seed(seed)
        self._program: CompiledProgram[ActOutput] | None = None
        if compiled:
            program = CompiledProgram if self.device.type == "cpu" else GraphedProgram
            self._program = program(self._traced, [self.parameters.vector], self.generator, self.device)
        self._host_calls: HostCalls[ActOutput] | None = None
        if self.device.type != "cpu":
            self._host_calls = HostCalls(self._act_there, self.device)
            finish(self.device)  # the weights were laid out on this thread's CUDA stream, not on that of the calls
        self._has_frames = any(isinstance(spec, FramesSpec) for spec in environment.observations.values())
        # On devices with bfloat16 units small convolutional nets run about twice as fast in it; MLPs gain nothing.
        self._autocast = self._has_frames and has_bfloat16(self.device)

    def restart(self) -> None:
        """Restart the random numbers from the seed."""
        self.generator.manual_seed(self._seed)

    def load(self, parameters: Parameters) -> None:
        """Load a published version; the policy keeps no reference to it."""
        with self._on_stream():
            self.parameters.load_numpy(parameters.vector)
        self.version = parameters.version

    def warm_up(self, observations: dict[str, np.ndarray], state: PolicyState) -> None:
        """Act once, to compile, and discard the actions; the random numbers stay as they were."""
        before = self.generator.get_state()
        try:
            self.act(observations, state)
        except CompilationError as error:
            warnings.warn(f"acting cannot be compiled and runs uncompiled: {error}", RuntimeWarning, stacklevel=2)
            self._program = None
        self.generator.set_state(before)

    def act(self, observations: dict[str, np.ndarray], state: PolicyState) -> tuple[np.ndarray, dict[str, np.ndarray]]:
        """Choose actions and update the recurrent state.

        Args:
            observations: observations by name, [N, ...], in the environments' form.
            state: state of these N environments; `first`, `last_action` and `last_reward` must be up to date.

        Returns:
            actions [N, ...] and the behaviour statistics mu by name, [N, ...].
        """
        actions, mu, _ = self.act_with_values(observations, state)
        return actions, mu

    def act_with_values(
        self, observations: dict[str, np.ndarray], state: PolicyState
    ) -> tuple[np.ndarray, dict[str, np.ndarray], np.ndarray]:
        """Choose actions as `act` does, and return the state values [N] too."""
        inputs = ActInput(
            {name: torch.from_numpy(value) for name, value in observations.items()},
            torch.from_numpy(state.last_action),
            torch.from_numpy(state.last_reward),
            torch.from_numpy(state.first),
            {name: torch.from_numpy(value) for name, value in state.core_state.items()},
        )
        output = self._act_there(inputs) if self._host_calls is None else self._host_calls(inputs)
        state.core_state = {name: value.numpy() for name, value in output.core_state.items()}
        mu = {name: value.numpy() for name, value in output.mu.items()}
        return output.actions.numpy(), mu, output.values.numpy()

    def look(self, observations: dict[str, np.ndarray], state: PolicyState) -> dict[str, np.ndarray]:
        """Return mu for observations without acting on them; state and random numbers stay as they were."""
        core_state, before = state.core_state, self.generator.get_state()
        _, mu = self.act(observations, state)
        state.core_state = core_state
        self.generator.set_state(before)
        return mu

    def _act_there(self, inputs: ActInput) -> ActOutput:
        """Act with inputs that are on the policy's device."""
        if self._has_frames:
            seen = {name: self._as_seen(name, value) for name, value in inputs.observations.items()}
            inputs = dataclasses.replace(inputs, observations=seen)
        return self._act(self.networks, inputs, self.generator) if self._program is None else self._program(inputs)

    def _act(self, networks: nn.Module, inputs: ActInput, generator: torch.Generator | None) -> ActOutput:
        with (
            torch.inference_mode(generator is not None),  # not while tracing, which does not support it
            torch.no_grad(),
            torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._autocast),
        ):
            return self.algorithm.act(networks, inputs, generator, greedy=self.greedy)

    def _traced(self, held: Sequence[Tensor], inputs: ActInput) -> ActOutput:
        return call_with(self.parameters.views(held), self.networks, self._act, inputs, None)

    def _as_seen(self, name: str, value: Tensor) -> Tensor:
        """Return an observation in the networks' form: frames as channels, in the layout that convolutions need."""
        if isinstance(self.environment.observations[name], FramesSpec):
            return stacks_to_channels(value).contiguous(memory_format=torch.channels_last)
        return value

    def _on_stream(self) -> AbstractContextManager[Any]:
        return on_stream(None if self._host_calls is None else self._host_calls.stream)
