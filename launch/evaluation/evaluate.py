"""Evaluation of a trained agent (`laser eval`), and a policy object for users' own programs."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from actors.evaluator import Evaluator
from actors.film import Film
from actors.heartbeat import CLOSING, CONSTRUCTION
from actors.played_episodes import PlayedEpisodes
from actors.policy import Policy
from laser.config import ConfigError, Problem, find_problems, raise_mistyped, raise_problems
from laser.environments import (
    EnvironmentConfig,
    EnvironmentFailedError,
    describe_environment,
    make_environment,
    task_ids,
)
from laser.environments.base import Transition, VectorEnvironment
from laser.environments.config import BEING_CONSTRUCTED
from laser.environments.own import id_of
from laser.environments.statistics import Statistics, give_statistics
from laser.environments.suite import find_suite
from laser.logs.writing import check_log, write_log
from laser.ports import Parameters
from laser.scoring.protocols import OverTasks
from laser.specs import EnvironmentSpec, environment_spec_from_json
from laser.waiting import waiting_for
from launch.errors import LaunchError, NothingToResumeError, OutputError
from launch.evaluation.evaluation_result import EpisodeCounts, EvaluationResult, TaskResult
from launch.evaluation.loaded_policy import LoadedPolicy
from launch.evaluation.options import EvalOptions
from launch.evaluation.playing import Playing
from launch.evaluation.starts import behind_starts
from launch.evaluation.sweep_evaluation import MemberEvaluation, MemberRecord, SweepEvaluation, read_best_curve
from launch.recording.progress import Progress
from launch.records.run_directory import RunDirectory
from launch.records.run_names import slug
from launch.records.run_record import read_record, saved_config
from launch.records.saved_state import check_saved_state, saved_statistics
from launch.records.settings_schedule import SCHEDULE_NAME, last_settings
from launch.records.trust import remember, trust_run
from launch.records.videos import find_video_problems, save_video
from launch.runtimes.hangs import HungEnvironmentError, hung_in_close, wait_unless_hung
from launch.runtimes.host import Host
from launch.settings.json_form import plain
from launch.settings.train_config import TrainConfig
from launch.settings.values import nearest
from launch.standard_output import name_long_waits, say
from learner.checkpoint import Checkpoint, NoCheckpointError, load_best_checkpoint, load_newest_checkpoint

Which = Literal["newest", "best"]


def evaluate(
    run_dir: str | Path,
    episodes: int = 20,
    *,
    env: Any = "",
    kwargs: Mapping[str, Any] | None = None,
    checkpoint: Which = "newest",
    greedy: bool = False,
    num_envs: int = 4,
    seed: int = 0,
    device: str = "cpu",
    max_noops: int | None = None,
    sticky_actions: float | None = None,
    max_episode_frames: int | None = None,
    starts: str | Path = "",
    test_levels: bool = False,
    log: str = "",
    video: bool = False,
    curve: OverTasks = "median",
    quiet: bool = False,
    trust: bool = False,
) -> EvaluationResult | SweepEvaluation:
    """Play episodes with a run's agent; compare returns with humans, random play and the paper if these are known.

    Args:
        run_dir: directory of a run, or of a sweep, whose members all play. If it was trained with classes of its
            user's own, their modules are imported.
        episodes: number of episodes per task.
        env: another environment with the same spaces, as an id, a class or a function; "": the one of the training. It
            is made with the wrappers of the training, and with `kwargs` alone as its arguments.
        kwargs: arguments of the environment, in addition to those of the training.
        checkpoint: the newest, or the one with the best score.
        greedy: the most likely action instead of a sample.
        num_envs: environments side by side.
        seed: of environments and policy.
        device: torch device of the policy.
        max_noops: Atari: most no-ops at an episode's start; None: as in training, for this and the next two.
        sticky_actions: Atari: probability to repeat the last action.
        max_episode_frames: Atari: emulator frames per episode.
        starts: Atari: file of starts (`laser.environments.starts`), behind which episodes begin, in place of no-ops and
            of fire at the reset; scores of random and human play are then those from human starts.
        test_levels: DeepMind Lab: the held-out variant of levels that have one.
        log: minari:NAMESPACE/NAME-vN; of a run with one task, the episodes are written as this data set, which holds
            the statistics of the behaviour unless actions are greedy. They are held in memory until then.
        video: film an episode of each task into the run's `videos/`.
        curve: of a sweep over several tasks: what the best curve is of.
        quiet: print nothing, and show no progress.
        trust: allow the code that somebody else's run names, and remember it as named by you.

    Raises:
        NothingToResumeError: there is no run or no valid checkpoint.
        UntrustedError: the run names code that this user has not named before.
        ConfigError: an argument is out of range or of another type, there is no such checkpoint, an environment cannot
            be made or has other spaces, or a video was asked for and the environment cannot be drawn.
        LaunchError: an environment failed. A sweep raises only if none of its members could play.
    """
    changes: dict[str, Any] = {"test_levels": test_levels or None}
    changes |= {"max_noops": max_noops, "sticky_actions": sticky_actions, "max_episode_frames": max_episode_frames}
    changes = {name: value for name, value in changes.items() if value is not None}
    raise_mistyped({"run-dir": (run_dir, str | Path), "kwargs": (kwargs, Mapping[str, Any] | None)})
    _check_which(checkpoint)
    id = id_of(env) if callable(env) else str(env)
    options = EvalOptions(
        episodes=episodes,
        checkpoint=checkpoint,
        greedy=greedy,
        num_envs=num_envs,
        seed=seed,
        device=str(device),
        max_noops=max_noops,
        sticky_actions=sticky_actions,
        max_episode_frames=max_episode_frames,
        test_levels=test_levels,
        log=log,
        video=video,
        curve=curve,
        trust=trust,
        quiet=quiet,
    )
    raise_problems(list(find_problems(options)))
    game = _Game(
        id,
        dict(kwargs or {}),
        episodes,
        checkpoint,
        greedy,
        num_envs,
        seed,
        device,
        changes,
        str(starts),
        log,
        video,
        quiet,
    )
    path = Path(run_dir)
    remember({"env": id, "kwargs": kwargs})
    if trust:
        trust_run(path)
    with name_long_waits(quiet):
        result = game.play_sweep(path, curve) if "sweep" in read_record(path) else game.play(path)
    if not quiet:
        print(result.words())
    return result


class EpisodesFailedError(LaunchError):
    """An environment failed or hung during an evaluation; `counts` says how many episodes had been played."""

    def __init__(self, id: str, error: EnvironmentFailedError | HungEnvironmentError, playing: Playing):
        if isinstance(error, HungEnvironmentError):
            self.reason, wrong, remedy = "hung", error.problem.wrong, error.problem.remedy
        else:
            self.reason, wrong, remedy = error.reason, f"{id}: {error}", "fix the environment"
        if playing.num_ended:
            wrong += f" ({playing.num_ended} of {playing.num_episodes} episodes had been played)"
        super().__init__("env", wrong, remedy)
        self.played = playing.num_ended
        self.counts = EpisodeCounts(playing.num_episodes, self.played)


@dataclass(frozen=True)
class _Game:
    """Conditions of an evaluation, the same for every agent of a sweep."""

    env: str
    kwargs: dict[str, Any]
    episodes: int
    checkpoint: Which
    greedy: bool
    num_envs: int
    seed: int
    device: str
    changes: dict[str, Any]
    starts: str
    log: str
    video: bool
    quiet: bool

    def play(self, run_dir: Path) -> EvaluationResult:
        agent = read_agent(run_dir, self.checkpoint)
        env, step = self.env or agent.config.env, agent.checkpoint.step
        is_other = env != agent.config.env
        protocol = replace(agent.config.environment.for_evaluation(), **self.changes)
        protocol = replace(protocol, kwargs={**({} if is_other else protocol.kwargs), **self.kwargs})
        if self.starts:
            protocol = behind_starts(env, protocol, self.starts)
        if is_other or self.kwargs:
            check_spaces(agent, env, protocol)
        if self.log:
            self._check_log(agent, env)
        if self.video:
            raise_problems(list(find_video_problems("video", env, protocol)))
        names = [id if is_other or len(task_ids(env)) > 1 else "" for id in task_ids(env)]
        videos = [self._video_path(run_dir, step, name) for name in names]
        tasks: list[TaskResult] = []
        asked = self.episodes * len(videos)
        for id, path in zip(task_ids(env), videos, strict=True):
            try:
                tasks.append(self._play_task(agent, id, protocol, path))
            except EpisodesFailedError as error:
                played = error.played + sum(len(task.returns) for task in tasks)
                error.counts = EpisodeCounts(asked, played, {error.reason: max(0, asked - played)})
                raise
        flags = _in_force(env, protocol)
        return EvaluationResult(run_dir, env, step, tasks, self.greedy, self.seed, flags, asked, self.log)

    def play_sweep(self, run_dir: Path, curve: OverTasks) -> SweepEvaluation:
        not_for_sweeps = (
            ("log", self.log, "one agent plays the episodes of a data set"),
            ("starts", self.starts, "its members are compared by scores from no-op starts"),
        )
        choose = f"choose a member, e.g. {run_dir / 'members' / '0'}"
        reasons = [(key, why) for key, value, why in not_for_sweeps if value]
        raise_problems([Problem(key, f"{run_dir} holds a sweep, and {why}", choose) for key, why in reasons])
        members: list[MemberEvaluation] = []
        recorded: list[MemberRecord] = []
        errors: list[LaunchError | ConfigError] = []
        found = [path for path in (run_dir / "members").glob("*") if path.name.isdecimal()]
        for path in sorted(found, key=lambda path: int(path.name)):
            facts: dict[str, Any] = {"index": int(path.name), "overrides": {}}
            try:
                record = read_record(path)
                facts = record.get("member", facts)
                recorded.append(MemberRecord(path / "metrics.db", record["config"]["env"], facts["overrides"]))
                ended = last_settings(path / SCHEDULE_NAME)
                played = self.play(path)
                members.append(MemberEvaluation(facts["index"], facts["overrides"], played, ended=ended))
            except OutputError:
                raise  # a full disk concerns all members
            except (LaunchError, ConfigError) as error:
                # For example no checkpoint, or an environment that fails. The other members still play.
                errors.append(error)
                words = " ".join(str(error).split())
                counts = error.counts if isinstance(error, EpisodesFailedError) else self._none_played(error)
                members.append(MemberEvaluation(facts["index"], facts["overrides"], None, words, counts))
        if not any(member.result for member in members):
            for reason in errors:
                if not isinstance(reason, NothingToResumeError):
                    raise reason
            raise NothingToResumeError("run-dir", f"no member of {run_dir} has a checkpoint", "train it first")
        return SweepEvaluation(run_dir, members, read_best_curve(recorded, curve), recorded)

    def _none_played(self, error: Exception) -> EpisodeCounts:
        reason = "no_checkpoint" if isinstance(error, NothingToResumeError) else "not_started"
        return EpisodeCounts(self.episodes, 0, {reason: self.episodes})

    def _play_task(self, agent: Agent, id: str, protocol: EnvironmentConfig, video: Path | None) -> TaskResult:
        num_envs = min(self.num_envs, self.episodes)

        def make() -> Evaluator:
            return Evaluator(
                lambda: agent.make_environment(id, num_envs, protocol),
                lambda: agent.make_policy(self.seed, self.device, self.greedy),
                self.seed,
            )

        film = Film() if video is not None else None
        log = PlayedEpisodes(agent.environment, keeps_mu=not self.greedy) if self.log else None
        playing = Playing(self.episodes, num_envs)

        def look(environment: VectorEnvironment, part: Transition) -> None:
            playing.look(environment, part)
            if film is not None:
                film.look(environment, part)

        construction = f"{id} to return from {BEING_CONSTRUCTED}"
        player = Host(make, None, f"player of {id}")  # a separate thread, which may be abandoned if it hangs
        try:
            played = player.call(Evaluator.evaluate, agent.parameters(), self.episodes, look, log=log)
            with (
                Progress(
                    lambda: playing,
                    self.episodes,
                    id,
                    self.quiet,
                    line=lambda playing, _, title: playing.words(title),
                    share=lambda playing: playing.share,
                ),
                waiting_for(lambda: construction if player.silent_s(CONSTRUCTION) else ""),
            ):
                results = wait_unless_hung(played, player, agent.config, math.inf, f"{id} to be played")
            filmed = film.take() if film else None
            if video is not None and filmed is not None:
                save_video(video, filmed)
        except (EnvironmentFailedError, HungEnvironmentError) as error:
            raise EpisodesFailedError(id, error, playing) from error
        finally:
            with waiting_for(f"{id} to return from close()"):
                is_over = player.close()
            if not is_over and player.silent_s(CLOSING) and not self.quiet:
                say(f"warning: {hung_in_close(id)}")
            if film is not None:
                film.close()
        if log is not None:
            self._write(agent, id, log)
        returns, lengths = [item.episode_return for item in results], [item.length for item in results]
        return TaskResult(id, returns, lengths, video if filmed is not None else None, bool(self.starts))

    def _check_log(self, agent: Agent, env: str) -> None:
        """Raise `ConfigError` if the episodes cannot be written as a data set."""
        if len(task_ids(env)) > 1:
            wrong = f"{env} is several tasks, and a data set holds the episodes of one"
            raise ConfigError([Problem("log", wrong, "choose one with --env")])
        check_log("log", self.log, agent.environment)

    def _write(self, agent: Agent, id: str, log: PlayedEpisodes) -> None:
        environment = replace(agent.environment, id=id)
        with waiting_for(f"{self.log} to be written"):
            num_episodes = write_log("log", self.log, environment, log.episodes(), agent.config.algorithm.name)
        if not self.quiet:
            say(f"{self.log}: {num_episodes:,} episodes, {log.num_steps:,} env steps")

    def _video_path(self, run_dir: Path, step: int, task: str) -> Path | None:
        name = f"eval-{step:09d}-seed{self.seed}" + (f"-{slug(task)}" if task else "")
        return run_dir / "videos" / f"{name}.mp4" if self.video else None


def check_spaces(agent: Agent, env: str, protocol: EnvironmentConfig) -> None:
    """Raise `ConfigError` if an environment has other spaces than the agent was trained with."""
    found, trained = describe_environment(env, protocol), agent.environment
    for what in ("observations", "actions"):
        if getattr(found, what) != getattr(trained, what):
            wrong = f"{env} has other {what} than {trained.id}: {getattr(found, what)}, not {getattr(trained, what)}"
            raise ConfigError([Problem("env", wrong, "choose one with the same spaces")])


def _in_force(env: str, protocol: EnvironmentConfig) -> dict[str, Any]:
    """Return the protocol's flags that affect these environments."""
    flags = frozenset().union(*(find_suite(id).flags for id in task_ids(env)))
    values = {name: value for name, value in vars(protocol).items() if name in flags}
    return {name: plain(value) for name, value in values.items()}


