"""The learner: takes mixed batches, updates the networks, publishes them, writes column values to the replay."""

from __future__ import annotations

import dataclasses
import math
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from laser.algorithms.base import Algorithm, AlgorithmConfig, LossOutput
from laser.algorithms.refer import stored_far_fraction
from laser.batch import Batch
from laser.gpu import finish, own_stream
from laser.ports import (
    ColumnWrites,
    ParameterPort,
    Parameters,
    PortError,
    ReplayPort,
    Report,
)
from laser.prioritization.base import Prioritizer
from laser.unroll import UnrollSpec
from learner.config import LearnerConfig
from learner.experience.batch_loader import BatchLoader, LoadedBatch
from learner.experience.collate import collate, example_batch
from learner.experience.mixing import LogShare, Mix, Mixer, PoissonReplays
from learner.experience.stream_states import StreamStates
from learner.feedback.column_writer import ColumnWriter
from learner.feedback.prioritizer_link import PrioritizerLink, ReplayLooks
from learner.metrics.update_metrics import UpdateMetrics
from learner.publishing.publisher import Publisher
from learner.updating.factory import make_updater
from learner.updating.late import LateUpdater

REPORT_INTERVAL_S = 0.5
_TAKEN_OVER = 1  # tells seeds made of versions from seeds made of numbers of updates


