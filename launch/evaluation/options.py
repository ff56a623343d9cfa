"""Options of `laser eval` and `laser play`. They are configs, so their flags work like those of `laser train`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from laser.config import Bounds, Problem
from laser.free_values import FreeValues
from launch.records.trust import TrustFlag


@dataclass(frozen=True)
class EvalOptions:
    """Options of `laser eval`."""

    episodes: Annotated[int, Bounds(least=1), "episodes to play of each task"] = 20
    env: Annotated[str, "another environment with the same spaces; by default the one of the training"] = ""
    kwargs: Annotated[Mapping[str, Any], "arguments of the environment, in addition to those of the training"] = (
        FreeValues()
    )
    checkpoint: Annotated[
        Literal["newest", "best"], "the run's newest checkpoint, or that with the best training return"
    ] = "newest"
    greedy: Annotated[bool, "take the most likely action instead of a sample"] = False
    num_envs: Annotated[int, Bounds(least=1, most=4096), "environments that play at the same time"] = 4
    seed: Annotated[int, Bounds(least=0, most=2**31 - 1), "seed of the environments and of the policy"] = 0
    device: Annotated[str, "device of the policy: cpu, cuda or cuda:N"] = "cpu"
    max_noops: Annotated[
        int | None, Bounds(least=0), "Atari: most no-ops at an episode's start; none: as in training"
    ] = None
    sticky_actions: Annotated[
        float | None, Bounds(least=0.0, most=1.0), "Atari: probability to repeat the last action; none: as in training"
    ] = None
    max_episode_frames: Annotated[
        int | None, Bounds(least=1), "Atari: emulator frames per episode (108000 = 30 min); none: as in training"
    ] = None
    starts: Annotated[str, "Atari: file of starts, behind which episodes begin (human starts); docs/evaluation.md"] = ""
    test_levels: Annotated[bool, "DeepMind Lab: play the held-out variant of levels that have one"] = False
    log: Annotated[str, "write the episodes as a data set, minari:NAMESPACE/NAME-vN (one run and one task)"] = ""
    video: Annotated[bool, "film an episode of each task into the run's videos/"] = False
    curve: Annotated[
        Literal["median", "mean_capped"],
        "of a sweep over several tasks: the best curve's score, a median or a mean of scores capped at 1",
    ] = "median"
    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False
    json: Annotated[bool, "print the result as one JSON object on the last line of standard output"] = False

    def single_problems(self) -> Iterator[Problem]:
        """Yield the mistakes of single fields that a range cannot express."""
        from launch.settings.train_config import find_device_problems  # imports NumPy, which --help does not need

        yield from find_device_problems("device", self.device)


@dataclass(frozen=True)
class PlayOptions:
    """Options of `laser play`."""

    episodes: Annotated[int, Bounds(least=1), "episodes to play, unless the window is closed before"] = 5
    env: Annotated[str, "another environment with the same spaces; by default the one of the training"] = ""
    checkpoint: Annotated[
        Literal["newest", "best"], "the run's newest checkpoint, or that with the best training return"
    ] = "newest"
    greedy: Annotated[bool, "take the most likely action instead of a sample"] = False
    fps: Annotated[float, Bounds(above=0.0, most=1000.0), "env steps per second"] = 30.0
    seed: Annotated[int, Bounds(least=0, most=2**31 - 1), "seed of the environment and of the policy"] = 0
    trust: TrustFlag = False
    quiet: Annotated[bool, "print nothing but errors"] = False