def load_policy(
    run_dir: str | Path,
    *,
    checkpoint: Which = "newest",
    greedy: bool = False,
    seed: int = 0,
    device: str = "cpu",
    trust: bool = False,
) -> LoadedPolicy:
    """Return a run's agent as an object with `act(observation)`.

    Args:
        run_dir: directory of a run. If it was trained with classes of its user's own, their modules are imported.
        checkpoint: the newest, or the one with the best score.
        greedy: the most likely action instead of a sample.
        seed: of sampled actions.
        device: torch device of the policy.
        trust: allow the code that somebody else's run names, and remember it as named by you.

    Raises:
        ConfigError: an argument has a wrong type or value; the error lists all mistakes.
        NothingToResumeError: there is no run or no valid checkpoint.
        UntrustedError: the run names code that this user has not named before.
    """
    raise_mistyped({"run-dir": (run_dir, str | Path)})
    _check_which(checkpoint)
    options = EvalOptions(checkpoint=checkpoint, greedy=greedy, seed=seed, device=str(device))
    raise_problems(list(find_problems(options)))
    if trust:
        trust_run(Path(run_dir))
    agent = read_agent(Path(run_dir), checkpoint)
    policy = agent.make_policy(seed, str(device), greedy, loaded=True)
    return LoadedPolicy(policy, agent.environment, agent.statistics)


