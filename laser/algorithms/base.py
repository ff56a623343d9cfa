"""The interface of algorithms: a frozen config, and a class with networks, acting, replay columns and a pure loss.

One learning rule per file in this folder; `laser.algorithms.find_algorithms()` finds it through its config class.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import torch
from torch import Generator, Tensor, nn

from laser.algorithms.step_sizes import Shape, read_points, step_size_factor
from laser.batch import Batch
from laser.config import Bounds, Problem, find_unused
from laser.networks.config import NetworkConfig
from laser.ports import ColumnSpec, Sweep
from laser.specs import ArraySpec, EnvironmentSpec

# Initialisation draws from torch's global generator, and several threads of a process may build components.
_INITIALISATION = threading.Lock()

T = TypeVar("T")

Targets = Mapping[str, nn.Module]
"""Target networks by name."""

Schedule = Mapping[str, Any]
"""Inputs of one update: settings that change while an agent trains, and due parameter groups; see `live`, `is_due`."""

Positive = Bounds(above=0.0)
NotNegative = Bounds(least=0.0)
Fraction = Bounds(least=0.0, most=1.0)


@dataclass(frozen=True)
class AlgorithmConfig(ABC):
    """Base class of algorithm configs. A subclass sets `name` and `build`, and adds its own fields."""

    name: ClassVar[str] = ""
    view: ClassVar[Literal["unrolls", "steps"]] = "unrolls"
    """Form of the replayed items of a batch: whole unrolls, or single steps (T = 1, `steps_per_item` folded)."""
    live_settings: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "optimizer_epsilon",
        "max_gradient_norm",
        "discount",
    )
    """Fields that may change while an agent trains; a subclass adds those that its loss reads from `schedule`."""

    learning_rate: Annotated[float, Positive, "step size of the optimiser"] = 6e-4
    learning_rate_schedule: Annotated[
        Shape,
        "step size over the run's steps: constant, linear or cosine decay to learning-rate-final, or piecewise by "
        "learning-rate-points",
    ] = "constant"
    learning_rate_final: Annotated[float, Fraction, "linear, cosine: share of the step size at the run's end"] = 0.0
    learning_rate_warmup: Annotated[
        float, Bounds(least=0.0, below=1.0), "share of the run's steps over which the step size grows to its full size"
    ] = 0.0
    learning_rate_points: Annotated[
        str, "piecewise: share of the run and factor of the step size from there on, such as 0.5:0.3,0.8:0.1"
    ] = ""
    optimizer: Annotated[Literal["rmsprop", "adam"], "gradient rule"] = "rmsprop"
    optimizer_epsilon: Annotated[float, Positive, "added to the root of the second moment"] = 1e-2
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = 40.0
    discount: Annotated[float, Fraction, "gamma, per env step"] = 0.99
    batch_size: Annotated[int, Bounds(least=1), "unrolls per learner step, fresh and replayed together"] = 32
    replay_fraction: Annotated[float, Fraction, "share of each batch that is drawn from the replay"] = 0.0

    def rows_per_item(self, unroll_length: int) -> int:
        """Return T, the rows of an item of a batch."""
        return 1 if self.view == "steps" else unroll_length

    @property
    def steps_per_item(self) -> int:
        """Env steps folded into one item of the "steps" view."""
        return 1

    @property
    def step_reward_clip(self) -> float:
        """Bound to which rewards of the "steps" view are clipped, +-, before they are folded; inf: no clipping."""
        return math.inf

    def learned_from(self, rewards: Tensor) -> Tensor:
        """Return rewards as the algorithm learns from them, in the units of its values; any shape."""
        return rewards.clamp(-self.step_reward_clip, self.step_reward_clip)

    def single_problems(self) -> Iterator[Problem]:
        """Yield problems that the fields' bounds cannot express."""
        if self.learning_rate_points or self.learning_rate_schedule == "piecewise":
            try:
                read_points(self.learning_rate_points)
            except ValueError as error:
                remedy = "give them, or use another learning-rate-schedule"
                yield Problem("learning-rate-points", str(error), remedy)

    def learning_rate_at(self, progress: float) -> float:
        """Return the step size after a share `progress` of the run's steps, without `rate_factor`."""
        shape = self.learning_rate_schedule
        points = read_points(self.learning_rate_points) if shape == "piecewise" else ()
        final, warmup = self.learning_rate_final, self.learning_rate_warmup
        return self.learning_rate * step_size_factor(shape, progress, final=final, warmup=warmup, points=points)

    def scheduled(self, progress: float) -> dict[str, float]:
        """Return live settings that change over a run, with their values after a share `progress` of its steps."""
        return {}

    def rate_factor(self, num_learner_steps: int) -> float:
        """Return a factor of the step size after `num_learner_steps`, in addition to `learning_rate_schedule`."""
        return 1.0

    @property
    def passes(self) -> tuple[int, int]:
        """Number of epochs over each batch, and of minibatches per epoch."""
        return 1, 1

    @property
    def max_policy_lag(self) -> int | None:
        """Versions that an acting policy may be behind; beyond this lag, actors wait. None: actors never wait."""
        return None

    @property
    def counts_far_policy(self) -> bool:
        """Whether the columns let the replay count steps that are far from the policy."""
        return False

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """Return settings with no effect, or an unintended one, in this algorithm, by their full keys.

        Args:
            network: settings of the network.
            remover: name of the replay's remover.
        """
        shape = self.learning_rate_schedule
        unused = [] if shape in ("linear", "cosine") else ["learning_rate_final"]
        unused += [] if shape == "piecewise" else ["learning_rate_points"]
        why, remedy = f"the step size is {shape}", "choose another algorithm.learning-rate-schedule"
        return find_unused(self, "algorithm", unused, why, remedy)

    @abstractmethod
    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Algorithm:
        """Return the algorithm for this environment and network.

        Raises:
            ValueError: the algorithm does not support these spaces; the message names those that it does.
        """

    @property
    def replays_per_batch(self) -> float:
        """Mean number of replay-only batches after each batch, which is Poisson distributed; 0: none."""
        return 0.0

    @property
    def num_replayed(self) -> int:
        """Number of replayed unrolls per batch; the rest are fresh."""
        return round(self.batch_size * self.replay_fraction)

    @property
    def num_drawn(self) -> int:
        """Number of unrolls per request to the replay; 0: nothing is replayed."""
        return self.batch_size if self.replays_per_batch else self.num_replayed

    @property
    def num_online(self) -> int:
        """Number of fresh unrolls per batch."""
        return self.batch_size - self.num_replayed


