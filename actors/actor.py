"""The actor, which steps environments with the newest policy and ships unrolls to the replay."""

from __future__ import annotations

import time
from collections import defaultdict, deque
from collections.abc import Callable
from concurrent.futures import Future
from concurrent.futures import wait as wait_for
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from actors.config import ActorConfig
from actors.heartbeat import CLOSING, COMPILATION, CONSTRUCTION, ENVIRONMENT, Heartbeat
from actors.policy import Policy, PolicyState
from actors.policy_lag import PolicyLag, PolicyLagLimit
from actors.unroll_builder import Identity, UnrollBuilder
from laser.environments import tasks_of
from laser.environments.base import RAISED, EnvironmentFailedError, Transition, VectorEnvironment
from laser.environments.statistics import Statistics, give_statistics, merge, read_statistics
from laser.failure_budget import FailureBudget
from laser.ports import (
    EpisodeResult,
    InsertReceipt,
    ParameterPort,
    Parameters,
    PortAwayError,
    PortTimeoutError,
    ReplayPort,
    Report,
    wait,
)
from laser.unroll import UnrollSpec

_TOO_OFTEN = "environment failed more often than environment.max-restarts allows"
_FIRST_PARAMETERS_S = 600.0  # a learner that takes another one's place compiles first


class EnvironmentBudgetError(RuntimeError):
    """An environment failed more often than its budget of rebuilds allows; the message includes its own."""


@dataclass
class Group:
    """Environments that are stepped together, and their current state."""

    environment: VectorEnvironment
    tasks: np.ndarray
    builder: UnrollBuilder
    state: PolicyState
    observations: dict[str, np.ndarray]
    returns: np.ndarray
    lengths: np.ndarray
    actions: np.ndarray
    mu: dict[str, np.ndarray]


