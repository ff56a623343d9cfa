"""What an algorithm is: a frozen config and a class with networks, a way to act, columns and a pure loss.

One learning rule per file in this folder; `laser.algorithms.find_algorithms()` finds it through its config class.
"""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import torch
from torch import Generator, Tensor, nn

from laser.batch import Batch
from laser.config import Bounds, Problem
from laser.networks.config import NetworkConfig
from laser.ports import ColumnSpec, Sweep
from laser.specs import ArraySpec, EnvironmentSpec

# Initialisation draws from torch's one global generator, and components of one process are built side by side.
_INITIALISATION = threading.Lock()

T = TypeVar("T")

Targets = Mapping[str, nn.Module]
"""Target networks by name."""

Schedule = Mapping[str, Any]
"""Settings that change while an agent trains, and what else is true of one update: see `live` and `is_due`."""

Positive = Bounds(above=0.0)
NotNegative = Bounds(least=0.0)
Fraction = Bounds(least=0.0, most=1.0)


@dataclass(frozen=True)
class AlgorithmConfig(ABC):
    """What every algorithm's config has. A subclass sets `name` and `build`, and adds its own fields."""

    name: ClassVar[str] = ""
    view: ClassVar[Literal["unrolls", "steps"]] = "unrolls"
    """What the replayed items of a batch are: whole unrolls, or single steps (T = 1, `steps_per_item` folded)."""
    live_settings: ClassVar[tuple[str, ...]] = (
        "learning_rate",
        "optimizer_epsilon",
        "max_gradient_norm",
        "discount",
    )
    """Fields that may change while an agent trains; a subclass adds those that its loss takes from `schedule`."""

    learning_rate: Annotated[float, Positive, "step size of the optimiser"] = 6e-4
    learning_rate_schedule: Annotated[
        Literal["constant", "linear"], "constant, or linear decay to 0 over the run's steps"
    ] = "constant"
    optimizer: Annotated[Literal["rmsprop", "adam"], "gradient rule"] = "rmsprop"
    optimizer_epsilon: Annotated[float, Positive, "added to the root of the second moment"] = 1e-2
    max_gradient_norm: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "global gradient norm is clipped to this; inf switches it off"
    ] = 40.0
    discount: Annotated[float, Fraction, "gamma, per env step"] = 0.99
    batch_size: Annotated[int, Bounds(least=1), "unrolls per learner step, fresh and replayed together"] = 32
    replay_fraction: Annotated[float, Fraction, "share of each batch that is drawn from the replay"] = 0.0

    def rows_per_item(self, unroll_length: int) -> int:
        """Return T of the items that learning is from."""
        return 1 if self.view == "steps" else unroll_length

    @property
    def steps_per_item(self) -> int:
        """Env steps folded into one item of the "steps" view."""
        return 1

    @property
    def step_reward_clip(self) -> float:
        """Rewards of the "steps" view are clipped to +- this before they are folded; inf: they are not."""
        return math.inf

    def rate_factor(self, num_learner_steps: int) -> float:
        """Return what multiplies the step size after so many learner steps, beside `learning_rate_schedule`."""
        return 1.0

    @property
    def passes(self) -> tuple[int, int]:
        """Epochs over each batch, and minibatches it is cut into in each of them."""
        return 1, 1

    @property
    def max_policy_lag(self) -> int | None:
        """Versions that a policy may be behind when it acts, after which actors wait; None: they never do."""
        return None

    @property
    def counts_far_policy(self) -> bool:
        """Whether its columns tell the replay which steps are far from the policy."""
        return False

    def warnings(self, network: NetworkConfig, remover: str) -> list[Problem]:
        """Return settings that have no effect with this algorithm, or another than hoped for, by their whole keys.

        Args:
            network: its network's settings.
            remover: how the replay forgets.
        """
        return []

    @abstractmethod
    def build(self, environment: EnvironmentSpec, network: NetworkConfig) -> Algorithm:
        """Return the algorithm for this environment and network.

        Raises:
            ValueError: the algorithm cannot act in such spaces; says which ones it supports.
        """

    @property
    def replays_per_batch(self) -> float:
        """Batches from the replay alone that follow each batch: the mean of a Poisson number; 0: none."""
        return 0.0

    @property
    def num_replayed(self) -> int:
        """Replayed unrolls per batch; the rest are fresh."""
        return round(self.batch_size * self.replay_fraction)

    @property
    def num_drawn(self) -> int:
        """Unrolls that one request to the replay is for; 0: nothing is replayed."""
        return self.batch_size if self.replays_per_batch else self.num_replayed

    @property
    def num_online(self) -> int:
        """Fresh unrolls per batch."""
        return self.batch_size - self.num_replayed


def seeded(seed: int, make: Callable[[], T]) -> T:
    """Return what `make` makes with torch's global generator begun at `seed`, whatever other threads draw meanwhile."""
    with _INITIALISATION, torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def live(name: str, config: AlgorithmConfig, schedule: Schedule) -> Any:
    """Return a live setting as it is now: what `schedule` says, else the config.

    The config is not looked at in vain: compiled code would be compiled anew for each value it has seen there.
    """
    return schedule[name] if name in schedule else getattr(config, name)


def is_due(prefix: str, schedule: Schedule) -> bool:
    """Return whether this update moves the parameters of the group with this prefix; see `ParameterGroup.period`."""
    due: Mapping[str, bool] = schedule.get("due", {})
    return due.get(prefix, True)


