"""The config of a whole training run, with the rules that span its sections."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

from actors.config import ActorConfig
from laser.algorithms.base import AlgorithmConfig
from laser.config import (
    Bounds,
    ConfigError,
    Problem,
    find_problems,
    find_unused,
    key_of,
    raise_problems,
    with_own_numbers,
)
from laser.environments import task_ids
from laser.environments.config import EnvironmentConfig
from laser.environments.own import id_of, is_only_here
from laser.logs.names import is_log
from laser.networks.config import NetworkConfig
from laser.packages import find_missing
from laser.user_classes import class_path
from launch.settings.values import convert
from learner.config import LearnerConfig
from replay_server.config import ReplayConfig
from replay_server.removers import find_removers

NOT_FLAGS = ("preset",)
"""Keys that are recorded but that a user cannot set."""
ScheduleName = Literal["auto", "free", "lockstep"]
_GPU = r"cuda(:(0|[1-9][0-9]*))?"  # torch accepts no leading zeros


@dataclass(frozen=True)
class EvaluationConfig:
    """Settings of evaluations: episodes that the newest policy plays and that are not trained on."""

    interval: Annotated[int, Bounds(least=0), "env steps between evaluations during training; 0: none"] = 0
    episodes: Annotated[int, Bounds(least=1), "episodes per evaluation"] = 20
    num_envs: Annotated[int, Bounds(least=1, most=4096), "environments side by side"] = 4
    greedy: Annotated[bool, "take the most likely action instead of a sample"] = False


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """All settings of a training run. Presets return one; flags and files change single values."""

    preset: Annotated[str, "the preset that the config came from"] = ""
    env: Annotated[
        str, "environment id, for example CartPole-v1, ALE/Pong-v5, my_module:MyEnv-v0 or my_module:MyEnv (a class)"
    ]
    steps: Annotated[int, Bounds(least=1, most=10**15), "env steps (agent decisions) to train for, over all actors"]
    seed: Annotated[int, Bounds(least=0, most=2**31 - 1), "all randomness comes from it"] = 0
    name: Annotated[str, "name of the run: its directory's name begins with it, unless run-dir is given"] = ""
    tag: Annotated[str, "words to find the run by, with commas between them; kept in its config"] = ""
    device: Annotated[str, "device of the learner: auto, cpu, cuda or cuda:N"] = "auto"
    run_dir: Annotated[Path | None, "directory of the run's files; default: a new directory under runs/"] = None
    runtime: Annotated[
        Literal["local", "ray", "lockstep"],
        "local: threads; ray: processes, on one machine or many; lockstep: short for local with schedule lockstep",
    ] = "local"
    schedule: Annotated[
        ScheduleName,
        "free: every worker at its own pace; lockstep: workers take turns, repeatable bit by bit; auto: lockstep with "
        "runtime lockstep, else free",
    ] = "auto"
    ray_address: Annotated[
        str, "HOST:PORT of a Ray cluster's head to run on (docs/cluster.md), with runtime ray; else LASER starts Ray"
    ] = ""
    num_actors: Annotated[int, Bounds(least=1, most=4096), "actors"] = 1
    num_envs: Annotated[int, Bounds(least=1, most=4096), "environments per actor"] = 8
    unroll_length: Annotated[int, Bounds(least=1, most=10_000), "T, env steps per unroll"] = 20
    stop_at_return: Annotated[
        float, Bounds(allow_infinite=True), "stop once the mean return of the last 20 episodes reaches this; inf: never"
    ] = math.inf
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False
    resume: Annotated[bool, "continue the run in run-dir, or the newest one of this preset and environment"] = False
    init_from: Annotated[
        str, "start with the weights of another run: RUN, RUN@best or RUN@STEP; everything else starts anew"
    ] = ""
    init_strict: Annotated[bool, "init-from: refuse other spaces or networks; false: take the tensors that fit"] = True
    offline: Annotated[
        str,
        "learn from a log of episodes alone, minari:NAMESPACE/NAME-vN; only evaluations play in the environment, and "
        "env steps are steps of the log",
    ] = ""
    init_replay: Annotated[
        str, "begin with the episodes of a log in the replay, minari:NAMESPACE/NAME-vN, beside which the run's own go"
    ] = ""
    settings_schedule: Annotated[
        Path | None, "JSON file of settings to change during the run; laser sweep --pbt writes one for every member"
    ] = None
    checkpoint_replay: Annotated[bool, "keep the replay in checkpoints too; its size is printed at the start"] = False
    max_failures: Annotated[
        int,
        Bounds(least=0, most=1_000_000),
        "runtime ray: deaths of each process (an actor, the learner, a shard, ...) that a run outlasts within "
        "failure-window and environment.restart-window-steps",
    ] = 3
    failure_window: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "seconds for which a failure counts; inf: for ever"
    ] = 3600.0
    track: Annotated[
        Literal["none", "wandb"], "tracker beside metrics.db and TensorBoard; wandb: offline without key or network"
    ] = "none"
    bucket_frames: Annotated[
        int,
        Bounds(least=0),
        "frames of a bucket of training curves; 0: 1M on Atari, 10M on DeepMind Lab, elsewhere a twentieth of the run",
    ] = 0
    capture_video: Annotated[
        bool,
        "film an episode of every evaluation, and of the final agent; where evaluation.interval is 0, one every tenth "
        "of the run",
    ] = False
    algorithm: AlgorithmConfig
    network: NetworkConfig = field(default_factory=NetworkConfig)
    environment: EnvironmentConfig = field(default_factory=EnvironmentConfig)
    actor: ActorConfig = field(default_factory=ActorConfig)
    replay: ReplayConfig = field(default_factory=ReplayConfig)
    learner: LearnerConfig = field(default_factory=LearnerConfig)
    evaluation: EvaluationConfig = field(default_factory=EvaluationConfig)

    def __post_init__(self) -> None:
        """Take the id of an environment's class or function, the path of a text, and Python's number of NumPy's."""
        object.__setattr__(self, "env", _id_of_env(self.env))
        for name in ("run_dir", "settings_schedule"):
            object.__setattr__(self, name, _as_path(getattr(self, name)))
        for name in [each.name for each in fields(self)]:
            object.__setattr__(self, name, with_own_numbers(getattr(self, name)))

    @staticmethod
    def with_new_names(values: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
        """Return values by key with the keys of earlier versions renamed, and a note for each renamed key.

        In earlier versions `schedule` was the file that is now `settings_schedule`.
        """
        renamed, notes = dict(values), []
        if "env" in renamed:
            renamed["env"] = _id_of_env(renamed["env"])
        given = str(renamed.get("schedule", "auto")).strip()
        if given.lower() not in get_args(ScheduleName):
            path = renamed["settings_schedule"] = renamed.pop("schedule")
            if given.lower() != "none":
                notes.append(f"schedule: a file of settings over time is settings-schedule now; {path} is read as one")
        return renamed, notes

    @property
    def tags(self) -> list[str]:
        """The words of `tag`, without repetitions."""
        return list(dict.fromkeys(word.strip() for word in self.tag.split(",") if word.strip()))

    @property
    def takes_turns(self) -> bool:
        """Whether workers take turns (lockstep), which repeats bit by bit."""
        return self.schedule == "lockstep" or (self.schedule == "auto" and self.runtime == "lockstep")

    @property
    def has_processes(self) -> bool:
        """Whether components run in processes of their own, on Ray."""
        return self.runtime == "ray"

    @property
    def outlasts_deaths(self) -> bool:
        """Whether other processes take the places of those that die; in lockstep the run would not repeat."""
        return self.has_processes and not self.takes_turns and self.max_failures > 0

    @property
    def may_hold_log(self) -> bool:
        """Whether the replay may hold a log: from the run's start, or from an import that the run continues."""
        return bool(self.init_replay) or (self.resume and self.replay.log_share is not None)

    @property
    def evaluation_interval(self) -> int:
        """Env steps between evaluations; 0: none."""
        if (self.capture_video or self.offline) and not self.evaluation.interval:
            return max(1, self.steps // 10)
        return self.evaluation.interval

    def single_problems(self) -> Iterator[Problem]:
        """Yield the mistakes of single fields that their ranges cannot express."""
        if self.has_processes:
            yield from find_missing("runtime", ["ray"], "use --runtime local")
        if self.track == "wandb":
            yield from find_missing("track", ["wandb"], "leave --track out")
        if not self.env.strip():
            yield Problem("env", "must name an environment", "for example --env CartPole-v1")
        if is_only_here(self.env) and (self.has_processes or self.environment.vectorization == "async"):
            wrong = f"other processes cannot import {self.env}"
            yield Problem("env", wrong, "define it at the top level of a module, or use threads (runtime local, sync)")
        for key, log in (("offline", self.offline), ("init-replay", self.init_replay)):
            if log and not is_log(log):
                yield Problem(key, f"must be minari:NAMESPACE/NAME-vN, got {log!r}")
        yield from self._device_problems()
        if self.ray_address and not re.fullmatch(r"(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}", self.ray_address):
            yield Problem("ray-address", f"must be HOST:PORT, got {self.ray_address!r}", "for example 10.0.0.1:6379")
        for key, part in (
            ("algorithm", self.algorithm),
            ("network", self.network),
            ("replay.sampler-settings", self.replay.sampler_settings),
        ):
            try:
                class_path(type(part))
            except ValueError as error:
                yield Problem(key, str(error), "move the class there, or the run could not be resumed")
        removers = sorted({kind.name for kind in find_removers()})
        if self.replay.remover not in removers:
            wrong = f"must be one of {', '.join(removers)}, got {self.replay.remover!r}"
            yield Problem("replay.remover", wrong)
        if self.run_dir is not None and not is_utf8(self.run_dir):
            yield Problem("run-dir", f"the name {str(self.run_dir)!a} is not UTF-8", "choose another")

    def problems(self) -> Iterator[Problem]:
        """Yield the mistakes that concern several fields together."""
        if self.ray_address and not self.has_processes:
            yield Problem(
                "ray-address", f"a cluster needs runtime ray, got runtime {self.runtime}", "leave runtime out"
            )
        if self.actor.env_groups > self.num_envs:
            yield Problem(
                "actor.env-groups",
                f"must be at most num-envs ({self.num_envs}), got {self.actor.env_groups}: a group would be empty",
                "use 0 to let LASER choose",
            )
        num_tasks = 1
        try:
            num_tasks = len(task_ids(self.env))
        except ConfigError as error:
            yield from error.problems
        if num_tasks > self.num_actors * self.num_envs:
            yield Problem(
                "num-envs",
                f"must give each of {num_tasks} tasks an environment, got {self.num_actors} actors of {self.num_envs}",
                f"use at least {math.ceil(num_tasks / self.num_actors)}",
            )
        if self.replay.log_share is not None and (self.offline or not self.may_hold_log):
            why = "offline learns from its log alone" if self.offline else "the replay begins without one"
            remedy = "leave it out" if self.offline else "use --init-replay minari:NAMESPACE/NAME-vN, or leave it out"
            yield Problem("replay.log-share", f"is the share of draws from a log, but {why}", remedy)
        # Values out of range are reported already; problems computed from them would only mislead.
        wrong = {problem.key for part in (self.algorithm, self.replay) for problem in find_problems(part)}
        if not wrong & {"batch-size", "replay-fraction", "capacity-steps", "num-shards", "min-steps"}:
            yield from self._replay_problems()

    def check(self) -> None:
        """Raise `ConfigError` with every mistake of the whole tree, if it has any."""
        raise_problems(list(find_problems(self)))

    def warnings(self) -> Iterator[Problem]:
        """Yield settings that have no effect, or an unexpected one, in this combination."""
        algorithm, replay = self.algorithm, self.replay
        if math.isfinite(replay.samples_per_insert) and algorithm.num_online > 0:
            yield Problem(
                "replay.samples-per-insert",
                "has no effect: the learner also draws fresh experience, which sets the learner's pace",
                "algorithm.replay-fraction sets how much is replayed",
            )
        if self.takes_turns and algorithm.num_online == 0 and math.isinf(replay.samples_per_insert):
            yield Problem(
                "replay.samples-per-insert",
                "lockstep takes turns and has no pace of its own: one step is replayed per step inserted",
                "set it to replay more",
            )
        yield from self._sampler_warnings()
        if not self.init_strict and not self.init_from:
            yield Problem("init-strict", "has no effect without init-from", "leave it out")
        yield from replay.unused()
        if replay.remover == "far_policy" and not algorithm.counts_far_policy:
            yield Problem(
                "replay.remover",
                f"far_policy removes like fifo: {algorithm.name} does not mark steps that are far from its policy",
                "use fifo, or an algorithm with algorithm.refer.enabled",
            )
        if (replay.log_share_at(1.0) or 0.0) > 0.0 and replay.remover == "fifo" and self.steps > replay.capacity_steps:
            wrong = f"{self.steps} env steps push the log out of a replay of {replay.capacity_steps}"
            yield Problem(
                "replay.log-share", f"{wrong}, and then nothing of it is drawn", "raise replay.capacity-steps"
            )
        if algorithm.num_drawn == 0 and self.checkpoint_replay:
            yield Problem("checkpoint-replay", "keeps a replay that is never drawn from", "leave it out")
        yield from algorithm.warnings(self.network, replay.remover)
        if type(self.network).make is NetworkConfig.make:
            for torso, names in (("conv", ("filters", "features")), ("impala_resnet", ("width",))):
                if self.network.torso != torso:
                    why = f"network.torso is {self.network.torso}"
                    yield from find_unused(self.network, "network", names, why, f"use network.torso {torso}")
        if self.network.core == "none" and type(self.network).make is NetworkConfig.make:
            for section, part, names in (
                ("network", self.network, ("core_size",)),
                ("learner", self.learner, ("replay_core_state", "recompute_core_state")),
                ("replay", replay, ("stream_weight",)),
            ):
                yield from find_unused(
                    part, section, names, "the agent has no memory", "use network.core lstm or preco"
                )
        if algorithm.view != "steps":
            why = f"{algorithm.name} does not learn from single steps"
            yield from find_unused(self.learner, "learner", ("batches_per_draw",), why, "leave it out")
        if self.learner.compile == "off":
            why = "an update that is not compiled has no CUDA graph"
            yield from find_unused(self.learner, "learner", ("cuda_graphs",), why, "use --learner.compile on")
        if self.evaluation_interval > self.steps:
            wrong = f"is more than the {self.steps:,} env steps of the run, which never evaluates"
            yield Problem("evaluation.interval", wrong, "lower it")
        if self.takes_turns and self.learner.publish_interval > 1:
            yield Problem(
                "learner.publish-interval",
                "a resumed run publishes at once, and so need not repeat bit by bit",
                "use --learner.publish-interval 1",
            )
        if self.takes_turns or not self.has_processes:
            why = "in lockstep a dead process ends the run" if self.takes_turns else "all parts share one process"
            if self.max_failures != type(self).max_failures:
                yield Problem("max-failures", f"has no effect: {why}", "leave it out")
        if self.takes_turns and self.device.startswith("cuda"):
            yield Problem("device", "results on a GPU need not repeat bit by bit", "use --device cpu")
        per_batch = max(1, algorithm.num_online) * self.unroll_length
        if self.steps < per_batch:
            yield Problem(
                "steps",
                f"{self.steps} env steps do not fill one batch of {per_batch}, so nothing is learned",
                "raise it",
            )
        elif algorithm.num_drawn and self.steps < replay.min_steps:
            wrong = f"{self.steps} env steps end before drawing begins, at {replay.min_steps}, so nothing is learned"
            yield Problem("steps", wrong, "raise it, or lower replay.min-steps")

    def _sampler_warnings(self) -> Iterator[Problem]:
        replay = self.replay
        why, remedy = "", "leave it out"
        if not self.algorithm.num_drawn:
            why = "nothing is replayed"
        elif self.algorithm.view == "steps":
            why = f"{self.algorithm.name} learns from single steps"
        elif self.network.core != "none" and self.learner.replay_core_state == "stream":
            why, remedy = "recurrent agents read episode streams", "set learner.replay-core-state to zero"
        if why:
            yield from find_unused(replay, "replay", ["sequence_starts"], why, remedy)
        if replay.sampler == "uniform":
            return
        if not self.algorithm.num_drawn:
            yield Problem("replay.sampler", f"{replay.sampler} has no effect: nothing is replayed", "leave it out")
            return
        if self.network.core != "none" and self.learner.replay_core_state == "stream":
            yield Problem(
                "replay.sampler",
                f"{replay.sampler} has no effect: recurrent agents read episode streams",
                "set learner.replay-core-state to stored to draw unrolls",
            )
        learned, interval = replay.learned, self.evaluation_interval
        # An evaluation that is due at the end of the run is not made. Each one teaches about steps drawn before it.
        last = (self.steps - 1) // interval * interval if interval else 0
        if learned is not None and last >= 2 * interval > 0 and last <= replay.min_steps:
            look = "evaluation" if learned.reward == "evaluation" else "reading of the newest episodes"
            yield Problem(
                "replay.min-steps",
                f"{replay.sampler} learns from draws before its last {look}, which is after {last} env steps, but "
                f"learning begins only after {replay.min_steps}",
                "lower it",
            )
        if learned is not None and last < 2 * max(1, interval) and (interval or learned.reward == "evaluation"):
            remedy = f"use --evaluation.interval {max(1, self.steps // 100)}"
            what = "readings of the newest episodes"
            if learned.reward == "evaluation":
                what, remedy = "evaluations", f"{remedy}, or --replay.{key_of(replay.own_section)}.reward training"
            yield Problem(
                "evaluation.interval",
                f"{replay.sampler} learns from the change between two {what}, but {self.steps} steps with an "
                f"interval of {interval} do not have two: it draws as at the start throughout",
                remedy,
            )
        yield from replay.sampler_warnings()

    def _device_problems(self) -> Iterator[Problem]:
        if self.ray_address and re.fullmatch(_GPU, self.device):
            if ":" in self.device:
                yield Problem("device", f"on a cluster Ray chooses the GPU, got {self.device}", "use --device cuda")
        else:
            yield from find_device_problems("device", self.device, may_be_auto=True)
        # A cluster's GPUs are not this machine's; names other than cpu and cuda are reported already.
        if self.actor.device == "cuda" and not self.ray_address:
            yield from find_device_problems("actor.device", self.actor.device)

    def _replay_problems(self) -> Iterator[Problem]:
        algorithm, replay, unroll = self.algorithm, self.replay, self.unroll_length
        num_steps, num_parts = algorithm.num_online * unroll, algorithm.passes[1]
        if num_parts > max(1, num_steps):
            yield Problem(
                "algorithm.num-minibatches",
                f"must be at most the {num_steps} env steps of a batch, got {num_parts}: minibatches would be empty",
                f"use at most {num_steps}, or a larger algorithm.batch-size",
            )
        capacity, rows = replay.capacity_steps, algorithm.rows_per_item(unroll)
        batch = algorithm.batch_size * rows
        num_sent = math.ceil(self.num_envs / (self.actor.env_groups or 1))
        least = max(batch, replay.num_shards * num_sent * unroll)
        if capacity // replay.num_shards < unroll:
            yield Problem(
                "replay.capacity-steps",
                f"must hold an unroll of {unroll} env steps in each of {replay.num_shards} shards, got {capacity}",
                f"use at least {least}",
            )
        elif capacity < batch:
            yield Problem(
                "replay.capacity-steps",
                f"must hold a batch of {algorithm.batch_size} unrolls of {rows} env steps, got {capacity}",
                f"use at least {least}, or a smaller algorithm.batch-size",
            )
        elif capacity // replay.num_shards // unroll < num_sent:
            yield Problem(
                "replay.capacity-steps",
                f"must hold the {num_sent} unrolls of {unroll} env steps that an actor sends at once in each of "
                f"{replay.num_shards} shards, got {capacity}",
                f"use at least {least}, or fewer environments (num-envs)",
            )
        elif algorithm.num_drawn and replay.min_steps > capacity:
            yield Problem(
                "replay.min-steps",
                f"must be at most replay.capacity-steps ({capacity}), got {replay.min_steps}: drawing never begins",
                f"use at most {capacity}",
            )
        elif algorithm.num_replayed and algorithm.view == "steps" and replay.min_steps < batch:
            yield Problem(
                "replay.min-steps",
                f"must be at least a batch of {batch} steps, got {replay.min_steps}: a batch would repeat steps",
                f"use at least {batch}, or a smaller algorithm.batch-size",
            )
        for part, count, fraction in (
            ("replayed", algorithm.num_replayed, algorithm.replay_fraction),
            ("fresh", algorithm.num_online, 1.0 - algorithm.replay_fraction),
        ):
            if count == 0 and fraction > 0.0:
                yield Problem(
                    "algorithm.replay-fraction",
                    f"{algorithm.replay_fraction:g} of a batch of {algorithm.batch_size} leaves 0 {part} unrolls",
                    f"raise algorithm.batch-size to at least {math.ceil(0.5 / fraction) + 1}, or set "
                    + ("0" if part == "replayed" else "1"),
                )


def find_device_problems(key: str, device: str, *, may_be_auto: bool = False) -> Iterator[Problem]:
    """Yield why networks cannot compute on a device of this machine.

    Args:
        key: the setting's key.
        device: the setting's value.
        may_be_auto: whether the setting may be `auto`.
    """
    if device == "cpu" or (may_be_auto and device == "auto"):
        return
    if not re.fullmatch(_GPU, device):
        names = "auto, cpu" if may_be_auto else "cpu"
        yield Problem(key, f"must be {names}, cuda or cuda:N, got {device!r}")
        return
    from launch.gpus import find_old_gpu, index_of, num_gpus, why_no_gpu  # imports torch

    count, index = num_gpus(), index_of(device)
    if count == 0:
        yield why_no_gpu(key)
    elif index >= count:
        yield Problem(key, f"must be below cuda:{count}, got {device}", f"use cuda:0 to cuda:{count - 1}")
    elif (problem := find_old_gpu(index, key)) is not None:
        yield problem


def _id_of_env(env: Any) -> Any:
    return id_of(env) if callable(env) else env


def _as_path(value: Any) -> Any:
    """Return a text as the path that it means; everything else as it is, which `find_problems` names."""
    try:
        return convert(value, Path) if isinstance(value, str) else value
    except ValueError:
        return value


def is_utf8(path: Path) -> bool:
    """Return whether a path can be written into records, pages and messages, which are all UTF-8."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        return False
    return True