class Learner:
    """Trains the networks of one member. A plain object that threads, processes or Ray may host.

    Call `tick` (or, in lockstep, `step`) and `state_dict` from one thread; other threads may call `set_progress` and
    read `heartbeat`.

    Args:
        algorithm: the learning rule.
        spec: layout of the unrolls.
        replay: source of experience, and where column values are written.
        parameters: receives the published versions.
        config: see `LearnerConfig`.
        device: torch device of networks and updates.
        seed: of the initial weights and of the loss's random numbers.
        member: index of the agent in its sweep.
        prioritizer: computes the column values that the replay's sampler reads; None for a sampler that reads none.
        starts_at_steps: replayed sequences begin at any stored step instead of at stored unrolls.
        log_share: share of replayed items that come from a log, by the finished share of the run; it returns None if
            all items are drawn alike. None: the replay began without a log.
        prefetch: decode batches in a separate thread; without it each batch is requested when it is needed, which makes
            the order of all calls repeatable.
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
        prioritizer: Prioritizer | None = None,
        starts_at_steps: bool = False,
        log_share: Callable[[float], float | None] | None = None,
        prefetch: bool = True,
    ):
        self.progress = 0.0
        self.heartbeat = time.monotonic()
        self.waiting_for = ""
        self.num_updates = 0
        self._algorithm = algorithm
        self._settings = algorithm.config  # includes later changes
        self._changed: dict[str, float] = {}
        self._update_inputs: dict[str, Any] = {}
        steps_view = algorithm.config.view == "steps"
        # Layout of the items in a batch.
        self._spec = spec = dataclasses.replace(spec, unroll_length=algorithm.config.rows_per_item(spec.unroll_length))
        self._replay = replay
        self._config = config
        self._member = member
        networks = algorithm.seeded_networks(seed)
        own_stream(torch.device(device))
        self.updater = make_updater(algorithm, networks, spec, config, torch.device(device), seed + 1)
        if self.updater.is_compiled:  # live settings as inputs: all members of a sweep then share the compiled code
            self._update_inputs = self._update_inputs_of(self._settings.live_settings)
        settings = algorithm.config
        self._log_share = log_share
        walks_streams = config.walks_streams(spec.core_state, settings.num_drawn)
        self._mixer = Mixer(
            replay,
            member,
            settings.num_online,
            settings.num_replayed,
            num_in_flight=2 if prefetch else 0,
            deadline_s=config.deadline_s,
            stream_set=_fresh_seed(seed, 0) if walks_streams else None,
            n_step=settings.steps_per_item if steps_view else 0,
            discount=settings.discount,
            reward_clip=settings.step_reward_clip,
            batches_per_draw=config.batches_together(settings.view),
            view="sequences" if starts_at_steps else "unrolls",
            log_share=None if self._asked_of_log is None else LogShare(lambda: self._asked_of_log or 0.0),
            replays=(
                PoissonReplays(settings.replays_per_batch, settings.num_drawn, seed)
                if settings.replays_per_batch
                else None
            ),
        )
        self._feed = PrioritizerLink(
            prioritizer,
            ReplayLooks(
                replay,
                member,
                settings.steps_per_item,
                settings.step_reward_clip,
                lambda: self._settings.discount,
                lambda mix: self.updater.to_device(self._collate([mix])[0]),
            ),
        )
        self._replay_states = (
            StreamStates(spec.core_state, settings.num_drawn, self.updater.state.device) if walks_streams else None
        )
        self._seed = seed
        self.loader = BatchLoader(
            self._mixer,
            self._collate,
            self._feed.prepare,
            self.updater.to_device,
            one_by_one=bool(spec.frames),
            num_prefetch=config.num_prefetch if prefetch else 0,
        )
        self._decode_s = 0.0  # part of `loader.decode_s` that has been counted
        self._counters: defaultdict[str, float] = defaultdict(float)
        self._metrics = UpdateMetrics(member, may_hold_log=log_share is not None)
        self._publisher = Publisher(parameters, self.updater.state.parameters)
        self._writer = ColumnWriter(replay, member, config.batches_together(settings.view), self.updater.state.device)
        self._num_unpublished = 0
        self._learning_rate = math.nan
        self._stored: dict[str, float] = {}
        self._reported = 0.0

    def warm_up(self) -> str:
        """Compile, publish the first parameters, and return the updater's description."""
        columns = [column.name for column in (*self._algorithm.columns, *self._feed.columns)]
        batch = example_batch(self._spec, self._settings.batch_size, columns, self._settings.view)
        self.updater = self.updater.warm_up(batch, self._update_inputs, core_state=self._recomputes_states)
        if self.version < 0:
            self.publish()
        self._settle()
        return self.updater.description

    def set_progress(self, progress: float) -> None:
        """Set the finished share of the run, from 0 to 1; schedules over training depend on it."""
        self.progress = progress

    def tick(self) -> Report | None:
        """Apply one update if a batch is ready within 0.2 s; return a report about twice a second, else None.

        Raises:
            PortTimeoutError: no batch came, and nothing arrived in the replay for the whole deadline.
        """
        started = time.perf_counter()
        # Copies from the GPU are waited for only when there is no other batch to update on.
        loaded = self.loader.poll(0.0) if self._publisher.is_copying else None
        if loaded is None:
            if self._publisher.is_free():
                self._publisher.hand_over()
            self._writer.hand_over()
            loaded = self.loader.poll(0.2)
        self._counters["time/learner_wait"] += time.perf_counter() - started
        self.waiting_for = self._mixer.waiting_for
        if loaded is not None:
            self._update([loaded])
            self._publish_if_due(may_skip=True)
        if time.monotonic() - self._reported < REPORT_INTERVAL_S:
            return None
        self._reported = time.monotonic()
        return self.report()

    def step(self, num_batches: int = 1) -> None:
        """Learn from `num_batches` batches, and from the replay-only batches that follow each.

        On return the newest publication and all column writes are complete.

        Raises:
            PortTimeoutError: no batch came, and nothing arrived within the deadline; the message says what was missing.
        """
        while num_batches > 0:
            num_batches -= self._step(num_batches)
            while self._mixer.num_replays_due:
                self._step(1)
        # Once: nobody reads parameters in between.
        self._publish_if_due()
        self._settle()

    def _step(self, most: int) -> int:
        """Learn from the next batch and those drawn together with it; return the number of batches."""
        started = time.perf_counter()
        together = self.loader.next(most)
        self._counters["time/learner_wait"] += time.perf_counter() - started
        # Replay statistics and recurrent states depend on the previous update, so update one batch at a time.
        if self._replay_states is not None or _statistics(together[0]):
            for loaded in together:
                self._update([loaded])
        else:
            self._update(together)
        return len(together)

    def _settle(self) -> None:
        self._publisher.settle()
        self._writer.settle()

    def _update(self, together: Sequence[LoadedBatch]) -> None:
        """Apply an update for each batch."""
        started = time.perf_counter()
        batches = [self._prepare(loaded) for loaded in together]
        rates = [self._rate(self.num_updates + number) for number in range(len(together))]
        self._learning_rate = rates[-1]
        inputs = self._update_inputs | {
            name: self.updater.scalar(value) for name, value in self._settings.scheduled(self.progress).items()
        }
        results = self.updater.in_turn(batches, rates, inputs)
        for loaded, batch, (metrics, output) in zip(together, batches, results, strict=True):
            self._write_columns(loaded, output)
            if self._replay_states is not None and loaded.streams is not None:
                states = output.core_state
                if self._recomputes_states:
                    states = self.updater.next_core_state(batch, inputs)
                self._replay_states.keep(states, loaded.streams)
            self.num_updates += 1
            self._num_unpublished += 1
            self._metrics.add(loaded.mix, self.version, metrics, output)
        self._counters["time/learner_step"] += time.perf_counter() - started
        self.heartbeat = time.monotonic()

    def _prepare(self, loaded: LoadedBatch) -> Batch:
        """Return the batch with its recurrent states; pass the replay's statistics to the algorithm."""
        statistics = _statistics(loaded)
        if statistics:
            self.updater.state.observe(statistics, self.num_updates)
        if self._algorithm.config.counts_far_policy and statistics:
            self._stored["stored_far_fraction"] = stored_far_fraction(statistics)
        if self._replay_states is not None and loaded.streams is not None:
            return self._replay_states.join(loaded.batch, loaded.streams)
        return loaded.batch

    def _rate(self, num_updates: int) -> float:
        """Return the learning rate after `num_updates` updates."""
        settings = self._settings
        return settings.learning_rate_at(self.progress) * settings.rate_factor(num_updates)

    @property
    def _asked_of_log(self) -> float | None:
        """The share of replayed items that are asked for of a log; None: they are drawn like all others."""
        return None if self._log_share is None else self._log_share(self.progress)

    @property
    def _recomputes_states(self) -> bool:
        """Whether the states of episode streams are recomputed after each update."""
        # With several passes, the last update saw only a part of the sequences.
        wanted = self._config.recompute_core_state or self._settings.passes != (1, 1)
        return self._replay_states is not None and wanted

    def _collate(self, mixes: Sequence[Mix]) -> list[Batch]:
        settings, correction = self._settings, self._feed.correction(self.progress)
        batches = collate(mixes, self._spec, self._member, settings.discount, self.version, correction)
        if self._config.replay_core_state == "zero":
            for mix, batch in zip(mixes, batches, strict=True):
                for value in batch.core_state.values():
                    value[mix.num_online :] = 0
        return batches

    def publish(self) -> None:
        """Publish the current parameters as the next version."""
        self._publisher.publish()
        self._num_unpublished = 0

    def _publish_if_due(self, may_skip: bool = False) -> None:
        """Publish after enough updates; with `may_skip` later, if the store has not taken the last version yet."""
        if self._num_unpublished < self._config.publish_interval:
            return
        started = time.perf_counter()
        if not may_skip or self._publisher.is_free():
            self.publish()
        self._counters["time/publish"] += time.perf_counter() - started

    @property
    def version(self) -> int:
        """The newest published version; -1 before the first."""
        return self._publisher.version

    def report(self) -> Report:
        """Return running totals, and the means of the metrics since the last report."""
        gauges: dict[str, float] = {"parameter_version": float(self.version)}
        gauges["charts/learning_rate"] = self._learning_rate
        gauges["column_writes_pending"] = float(self._writer.num_pending)
        gauges |= self._metrics.take_gauges(self._asked_of_log) | self._feed.metrics() | self._stored
        self._count()
        counters = dict(self._counters) | {"learner_steps": float(self.num_updates)}
        return Report("learner", counters, gauges)

    def mark_evaluation(self) -> None:
        """Mark the start of an evaluation of the newest parameters; pass its mean return to `hear_return`."""
        self._feed.mark_evaluation()

    def hear_return(self, mean_return: float) -> None:
        """Pass the mean return of an evaluation, or of training episodes, to the prioritizer, which may learn from it.

        If the replay cannot be read, the lesson is lost and the run goes on.
        """
        try:
            lesson = self._feed.hear(mean_return)
        except PortError:
            self._counters["sampler_lessons_failed"] += 1.0
            return
        finish(self.updater.state.device)  # the loading thread uses the rule's network from here on
        if lesson is not None:
            values = {name: value.T.contiguous().cpu().numpy() for name, value in lesson.values.items()}
            self._writer.write(ColumnWrites(self._member, lesson.keys, values, redraw=lesson.redraw))

    def change_settings(self, settings: Mapping[str, float]) -> None:
        """Change settings of the algorithm from the next update on.

        Args:
            settings: new values by field name; only the `live_settings` of the algorithm's config can change.

        Raises:
            ValueError: a setting is not live.
        """
        fixed = sorted(set(settings) - set(self._settings.live_settings))
        if fixed:
            raise ValueError(f"{', '.join(fixed)} cannot change while training, only {self._settings.live_settings}")
        values: dict[str, Any] = dict(settings)
        self._settings = dataclasses.replace(self._settings, **values)
        optimizer = self.updater.state.optimizer
        optimizer.epsilon, optimizer.max_gradient_norm = (
            self._settings.optimizer_epsilon,
            self._settings.max_gradient_norm,
        )
        self._changed |= settings
        self._mixer.discount = self._settings.discount
        self._update_inputs |= self._update_inputs_of(settings)

    def _update_inputs_of(self, names: Iterable[str]) -> dict[str, Any]:
        """Return the values of the settings in `names` that are update inputs."""
        own = sorted(set(names) - set(AlgorithmConfig.live_settings))
        return {name: self.updater.scalar(getattr(self._settings, name)) for name in own}

    def weights(self) -> dict[str, dict[str, Tensor]]:
        """Return copies of the networks and of the optimiser's state, which another member may adopt."""
        state = self.updater.state
        return {
            "networks": {name: value.detach().cpu().clone() for name, value in state.networks.state_dict().items()},
            "optimizer": {name: value.cpu() for name, value in state.optimizer.state_dict().items()},
        }

    def adopt(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Continue from another member's `weights`, and publish them as the next version.

        Raises:
            ValueError: the weights belong to other networks.
        """
        self._load_weights(weights)
        for target in self.updater.state.targets.values():
            target.parameters.vector.copy_(self.updater.state.parameters.vector)
        self._feed.forget_agent()
        if self._replay_states is not None:
            # The states belong to the old networks. Requests in flight still continue in the middle of their episodes.
            self._replay_states.forget()
            self._mixer.restart_streams()
        self.publish()

    def close(self) -> None:
        """Stop loading, and cancel requests in flight."""
        self.loader.close()
        self.updater.close()

    def newest(self) -> Parameters:
        """Return the current parameters without publishing them."""
        return self._publisher.newest()

    def state_dict(self) -> dict[str, Any]:
        """Return everything that a restored learner needs: tensors by group, arrays, and plain numbers."""
        training = self.updater.state
        tensors = self.weights()
        feed = self._feed.state_dict()
        if feed["tensors"]:
            tensors["sampler"] = feed["tensors"]
        for name, target in training.targets.items():
            tensors[f"target_{name}"] = {"vector": target.parameters.vector.detach().cpu().clone()}
        if self._replay_states is not None:
            tensors["replay_states"] = self._replay_states.state_dict()
        self._count()
        return {
            "tensors": tensors,
            "arrays": {"generator": training.generator.get_state().numpy()},
            "numbers": {
                "num_steps": self.num_updates,
                "version": self.version,
                "counters": dict(self._counters),
                "progress": self.progress,
                "settings": dict(self._changed),
                "streams": [self._mixer.stream_set, self._mixer.next_sequence],
                "replays": self._mixer.replays.state_dict() if self._mixer.replays is not None else None,
                "client": self._replay.client_state(),
                "sampler": feed["numbers"],
                **({} if self._mixer.log_share is None else {"owed_of_log": self._mixer.log_share.owed}),
            },
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a state from `state_dict`, and publish its parameters under their own version.

        Raises:
            ValueError: the state belongs to other networks.
        """
        self._restore(state)
        self._publisher.version = state["numbers"]["version"] - 1
        self.publish()

    def take_over(self, version: int, state: dict[str, Any] | None) -> str:
        """Take the place of a learner that died: get ready, and publish for the first time.

        On a CPU the first updates are uncompiled, unless a prioritizer's networks may run in the loading thread while
        something is compiled.

        Args:
            version: a number above all versions that were published, for this first one.
            state: the newest state of the earlier learner, from `state_dict`; None: start from the initial weights.

        Returns:
            the updater's description.

        Raises:
            ValueError: the state belongs to other networks.
        """
        self._publisher.version = version - 1  # a version of its own: `warm_up` publishes none
        if self.updater.is_compiled and self.updater.state.device.type == "cpu" and not self._feed.columns:
            self.updater = LateUpdater(self.updater)
        description = self.warm_up()
        if state is not None:
            self._restore(state)
        if self._mixer.stream_set is not None:
            # A set that no earlier learner used: the recurrent states of its streams are lost.
            self._mixer.stream_set = _fresh_seed(self._seed, version, _TAKEN_OVER)
        self.publish()
        self._settle()
        return description

    def publish_again(self) -> None:
        """Publish the current parameters under the newest version, for a store that has lost them."""
        self._publisher.publish_again()

    def _restore(self, state: dict[str, Any]) -> None:
        training = self.updater.state
        self._load_weights(state["tensors"])
        for name, target in training.targets.items():
            saved = state["tensors"].get(f"target_{name}")  # None if the run had no such target network so far
            if saved is None:
                target.parameters.vector.copy_(training.parameters.vector)
            else:
                target.parameters.load_numpy(saved["vector"].numpy())
        training.num_updates = state["numbers"]["num_steps"] * math.prod(self._settings.passes)
        numbers = state["numbers"]
        self._load_generator(np.array(state["arrays"]["generator"], np.uint8), numbers["num_steps"])
        self.num_updates, self.progress = numbers["num_steps"], numbers["progress"]
        self._counters = defaultdict(float, numbers["counters"])
        self.change_settings(numbers.get("settings", {}))
        feed = {"tensors": state["tensors"].get("sampler", {}), "numbers": numbers.get("sampler", {})}
        self._feed.load_state_dict(feed, state.get("replay_restored", True))
        self._load_streams(state)

    def _load_generator(self, saved: np.ndarray, num_updates: int) -> None:
        """Restore a generator's state, or seed the generator anew if the state is of another kind of device."""
        generator = self.updater.state.generator
        if saved.nbytes == generator.get_state().nbytes:
            generator.set_state(torch.from_numpy(saved))
        else:
            generator.manual_seed(_fresh_seed(self._seed, num_updates))

    def _load_streams(self, state: dict[str, Any]) -> None:
        replays = state["numbers"].get("replays")
        if self._mixer.replays is not None and replays is not None:
            self._mixer.replays.load_state_dict(replays)
        if self._mixer.log_share is not None:
            self._mixer.log_share.owed = state["numbers"].get("owed_of_log", 0.0)
        if not self.loader.is_ahead:  # without prefetching no batch was in flight: continue exactly
            self._replay.load_client_state(state["numbers"]["client"])
            saved = state["tensors"].get("replay_states")
            if self._replay_states is not None and saved is not None and self._replay_states.fits(saved):
                self._replay_states.load_state_dict(saved)
                self._mixer.stream_set, self._mixer.num_asked = state["numbers"]["streams"]
        elif self._mixer.stream_set is not None:
            # The states of the old streams are lost, so a new set of streams begins.
            self._mixer.stream_set = _fresh_seed(self._seed, self.num_updates)

    def _load_weights(self, weights: Mapping[str, Mapping[str, Tensor]]) -> None:
        own, saved = self.updater.state.networks.state_dict(), weights["networks"]
        if set(own) != set(saved) or any(own[name].shape != saved[name].shape for name in own):
            raise ValueError("the checkpoint belongs to other networks; use the network settings it was trained with")
        with torch.no_grad():
            for name, value in saved.items():
                own[name].copy_(value)
        self.updater.state.optimizer.load_state_dict(dict(weights["optimizer"]))

    def _write_columns(self, loaded: LoadedBatch, output: LossOutput) -> None:
        if loaded.mix.replayed is None:
            return
        values = output.column_writes | loaded.prepared | self._feed.values(loaded.mix, loaded.batch, output)
        options = self._algorithm.write_options(self.num_updates, self._settings.discount)
        self._writer.write_batch(loaded.mix, values, output.final_writes, options)

    def _count(self) -> None:
        for name, count in self._metrics.take_counts().items():
            self._counters[name] += count
        self._counters["column_writes_failed"] += self._writer.take_failed()
        decode_s = self.loader.decode_s
        self._counters["time/decode"] += decode_s - self._decode_s
        self._decode_s = decode_s


def _statistics(loaded: LoadedBatch) -> Mapping[str, Any]:
    return {} if loaded.mix.replayed is None else loaded.mix.replayed.statistics


def _fresh_seed(seed: int, *numbers: int) -> int:
    return int(np.random.SeedSequence([seed, *numbers]).generate_state(1, np.uint64)[0] >> 1)