@dataclass(frozen=True)
class Agent:
    """A run's config, environment and checkpoint, from which policies are made."""

    config: TrainConfig
    environment: EnvironmentSpec
    checkpoint: Checkpoint

    def make_policy(self, seed: int, device: str, greedy: bool, loaded: bool = False) -> Policy:
        """Return a policy: with the checkpoint's networks if `loaded`, else one that still needs parameters."""
        algorithm = self.config.algorithm.build(self.environment, self.config.network)
        policy = Policy(algorithm, self.environment, seed, device, greedy=greedy)
        if loaded:
            self._load(policy)
        return policy

    @property
    def statistics(self) -> Statistics:
        """The statistics of the wrappers around the environments of the training."""
        return saved_statistics(self.checkpoint)

    def make_environment(self, id: str, num_envs: int, protocol: EnvironmentConfig) -> VectorEnvironment:
        """Return environments of one task; their wrappers have the statistics of the training, and keep them.

        Warns:
            RuntimeWarning: the statistics fit none of the environment's wrappers.
        """
        environment = make_environment(id, num_envs, protocol)
        tasks = task_ids(self.config.env)
        moments = self.statistics.get(tasks.index(id) if id in tasks else 0, [])
        if moments and not give_statistics(environment, {0: moments}, frozen=True):
            names = ", ".join(each.name for each in moments)
            said = f"the statistics of {names} in {self.checkpoint.path.name} fit none of the wrappers of {id}"
            warnings.warn(f"{said}, which begin anew", RuntimeWarning, stacklevel=2)
        return environment

    def parameters(self) -> Parameters:
        """Return the checkpoint's networks as a published version."""
        policy = self.make_policy(0, "cpu", greedy=False, loaded=True)
        return Parameters(0, policy.parameters.to_numpy())

    def _load(self, policy: Policy) -> None:
        own = policy.networks.state_dict()
        saved = self.checkpoint.tensors["networks"]
        if {name: value.shape for name, value in own.items()} != {name: value.shape for name, value in saved.items()}:
            wrong = f"{self.checkpoint.path} belongs to other networks than config.json says"
            raise NothingToResumeError("run-dir", wrong, "undo the changes of config.json")
        for name, value in saved.items():
            own[name].copy_(value)