def seeded(seed: int, make: Callable[[], T]) -> T:
    """Return `make()`, run with torch's global generator seeded with `seed`, independent of draws in other threads."""
    with _INITIALISATION, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def live(name: str, config: AlgorithmConfig, schedule: Schedule) -> Any:
    """Return the current value of a live setting: from `schedule` if it is there, else from the config.

    The config is read only if needed: a value read there becomes a constant, and a new value compiles the code again.
    """
    return schedule[name] if name in schedule else getattr(config, name)


def is_due(prefix: str, schedule: Schedule) -> bool:
    """Return whether this update moves the parameters of the group with this prefix; see `ParameterGroup.period`."""
    due: Mapping[str, bool] = schedule.get("due", {})
    return due.get(prefix, True)


@dataclass(frozen=True)
class ActInput:
    """Inputs of a policy from N environments.

    Args:
        observations: by name, [N, ...]; frames uint8 [N, channels, height, width].
        last_action: [N, ...].
        last_reward: [N].
        first: bool [N]; where True the recurrent state is reset before use.
        core_state: by name, [N, ...].
    """

    observations: Mapping[str, Tensor]
    last_action: Tensor
    last_reward: Tensor
    first: Tensor
    core_state: Mapping[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class ActOutput:
    """Outputs of a policy for N environments.

    Args:
        actions: [N, ...], the policy's own samples, before clipping or squashing.
        mu: behaviour statistics by name, [N, ...], which define the distribution of the actions.
        values: [N] state values in the units of `learned_from`, for the live view; NaN without a state value.
        core_state: recurrent state after this step by name, [N, ...].
    """

    actions: Tensor
    mu: dict[str, Tensor]
    values: Tensor
    core_state: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class LossOutput:
    """Output of a loss.

    Args:
        loss: scalar to differentiate.
        metrics: scalar tensors by name, each with the meaning and the sign of its name.
        column_writes: new numbers for the replay by column name, [T, B]; or [1, B], for an unroll's first row only.
        core_state: recurrent state by name, [B, ...], at the start of each sequence's next unroll: after row T-1,
            before row T, which is row 0 of that unroll. Without gradient; empty for feed-forward networks.
        state_updates: new values of parameters and buffers, by their names in the networks' `state_dict`. They are
            written between the backward pass and the optimiser's step, if the loss is finite.
        final_writes: for single steps, new numbers by column name, [1, B], for the observation after each step; the
            replay keeps them if it is an episode's final one.
        per_step: numbers about every item, by the names in `Algorithm.per_step`: [T, B], or [1, B] for an unroll as a
            whole. Prioritizers read them.
    """

    loss: Tensor
    metrics: dict[str, Tensor]
    column_writes: dict[str, Tensor] = field(default_factory=dict)
    core_state: dict[str, Tensor] = field(default_factory=dict)
    state_updates: dict[str, Tensor] = field(default_factory=dict)
    final_writes: dict[str, Tensor] = field(default_factory=dict)
    per_step: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Target:
    """A target network: a copy that follows the networks.

    Args:
        rate: fraction of the difference to the networks that each move closes, in (0, 1]; 1 copies them.
        period: number of updates between two moves.
    """

    rate: float = 1.0
    period: int = 1


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters with a step size, weight decay or period of their own.

    Args:
        prefix: prefix of their names.
        rate: factor of the step size.
        weight_decay: this times the weights is added to the gradient of matrices (not of biases), after clipping.
        period: the parameters move every `period` updates; a loss may leave out terms that are not due, see `is_due`.
    """

    prefix: str
    rate: float = 1.0
    weight_decay: float = 0.0
    period: int = 1


@dataclass(frozen=True)
class WriteOptions:
    """Further fields of an update's column writes; see `laser.ports.ColumnWrites`."""

    far_bounds: dict[str, float] = field(default_factory=dict)
    sweep: Sweep | None = None


class Algorithm(ABC):
    """A learning rule. It holds no parameters: networks are passed in, so that actors, learners and tests share it."""

    config: AlgorithmConfig
    columns: tuple[ColumnSpec, ...] = ()
    targets: Mapping[str, Target] = {}
    """Target networks by name; losses receive them, and checkpoints include them."""
    parameter_groups: tuple[ParameterGroup, ...] = ()
    acts_with: tuple[str, ...] = ("",)
    """Prefixes of the names of parameters and buffers that `act` reads: no others are sent to actors."""
    per_step: tuple[str, ...] = ()
    """Names of the numbers that the loss returns about every item, for any sampler:

    * "td_error": target - Q(s, a), with its sign, before masks, weights and clipping;
    * "q": Q(s, a) of the action taken, by the network that is trained; with twin critics both are the first one's;
    * "priority": not negative; what PER uses instead of |td_error|;
    * "accepted": number of the item's steps that the loss learned from;
    * "abs_log_rho": sum of |log pi - log mu| over the item's valid steps;
    * "kl": sum over these of the KL that a trust region compares with its threshold; one that is not finite counts 0.
    """
    needs_statistics: bool = False
    """Whether samples must include sums over the replay; see `observe`."""

    @property
    def acting_state(self) -> Mapping[str, ArraySpec]:
        """State of one environment that `act` carries between steps, beside `core_state`; no loss reads it."""
        return {}

    def observe(self, networks: nn.Module, statistics: Mapping[str, Any], num_updates: int) -> dict[str, Tensor]:
        """Return new values of buffers, by their names in the networks' `state_dict`, before an update.

        Args:
            networks: the current networks.
            statistics: `Sample.statistics` of the batch, float64 arrays by name.
            num_updates: number of updates so far.
        """
        return {}

    def prepare(self, networks: nn.Module, batch: Batch) -> Batch:
        """Return the batch for the passes of `AlgorithmConfig.passes`; called once, without gradients.

        With several passes, the returned batch is cut along B; images are stacked before.
        """
        return batch

    def write_options(self, num_updates: int, discount: float) -> WriteOptions:
        """Return options for the column writes of update number `num_updates`; `discount` is the current gamma."""
        return WriteOptions()

    @property
    def core_state(self) -> Mapping[str, ArraySpec]:
        """Recurrent state of one environment by name; empty for feed-forward agents."""
        return {}

    @property
    @abstractmethod
    def behaviour(self) -> dict[str, ArraySpec]:
        """Statistics of the behaviour policy that actors store, by name."""

    @abstractmethod
    def make_networks(self) -> nn.Module:
        """Return freshly initialised networks (weights drawn from torch's global generator; see `seeded_networks`)."""

    def seeded_networks(self, seed: int) -> nn.Module:
        """Return networks whose weights depend on `seed` alone, independent of draws in other threads."""
        return seeded(seed, self.make_networks)

    @abstractmethod
    def act(
        self, networks: nn.Module, inputs: ActInput, generator: Generator | None, *, greedy: bool = False
    ) -> ActOutput:
        """Choose actions for N environments.

        Args:
            networks: from `make_networks`.
            inputs: current inputs from the environments.
            generator: source of randomness; None uses torch's global one.
            greedy: take the mode instead of a sample.
        """

    @abstractmethod
    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """Return the scalar to minimise, metrics and column writes. Pure: it changes none of its arguments."""
