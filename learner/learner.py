"""The learner: takes mixed batches, updates the networks, publishes them, writes numbers back to the replay."""

from __future__ import annotations

import queue
import threading
import time
from collections import defaultdict
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laser.algorithms.base import Algorithm
from laser.algorithms.metrics import drop_absent_sources
from laser.batch import Batch
from laser.ports import (
    ColumnWrites,
    ParameterPort,
    Parameters,
    PortTimeoutError,
    ReplayPort,
    Report,
    wait,
)
from laser.unroll import UnrollSpec
from learner.collate import collate, example_batch
from learner.config import LearnerConfig
from learner.mixing import Mix, Mixer
from learner.train_step import TrainStep, learning_rate_at

REPORT_INTERVAL_S = 0.5


@dataclass(frozen=True)
class _Ready:
    """A batch that waits for the train step, and where its columns came from."""

    batch: Batch
    mix: Mix


class Learner:
    """Owns the networks of one member. A plain object that threads, processes or Ray may host.

    `tick` (or, in lockstep, `step`) and `state_dict` belong to one thread; `progress` may be set and `heartbeat` read
    by others.

    Args:
        algorithm: the learning rule.
        spec: layout of the unrolls.
        replay: where experience comes from and column values go.
        parameters: where published versions go.
        config: see `LearnerConfig`.
        device: where to compute.
        seed: of the initial weights and of the loss's random numbers.
        member: which agent of a sweep this is.
        prefetch: decode batches in a thread of their own; without it every batch is asked for when it is needed, which
            makes the order of all calls repeatable.
    """

    def __init__(
        self,
        algorithm: Algorithm,
        spec: UnrollSpec,
        replay: ReplayPort,
        parameters: ParameterPort,
        config: LearnerConfig,
        device: str,
        seed: int,
        *,
        member: int = 0,
        prefetch: bool = True,
    ):
        self.progress = 0.0
        self.heartbeat = time.monotonic()
        self.waiting_for = ""
        self.num_steps = 0
        self.version = -1
        self._algorithm = algorithm
        self._spec = spec
        self._replay = replay
        self._parameters = parameters
        self._config = config
        self._member = member
        networks = algorithm.seeded_networks(seed)
        self.train_step = TrainStep(algorithm, networks, spec, config, torch.device(device), seed + 1)
        settings = algorithm.config
        self._mixer = Mixer(
            replay,
            member,
            settings.num_online,
            settings.num_replayed,
            num_in_flight=2 if prefetch else 0,
            deadline_s=config.deadline_s,
        )
        self._prefetcher = _Prefetcher(self, config.num_prefetch) if prefetch else None
        self._counters: defaultdict[str, float] = defaultdict(float)
        self._metric_names: list[str] = []
        self._metric_sums: Tensor | None = None
        self._num_metrics = 0
        self._writes: list[Future[Any]] = []
        self._publication: Future[None] | None = None
        self._reported = 0.0
        self._idle_since: float | None = None

    def warm_up(self) -> str:
        """Compile, publish the first parameters, and return how the train step computes."""
        columns = [column.name for column in self._algorithm.columns]
        self.train_step.warm_up(example_batch(self._spec, self._algorithm.config.batch_size, columns))
        if self.version < 0:
            self.publish()
        self.settle()
        return self.train_step.description

    def tick(self) -> Report | None:
        """Apply one update if a batch is ready within a moment; report about twice a second.

        Raises:
            PortTimeoutError: no batch came for the whole deadline.
        """
        started = time.perf_counter()
        ready = self._prefetcher.next(timeout_s=0.2) if self._prefetcher else self.poll(0.2)
        self._counters["time/learner_wait"] += time.perf_counter() - started
        if ready is not None:
            self._update(ready)
            self._idle_since = None
        elif self._idle_since is None:  # not since the last update: compilation or a pause may lie between
            self._idle_since = time.monotonic()
        elif time.monotonic() - self._idle_since > self._config.deadline_s:
            raise PortTimeoutError(
                f"the learner waited {self._config.deadline_s:g} s for a batch: no experience arrives"
            )
        if time.monotonic() - self._reported < REPORT_INTERVAL_S:
            return None
        self._reported = time.monotonic()
        return self.report()

    def step(self) -> None:
        """Take one batch and apply one update.

        Raises:
            PortTimeoutError: no batch came within the deadline; says what was missing.
        """
        started = time.perf_counter()
        ready = self.load(self._mixer.next())
        self._counters["time/learner_wait"] += time.perf_counter() - started
        self._update(ready)

    def settle(self) -> None:
        """Wait until the newest publication and all column writes are through."""
        if self._publication is not None:
            wait(self._publication, 60.0, "the parameter store to take the newest version")
        for write in self._writes:
            wait(write, 60.0, "the replay to take column writes")
        self._writes = []

    def _update(self, ready: _Ready) -> None:
        started = time.perf_counter()
        settings = self._algorithm.config
        rate = learning_rate_at(self.progress, settings.learning_rate, settings.learning_rate_schedule)
        metrics, column_writes = self.train_step(ready.batch, rate, {})
        self._accumulate(metrics)
        self._write_columns(ready.mix, column_writes)
        self.num_steps += 1
        done = time.perf_counter()
        if self.num_steps % self._config.publish_interval == 0:
            self.publish()
        self._counters["time/learner_step"] += done - started
        self._counters["time/publish"] += time.perf_counter() - done
        self._count(ready.mix)
        self.heartbeat = time.monotonic()

    def poll(self, timeout_s: float) -> _Ready | None:
        """Return the next decoded batch, or None if its experience is not there after `timeout_s`."""
        mix = self._mixer.poll(timeout_s)
        return None if mix is None else self.load(mix)

    def load(self, mix: Mix) -> _Ready:
        """Decode a mix and move it to the learner's device."""
        started = time.perf_counter()
        batch = collate(mix, self._spec, self._member, self._algorithm.config.discount, self.version)
        batch = self.train_step.to_device(batch)
        self._counters["time/decode"] += time.perf_counter() - started
        return _Ready(batch, mix)

    def publish(self) -> None:
        """Publish the current parameters as the next version; waits only for the previous publication to be through."""
        if self._publication is not None:
            wait(self._publication, 60.0, "the parameter store to take the previous version")
        self.version += 1
        self._publication = self._parameters.publish(Parameters(self.version, self.train_step.parameters.to_numpy()))

    def report(self) -> Report:
        """Return running totals, and the means of the metrics since the last report."""
        gauges: dict[str, float] = {"parameter_version": float(self.version)}
        if self._metric_sums is not None and self._num_metrics:
            means = (self._metric_sums / self._num_metrics).tolist()
            gauges |= drop_absent_sources(dict(zip(self._metric_names, means, strict=True)))
            self._metric_sums = torch.zeros_like(self._metric_sums)
            self._num_metrics = 0
        counters = dict(self._counters) | {"learner_steps": float(self.num_steps)}
        return Report("learner", counters, gauges)

    def close(self) -> None:
        """Stop prefetching and forget requests in flight."""
        if self._prefetcher is not None:
            self._prefetcher.close()
        self._mixer.close()

    def newest(self) -> Parameters:
        """Return the current parameters without publishing them."""
        return Parameters(self.version, self.train_step.parameters.to_numpy())

    def state_dict(self) -> dict[str, Any]:
        """Return everything that continues this learner: tensors by group, and plain numbers."""
        step = self.train_step
        return {
            "tensors": {
                "networks": {name: value.detach().cpu().clone() for name, value in step.networks.state_dict().items()},
                "optimizer": {name: value.cpu() for name, value in step.optimizer.state_dict().items()},
            },
            "arrays": {"generator": step.generator.get_state().numpy()},
            "numbers": {
                "num_steps": self.num_steps,
                "version": self.version,
                "counters": dict(self._counters),
                "progress": self.progress,
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore what `state_dict` gave, and publish it under its own version.

        Raises:
            ValueError: the state belongs to other networks.
        """
        step = self.train_step
        own = step.networks.state_dict()
        saved = state["tensors"]["networks"]
        if set(own) != set(saved) or any(own[name].shape != saved[name].shape for name in own):
            raise ValueError("the checkpoint belongs to other networks; use the network settings it was trained with")
        with torch.no_grad():
            for name, value in saved.items():
                own[name].copy_(value)
        step.optimizer.load_state_dict(state["tensors"]["optimizer"])
        step.generator.set_state(torch.from_numpy(np.array(state["arrays"]["generator"], np.uint8)))
        numbers = state["numbers"]
        self.num_steps, self.progress = numbers["num_steps"], numbers["progress"]
        self._counters = defaultdict(float, numbers["counters"])
        self.version = numbers["version"] - 1
        self.publish()

    def _accumulate(self, metrics: dict[str, Tensor]) -> None:
        values = torch.stack([value.float() for value in metrics.values()])
        if self._metric_sums is None:
            self._metric_names, self._metric_sums = list(metrics), torch.zeros_like(values)
        self._metric_sums += values
        self._num_metrics += 1

    def _write_columns(self, mix: Mix, column_writes: dict[str, Tensor]) -> None:
        if not column_writes or mix.replayed is None:
            return
        first = len(mix.online.unrolls) if mix.online is not None else 0
        values = {name: value[:, first:].T.contiguous().cpu().numpy() for name, value in column_writes.items()}
        failed = sum(future.done() and future.exception() is not None for future in self._writes)
        self._counters["column_writes_failed"] += failed  # a shard that is gone costs numbers, not the run
        self._writes = [future for future in self._writes if not future.done()]
        self._writes.append(self._replay.write(ColumnWrites(self._member, mix.replayed.keys, values)))

    def _count(self, mix: Mix) -> None:
        num_online = len(mix.online.unrolls) if mix.online is not None else 0
        num_replayed = len(mix.replayed.unrolls) if mix.replayed is not None else 0
        self._counters["unrolls_learned/online"] += num_online
        self._counters["unrolls_learned/replayed"] += num_replayed
        for name, part in (("online", mix.online), ("replayed", mix.replayed)):
            if part is not None:
                headers = part.unrolls.headers
                own = headers["member"] == self._member
                lags = self.version - headers["parameter_version"][own]
                self._counters[f"policy_lag_sum/{name}"] += float(lags.sum())
                self._counters[f"policy_lag_count/{name}"] += len(lags)


class _Prefetcher:
    """Keeps a few decoded batches ready, in a thread of its own."""

    def __init__(self, learner: Learner, num_ready: int):
        self._learner = learner
        self._ready: queue.Queue[_Ready | BaseException] = queue.Queue(num_ready)
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def next(self, timeout_s: float) -> _Ready | None:
        """Return the next batch, None if it is not there in time, or raise what went wrong while it was made."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
            self._thread.start()
        try:
            ready = self._ready.get(timeout=timeout_s)
        except queue.Empty:
            return None
        if isinstance(ready, BaseException):
            raise ready
        return ready

    def close(self) -> None:
        """Stop the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=5.0)

    def _run(self) -> None:
        while not self._stop.is_set():
            ready: _Ready | BaseException | None
            try:
                ready = self._learner.poll(0.2)
            except Exception as error:  # noqa: BLE001 - handed to the training thread, which raises it
                ready = error
            while ready is not None and not self._stop.is_set():
                try:
                    self._ready.put(ready, timeout=0.2)
                    break
                except queue.Full:
                    continue
            if isinstance(ready, BaseException):
                return
