"""The config of environments: the flags of the Atari protocol, and how any environment is run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

from laser.config import Bounds


@dataclass(frozen=True)
class EnvironmentConfig:
    """How environments are made. Flags that a suite does not know change nothing there, and a warning says so."""

    vectorization: Annotated[
        Literal["auto", "sync", "async"],
        "auto: the environment's own vector form, else one after the other; async: a process each",
    ] = "auto"
    deadline_s: Annotated[
        float, Bounds(above=0.0, most=1e6), "seconds after which a step counts as hung; a construction has 300 at least"
    ] = 60.0
    max_restarts: Annotated[
        int, Bounds(least=0, most=1_000_000), "rebuilds per actor before the run ends with the error"
    ] = 3
    sticky_actions: Annotated[float, Bounds(least=0.0, most=1.0), "Atari: probability to repeat the last action"] = 0.0
    full_action_space: Annotated[bool, "Atari: all 18 actions instead of the game's own"] = False
    max_noops: Annotated[int, Bounds(least=0), "Atari: most no-ops at an episode's start"] = 30
    life_loss_ends_episode: Annotated[bool, "Atari: a lost life ends the episode (training only)"] = False
    max_episode_frames: Annotated[int, Bounds(least=1), "Atari: emulator frames per episode (108000 = 30 min)"] = 108000
    frame_skip: Annotated[int, Bounds(least=1), "Atari, DeepMind Lab: frames per env step"] = 4
    frame_stack: Annotated[int, Bounds(least=1, most=16), "Atari: frames per observation"] = 4
    emulation_threads: Annotated[int, Bounds(least=0), "Atari: emulator threads per actor; 0 lets LASER choose"] = 0

    action_set: Annotated[Literal["impala", "r2d2"], "DeepMind Lab: the 9 actions of IMPALA or the 15 of R2D2"] = (
        "impala"
    )
    test_levels: Annotated[bool, "DeepMind Lab: play held-out levels, for evaluation"] = False
    level_cache: Annotated[Path | None, "DeepMind Lab: folder that keeps compiled levels"] = None
    level_data: Annotated[Path | None, "DeepMind Lab: folder of the pictures that some psychlab levels need"] = None
    renderer: Annotated[Literal["software", "hardware"], "DeepMind Lab: how it draws"] = "software"

    def for_evaluation(self) -> EnvironmentConfig:
        """Return the same without what only helps training: episodes then last as long as the game does."""
        return replace(self, life_loss_ends_episode=False)