class Actor(Heartbeat):
    """Steps vector environments and inserts unrolls; a plain object that threads, processes or Ray may host.

    One thread calls `tick` (or, in lockstep, `take_turn`); other threads may read `heartbeat` and `waiting_for`.

    Args:
        make_environment: (group index) -> a vector environment; called again after a failure.
        num_groups: number of groups.
        policy: policy that acts; its parameters are swapped between unrolls only.
        spec: layout of the unrolls.
        replay: replay that receives the unrolls.
        parameters: source of newer parameters.
        identity: identity of this actor.
        config: see `ActorConfig`.
        seed: environments of group g are reset with `seed + g * 1000`.
        rebuilds: budget of rebuilds of failed environments, after which the actor gives up.
        incarnation: number of earlier starts of this actor.
        lag_limit: limit of the policy lag in `tick`; None: no limit.
        num_incarnations: incarnations that this actor may use, from `incarnation` on: one, and one for each rebuild.
    """

    def __init__(
        self,
        make_environment: Callable[[int], VectorEnvironment],
        num_groups: int,
        policy: Policy,
        spec: UnrollSpec,
        replay: ReplayPort,
        parameters: ParameterPort,
        identity: Identity,
        config: ActorConfig,
        seed: int,
        rebuilds: FailureBudget,
        incarnation: int = 0,
        lag_limit: PolicyLagLimit | None = None,
        num_incarnations: int = 2**16,
    ):
        super().__init__()
        self.identity = identity
        self._make_environment = make_environment
        self._num_groups = num_groups
        self._policy = policy
        self._spec = spec
        self._replay = replay
        self._parameters = parameters
        self._config = config
        # Columns that start from statistics of mu need mu for every row, also for an episode's final observation.
        self._keeps_estimates = any(column.initial_from for column in policy.algorithm.columns)
        self._seed = seed
        self._rebuilds = rebuilds
        self._incarnations_end = incarnation + num_incarnations
        self._policy_lag = PolicyLag(lag_limit)
        self._incarnation = incarnation
        self._groups: list[Group] = []
        self._unacknowledged: deque[Future[InsertReceipt]] = deque()
        self._counters: defaultdict[str, float] = defaultdict(float)
        self._episodes: list[EpisodeResult] = []
        self._statistics: Statistics = {}  # of wrappers, for environments that are made from now on

    def warm_up(self) -> None:
        """Make the environments and let the policy act once for each group, so that acting is compiled.

        Raises:
            EnvironmentBudgetError: an environment failed too often.
        """
        while not self._groups:
            try:
                self._start_groups()
            except EnvironmentFailedError as failure:
                self._rebuild(failure)
        for group in self._groups:
            state = PolicyState(group.environment.num_envs, group.environment.spec, self._policy.algorithm)
            with self._wait_for(COMPILATION):
                self._policy.warm_up(group.observations, state)

    def run_unroll(self) -> Report:
        """Collect T rows from every environment, insert them, and report on them.

        Returns:
            a report with running totals and the episodes that ended since the last call.

        Raises:
            EnvironmentBudgetError: the environment failed too often.
            PortError: the replay is closed or did not accept an insert within the deadline.
        """
        while True:
            try:
                if not self._groups:
                    self._start_groups()
                self._swap_parameters()
                self._collect()
                break
            except EnvironmentFailedError as failure:
                self._rebuild(failure)
        episodes, self._episodes = tuple(self._episodes), []
        return Report(f"actor/{self.identity.actor}", dict(self._counters), episodes=episodes)

    def take_turn(self) -> Report:
        """Run an unroll in lockstep: wait until every insert is acknowledged.

        This is one call because each call between threads wakes two of them.

        Raises:
            PortTimeoutError: the replay did not accept an insert within the deadline.
            others: as in `run_unroll`.
        """
        report = self.run_unroll()
        self.settle()
        return report

    def tick(self) -> Report | None:
        """Collect one unroll if the replay has accepted the earlier ones; otherwise wait briefly and return None.

        Raises:
            PortTimeoutError: the replay has not accepted an insert for the whole deadline.
        """
        if not self._drain_receipts(self._config.max_unacknowledged - 1, timeout_s=0.2):
            waited = time.monotonic() - self.heartbeat
            if waited > self._config.insert_deadline_s:
                raise PortTimeoutError(
                    f"actor {self.identity.actor} waited {waited:.0f} s for the replay to accept an insert; "
                    "the learner takes no unrolls"
                )
            return None
        if not self._is_on_policy(timeout_s=0.2):
            return None
        self._policy_lag.shipped()
        return self.run_unroll()

    def _is_on_policy(self, timeout_s: float) -> bool:
        """Load new parameters until they are as new as the algorithm requires; return False if that takes too long."""
        if self._policy.version < 0:
            self._swap_parameters()
        deadline = time.monotonic() + timeout_s
        while not self._policy_lag.allows(self._policy.version):
            newest = self._newest_parameters()
            if newest is not None:
                self._policy.load(newest)
            elif time.monotonic() > deadline:
                self.heartbeat = time.monotonic()
                return False
            else:
                time.sleep(0.002)
        if self._policy_lag.num_given_up:
            self._counters["policy_lag_given_up"] = float(self._policy_lag.num_given_up)
        return True

    def settle(self) -> None:
        """Wait until every insert is acknowledged, at most for the insert deadline."""
        if not self._drain_receipts(0, self._config.insert_deadline_s):
            raise PortTimeoutError(
                f"actor {self.identity.actor} waited {self._config.insert_deadline_s:g} s for the replay to accept an "
                "insert"
            )

    def finish(self, timeout_s: float) -> None:
        """Wait for the outcome of every insert, whatever it is, at most for `timeout_s`.

        For the end of training, at which the replay's ledger counts the inserts that fail.
        """
        wait_for(self._unacknowledged, timeout_s)
        self._unacknowledged = deque(receipt for receipt in self._unacknowledged if not receipt.done())

    def close(self) -> None:
        """Close the environments of every group, even if one fails to."""
        groups, self._groups = self._groups, []
        with self._wait_for(CLOSING), ExitStack() as stack:
            for group in groups:
                stack.callback(group.environment.close)

    def state_dict(self) -> dict[str, Any] | None:
        """Return the state of the actor at an unroll boundary, or None if its environments cannot be saved.

        A restored actor continues bitwise identically.
        """
        self.settle()
        groups = []
        for group in self._groups:
            environment = group.environment.state_dict()
            if environment is None:
                return None
            groups.append(
                {
                    "environment": environment,
                    "builder": group.builder.state_dict(),
                    "policy_state": group.state.state_dict(),
                    "returns": group.returns.copy(),
                    "lengths": group.lengths.copy(),
                }
            )
        return {
            "groups": groups,
            "counters": dict(self._counters),
            "incarnation": self._incarnation,
            "generator": self._policy.generator.get_state().numpy(),
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`."""
        self._incarnation = state["incarnation"]
        if not self._groups:
            self._start_groups()
        for group, saved in zip(self._groups, state["groups"], strict=True):
            group.observations = group.environment.load_state_dict(saved["environment"])
            group.builder.load_state_dict(saved["builder"])
            group.state.load_state_dict(saved["policy_state"])
            group.returns, group.lengths = saved["returns"].copy(), saved["lengths"].copy()
        self._counters = defaultdict(float, state["counters"])
        self._policy.generator.set_state(torch.from_numpy(np.array(state["generator"], np.uint8)))

    def statistics(self) -> Statistics | None:
        """Return the statistics of the wrappers around this actor's environments; None while they cannot be read.

        Environments that do not answer are left out; the next unroll finds their failure. Where no environment of a
        task has finite ones, they are those of the last time.
        """
        with suppress(EnvironmentFailedError):
            read = merge([read_statistics(group.environment) for group in self._groups])
            self._statistics = {**self._statistics, **read}
        has_none = self._groups and not any(group.environment.spec.saved_statistics for group in self._groups)
        return self._statistics or ({} if has_none else None)

    def give_statistics(self, statistics: Statistics) -> bool:
        """Put statistics into the wrappers before the first unroll; return whether they fit.

        Episodes begin once more, since the first observations depend on the statistics.
        """
        self._statistics = statistics
        fits = True
        try:
            for index, group in enumerate(self._groups):
                with self._wait_for(ENVIRONMENT):
                    fits = give_statistics(group.environment, statistics) and fits
                    group.observations = group.environment.reset(self._seed_of(index))
        except EnvironmentFailedError as failure:
            self._rebuild(failure)
        return fits

    def _seed_of(self, group: int) -> int:
        return self._seed + 1000 * group + 100_000 * self._incarnation

    def _start_groups(self) -> None:
        first_environment = 0
        for index in range(self._num_groups):
            with self._wait_for(CONSTRUCTION):
                environment = self._make_environment(index)
            num_envs = environment.num_envs
            try:
                with self._wait_for(ENVIRONMENT):
                    give_statistics(environment, self._statistics)
                    observations = environment.reset(self._seed_of(index))
            except EnvironmentFailedError:
                self._close_failed(environment)  # it belongs to no group yet, so nothing else would close it
                raise
            action, tasks = environment.spec.actions.array, tasks_of(environment)
            self._groups.append(
                Group(
                    environment,
                    tasks,
                    UnrollBuilder(self._spec, num_envs, self.identity, self._incarnation, first_environment, tasks),
                    PolicyState(num_envs, environment.spec, self._policy.algorithm),
                    observations,
                    returns=np.zeros(num_envs, np.float64),
                    lengths=np.zeros(num_envs, np.int64),
                    actions=np.zeros((num_envs, *action.shape), action.dtype),
                    mu={},
                )
            )
            first_environment += num_envs

    def _swap_parameters(self) -> None:
        deadline = time.monotonic() + _FIRST_PARAMETERS_S
        while True:
            newest = self._newest_parameters()
            if newest is not None:
                self._policy.load(newest)
            if self._policy.version >= 0:
                return
            if time.monotonic() > deadline:
                raise PortTimeoutError(
                    f"actor {self.identity.actor} waited {_FIRST_PARAMETERS_S:g} s for the learner's first parameters"
                )
            time.sleep(0.01)

    def _newest_parameters(self) -> Parameters | None:
        """Return parameters newer than the policy's; None if there are none, or none that can be read now."""
        try:
            return wait(self._parameters.newest(self._policy.version), 60.0, "the newest parameters")
        except PortAwayError:
            return None  # the learner or the store died; until the next one publishes, the actor acts as it did

    def _begin_unrolls(self, group: Group) -> None:
        state, environments = group.state, group.builder.without_rows
        if not len(environments):
            return
        group.builder.begin(
            environments,
            {name: value[environments] for name, value in group.observations.items()},
            state.first[environments],
            state.last_action[environments],
            state.last_reward[environments],
            {name: value[environments] for name, value in state.core_state.items()},
            self._policy.version,
        )

    def _collect(self) -> None:
        for group in self._groups:
            group.builder.policy_changed(self._policy.version)
        # While the policy acts for one group, the environments of the others are stepped.
        for row in range(self._spec.unroll_length):
            for group in self._groups:
                if row > 0:
                    self._receive(group)
                # Begun here and not when the last unroll was shipped: the next round may bring newer parameters.
                self._begin_unrolls(group)
                self._act(group)
        for group in self._groups:
            self._receive(group)

    def _act(self, group: Group) -> None:
        started = time.perf_counter()
        group.actions, group.mu = self._policy.act(group.observations, group.state)
        self._counters["time/inference"] += time.perf_counter() - started
        group.environment.send(group.actions)

    def _receive(self, group: Group) -> None:
        started = time.perf_counter()
        step, *resets = self._step_of(group)
        self._counters["time/environment"] += time.perf_counter() - started
        self._record(group, step)
        group.observations = step.observations  # of all environments, in order
        for reset in resets:
            if self._keeps_estimates:  # the policy has not seen the final observation yet
                started = time.perf_counter()
                group.mu = self._policy.look(group.observations, group.state)
                self._counters["time/inference"] += time.perf_counter() - started
            # The step may have completed unrolls; the reset is then row 0 of the next ones.
            self._begin_unrolls(group)
            self._record(group, reset)
            for name, value in reset.observations.items():
                group.observations[name][reset.environments] = value

    def _step_of(self, group: Group) -> list[Transition]:
        """Wait for a group's step. Environments that failed in it alone are rebuilt, and their episodes are cut."""
        try:
            with self._wait_for(ENVIRONMENT):
                return group.environment.recv()
        except EnvironmentFailedError as failure:
            if failure.others is None:
                raise
            others = failure.others
        for each in others.failures.values():
            self._count_failure(each)
        num_failures = sum(int(value) for name, value in self._counters.items() if name.startswith("restarts/"))
        seed = int(np.random.SeedSequence((self._seed, self._incarnation, num_failures)).generate_state(1)[0] >> 1)
        with self._wait_for(CONSTRUCTION):
            step = others.complete(seed)
        failed = list(others.failures)
        group.returns[failed], group.lengths[failed] = 0.0, 0
        return [step]

    def _record(self, group: Group, part: Transition) -> None:
        who, state = part.environments, group.state
        valid = ~part.ignored
        finished = group.builder.append(
            who,
            group.actions[who],
            {name: value[who] for name, value in group.mu.items()},
            part.rewards,
            part.terminated,
            valid,
            part.observations,
            part.ignored,
        )
        # At an episode's start the policy sees no action and no reward of the episode before.
        keep = valid.reshape(-1, *[1] * (group.actions.ndim - 1))
        state.last_action[who] = np.where(keep, group.actions[who], 0)
        state.last_reward[who] = part.rewards * valid
        state.first[who] = part.ignored
        self._count(group, part, valid)
        if len(finished):
            self._insert(group, finished)

    def _count(self, group: Group, part: Transition, valid: np.ndarray) -> None:
        who = part.environments
        num_valid = int(valid.sum())
        self._counters["env_steps"] += num_valid
        self._counters["frames"] += num_valid * group.environment.spec.action_repeat
        self._counters["rows"] += len(who)
        group.returns[who] += part.rewards * valid
        group.lengths[who] += valid
        ended = who[part.terminated | part.truncated]
        for environment in ended:
            self._episodes.append(
                EpisodeResult(
                    float(group.returns[environment]),
                    int(group.lengths[environment]),
                    int(group.tasks[environment]),
                    self.identity.member,
                )
            )
        if len(ended):
            self._counters["episodes"] += len(ended)
            group.returns[ended] = 0.0
            group.lengths[ended] = 0

    def _insert(self, group: Group, finished: np.ndarray) -> None:
        started = time.perf_counter()
        self._unacknowledged.append(self._replay.insert(group.builder.take(finished)))
        self._counters["unrolls"] += len(finished)
        self._counters["time/insert"] += time.perf_counter() - started

    def _drain_receipts(self, num_left: int, timeout_s: float) -> bool:
        """Take receipts until at most `num_left` inserts per group are open; return False if that takes too long."""
        started = time.perf_counter()
        num_left *= self._num_groups  # every group inserts its own unrolls
        self.waiting_for = "replay"
        while len(self._unacknowledged) > num_left:
            left_s = started + timeout_s - time.perf_counter()
            receipt = self._unacknowledged[0]
            if not receipt.done() and wait_for([receipt], max(0.0, left_s)).not_done:
                break
            self._unacknowledged.popleft()
            for reason, count in receipt.result().rejected.items():
                self._counters[f"rejected/{reason}"] += count
            self.heartbeat = time.monotonic()
        self._counters["time/insert_wait"] += time.perf_counter() - started
        return len(self._unacknowledged) <= num_left

    def _count_failure(self, failure: EnvironmentFailedError) -> None:
        self._counters[f"restarts/{failure.reason}"] += 1
        if not self._rebuilds.spend("environment", self._counters["env_steps"]):
            raise EnvironmentBudgetError(f"{_TOO_OFTEN}; its last error: {failure}") from failure

    def _rebuild(self, failure: EnvironmentFailedError) -> None:
        self._counters[f"dropped_rows/{failure.reason}"] += sum(g.builder.num_pending_rows for g in self._groups)
        self._count_failure(failure)
        if self._incarnation + 1 >= self._incarnations_end:
            raise EnvironmentBudgetError(f"{_TOO_OFTEN}; no number is left for its unrolls") from failure
        self.statistics()  # kept for the new environments
        for group in self._groups:
            self._close_failed(group.environment)
        self._groups = []
        self._incarnation += 1

    def _close_failed(self, environment: VectorEnvironment) -> None:
        """Close an environment after a failure; only count an error of closing, so that the failure is reported."""
        try:
            environment.close()
        except RAISED:
            self._counters["close_failed"] += 1