@dataclass(frozen=True)
class ActInput:
    """What a policy sees of N environments.

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
    """What a policy does for N environments.

    Args:
        actions: [N, ...], the policy's own samples, before clipping or squashing.
        mu: behaviour statistics by name, [N, ...]: all of the distribution the actions were drawn from.
        values: [N] state values, for the live view; algorithms without one give zeros.
        core_state: recurrent state after this step by name, [N, ...].
    """

    actions: Tensor
    mu: dict[str, Tensor]
    values: Tensor
    core_state: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class LossOutput:
    """What a loss returns.

    Args:
        loss: scalar to differentiate.
        metrics: scalar tensors by name; each is what its name says, with its sign.
        column_writes: new numbers for the replay by column name, [T, B]; or [1, B], for an unroll's first row only.
        core_state: recurrent state by name, [B, ...], with which the next unroll of each column's stream begins: after
            row T-1, before row T, which is that unroll's row 0. Without gradient; empty for feed-forward networks.
        state_updates: new values of parameters and buffers, by their names in the networks' `state_dict`. They are
            written between the backward pass and the optimiser's step, if the loss is finite.
        final_writes: for single steps, new numbers by column name, [1, B], of the observation after each; the replay
            keeps them where that is an episode's final one.
        per_step: what was found out about every item, by the names in `Algorithm.per_step`: [T, B], or [1, B] for an
            unroll as a whole. Samplers' rules go by it.
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
    """A copy of the networks that follows them.

    Args:
        rate: share of the way to the networks that it goes with each update that is due, in (0, 1]; 1 copies them.
        period: updates between two moves.
    """

    rate: float = 1.0
    period: int = 1


@dataclass(frozen=True)
class ParameterGroup:
    """Parameters with a step size, weight decay or pace of their own.

    Args:
        prefix: of their names.
        rate: multiplies the step size.
        weight_decay: times the weights is added to the gradient of matrices (not of biases), after clipping.
        period: only every so many updates are they moved; a loss asks `is_due` what it may leave out.
    """

    prefix: str
    rate: float = 1.0
    weight_decay: float = 0.0
    period: int = 1


@dataclass(frozen=True)
class WriteOptions:
    """What goes with an update's column writes; see `laser.ports.ColumnWrites`."""

    far_bounds: dict[str, float] = field(default_factory=dict)
    sweep: Sweep | None = None


class Algorithm(ABC):
    """A learning rule. Holds no parameters: networks are passed in, so that actors, learners and tests share it."""

    config: AlgorithmConfig
    columns: tuple[ColumnSpec, ...] = ()
    targets: Mapping[str, Target] = {}
    """Target networks by name; losses get them, checkpoints keep them."""
    parameter_groups: tuple[ParameterGroup, ...] = ()
    acts_with: tuple[str, ...] = ("",)
    """How the names of the parameters and buffers begin that `act` looks at: no others are sent to actors."""
    per_step: tuple[str, ...] = ()
    """What the loss says about every item, whatever the sampler:

    * "td_error": target - Q(s, a), with its sign, before masks, weights and clipping;
    * "q": Q(s, a) of the action taken, by the network that is trained; with twin critics both are the first one's;
    * "priority": not negative; what PER goes by where that is not |td_error|.
    """
    needs_statistics: bool = False
    """Whether samples shall bring sums over the replay; see `observe`."""

    @property
    def acting_state(self) -> Mapping[str, ArraySpec]:
        """What `act` carries from step to step of one environment beside `core_state`, and nobody else sees."""
        return {}

    def observe(self, networks: nn.Module, statistics: Mapping[str, Any], num_updates: int) -> dict[str, Tensor]:
        """Return new values of buffers, by their names in the networks' `state_dict`, before an update.

        Args:
            networks: as they are.
            statistics: `Sample.statistics` of the batch, float64 arrays by name.
            num_updates: made so far.
        """
        return {}

    def prepare(self, networks: nn.Module, batch: Batch) -> Batch:
        """Return the batch that the passes of `AlgorithmConfig.passes` go over; called once, without gradients.

        With several passes, what it returns is cut along B; images are stacked before.
        """
        return batch

    def write_options(self, num_updates: int, discount: float) -> WriteOptions:
        """Return what goes with the column writes of update number `num_updates`; `discount` is gamma as it is now."""
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
        """Return freshly initialised networks (torch's global generator decides the weights; see `seeded_networks`)."""

    def seeded_networks(self, seed: int) -> nn.Module:
        """Return networks whose weights come from `seed`, whatever other threads of the process draw meanwhile."""
        return seeded(seed, self.make_networks)

    @abstractmethod
    def act(
        self, networks: nn.Module, inputs: ActInput, generator: Generator | None, *, greedy: bool = False
    ) -> ActOutput:
        """Choose actions for N environments.

        Args:
            networks: from `make_networks`.
            inputs: what the environments are at.
            generator: source of randomness; None uses torch's global one.
            greedy: take the mode instead of a sample.
        """

    @abstractmethod
    def loss(
        self, networks: nn.Module, targets: Targets, batch: Batch, schedule: Schedule, generator: Generator | None
    ) -> LossOutput:
        """Return the scalar to minimise, metrics and column writes. Pure: changes nothing it is given."""