def read_agent(run_dir: Path, which: Which) -> Agent:
    """Return the agent saved in a run directory.

    Raises:
        ConfigError: `which` is neither the newest nor the best.
        NothingToResumeError: there is no run or no valid checkpoint.
        UntrustedError: the run names code that this user has not named before.
    """
    _check_which(which)
    config = saved_config(run_dir)
    root = RunDirectory(run_dir, resumed=True).checkpoints_path
    try:
        load = load_newest_checkpoint if which == "newest" else load_best_checkpoint
        checkpoint, bad = load(root, check_saved_state)
    except NoCheckpointError as error:
        raise NothingToResumeError("run-dir", str(error), "train it first") from error
    for warning in bad:
        warnings.warn(f"{warning}; {checkpoint.path.name} is used", RuntimeWarning, stacklevel=2)
    return Agent(config, environment_spec_from_json(checkpoint.state["environment"]), checkpoint)


def _check_which(which: Any) -> None:
    """Raise `ConfigError` if a checkpoint is asked for by a word that is none of `Which`."""
    words = get_args(Which)
    if which not in words:
        best = nearest(str(which), list(words))
        remedy = f"did you mean {best}?" if best else ""
        raise ConfigError([Problem("checkpoint", f"must be one of {', '.join(words)}, got {which!r}", remedy)])
