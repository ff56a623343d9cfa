"""Settings of environments: arguments, wrappers, flags of Atari and DeepMind Lab, vectorization, deadlines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

from laser.config import Bounds, Problem
from laser.environments.pictures import PictureKinds, PictureRule
from laser.free_values import FreeValues

BEING_CONSTRUCTED = "being constructed"
"""The words for what an environment does that has not been made yet."""
_CONSTRUCTION_DEADLINE_S = 300.0


@dataclass(frozen=True)
class EnvironmentConfig:
    """Settings of environments. Flags that a suite does not use have no effect there, and cause a warning."""

    kwargs: Annotated[Mapping[str, Any], "arguments of the environment, by name: numbers, true, words or JSON"] = (
        FreeValues()
    )
    wrappers: Annotated[str, "Gymnasium wrappers, innermost first: module:Wrapper,module:Wrapper(name=value)"] = ""
    vectorization: Annotated[
        Literal["auto", "sync", "async"],
        "auto: the environment's own vector form, else sync; sync: one after the other; async: a process for each",
    ] = "auto"
    deadline_s: Annotated[
        float, Bounds(above=0.0, most=1e6), "seconds after which a step counts as hung; construction: at least 300"
    ] = 60.0
    max_restarts: Annotated[
        int,
        Bounds(least=0, most=1_000_000),
        "rebuilds per actor, within restart-window-steps and failure-window, before the run ends with the "
        "environment's error",
    ] = 3
    restart_window_steps: Annotated[
        float, Bounds(above=0.0, allow_infinite=True), "env steps for which a failure counts; inf: for ever"
    ] = 1_000_000
    picture_size: Annotated[
        int, Bounds(least=5, most=4096), "least side of a picture in pixels: smaller arrays of pixels are vectors"
    ] = 5
    pictures: Annotated[
        PictureKinds,
        "by_shape: arrays of three axes are pictures whatever their dtype, of four axes several pictures, and uint8 is "
        "divided by the largest value of its space; auto and bytes: as earlier versions had it; bytes: only uint8 and "
        "bool are pictures, and uint8 is divided by 255",
    ] = "by_shape"
    action_masks: Annotated[
        Literal["auto", "off"],
        "auto: actions that info['action_mask'] or the observation action_mask forbids are not taken; off: a mask in "
        "info is ignored, and one in the observation is seen like any other",
    ] = "auto"
    action_bounds: Annotated[
        Literal["clip", "none", "tanh"],
        "real actions beyond the environment's bounds: clip them; none: let them pass, and the environment decides; "
        "tanh: map all by tanh, so that none is beyond",
    ] = "clip"
    sticky_actions: Annotated[float, Bounds(least=0.0, most=1.0), "Atari: probability to repeat the last action"] = 0.0
    full_action_space: Annotated[bool, "Atari: all 18 actions instead of the game's own"] = False
    fire_at_reset: Annotated[bool, "Atari: press fire at an episode's start in games that wait for it"] = True
    max_noops: Annotated[int, Bounds(least=0), "Atari: most no-ops at an episode's start"] = 30
    life_loss_ends_episode: Annotated[bool, "Atari: a lost life ends the episode (training only)"] = False
    max_episode_frames: Annotated[int, Bounds(least=1), "Atari: emulator frames per episode (108000 = 30 min)"] = 108000
    frame_skip: Annotated[int, Bounds(least=1), "Atari, DeepMind Lab: frames per env step"] = 4
    frame_stack: Annotated[int, Bounds(least=1, most=16), "Atari: frames per observation"] = 4
    emulation_threads: Annotated[
        int,
        Bounds(least=0),
        "Atari: emulator threads for each half of an actor's environments; 0: from cores and actors",
    ] = 0

    action_set: Annotated[Literal["impala", "r2d2"], "DeepMind Lab: the 9 actions of IMPALA or the 15 of R2D2"] = (
        "impala"
    )
    test_levels: Annotated[bool, "DeepMind Lab: play held-out levels, for evaluation"] = False
    level_cache: Annotated[Path | None, "DeepMind Lab: folder that keeps compiled levels"] = None
    level_data: Annotated[Path | None, "DeepMind Lab: folder with the pictures for some psychlab levels"] = None
    renderer: Annotated[Literal["software", "hardware"], "DeepMind Lab: renderer of the frames"] = "software"

    @property
    def picture_rule(self) -> PictureRule:
        """The rule that says which observations are pictures."""
        return PictureRule(self.picture_size, self.pictures)

    def __post_init__(self) -> None:
        """Keep a hashable copy of the arguments."""
        object.__setattr__(self, "kwargs", FreeValues(self.kwargs))

    def single_problems(self) -> Iterator[Problem]:
        """Yield the mistakes of single fields that a range cannot express."""
        assert isinstance(self.kwargs, FreeValues)
        unreadable = self.kwargs.find_unreadable()
        if unreadable is not None:
            wrong = f"must be a number, text, true, a list or a table, got {self.kwargs[unreadable]!r}"
            yield Problem(f"kwargs.{unreadable}", wrong, "let the environment make such a value from a name")
        if self.wrappers:
            from laser.environments.wrappers import parse_wrappers  # imports Gymnasium, which --help does not need

            try:
                parse_wrappers(self.wrappers)
            except ValueError as error:
                yield Problem("wrappers", str(error))

    @property
    def construction_deadline_s(self) -> float:
        """Seconds after which the construction of an environment counts as hung; levels may have to be compiled."""
        return max(self.deadline_s, _CONSTRUCTION_DEADLINE_S)

    def for_evaluation(self) -> EnvironmentConfig:
        """Return the config without flags that only help training: each episode then lasts a whole game."""
        return replace(self, life_loss_ends_episode=False)
