"""The config of the replay: capacity, shards, rate limit, sampler, remover."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from typing import Annotated, Literal

from laser.config import Bounds, Problem, find_unused
from laser.prioritization.config import SamplerSettings, SamplingConfig
from replay_server.samplers import Sampler, find_samplers, samplers_called
from replay_server.samplers.ero import EroConfig
from replay_server.samplers.ners import NersConfig

# Settings of `SamplingConfig` that only some samplers read.
_SHARED = ("priority_exponent", "priority_uniform", "importance_exponent", "importance_schedule")


@dataclass(frozen=True)
class ReplayConfig(SamplingConfig):
    """Settings of the replay: how much experience it keeps, and when and how experience is drawn.

    `sampler_settings` holds the settings of a user's own sampler, or of one that has no section here. They default to
    the defaults of the sampler's `settings_class`.
    """

    # Flags and recorded runs name the settings of these two samplers by these sections.
    ero: Annotated[EroConfig, "experience replay optimisation"] = field(default_factory=EroConfig, kw_only=True)
    ners: Annotated[NersConfig, "neural experience replay sampler"] = field(default_factory=NersConfig, kw_only=True)
    capacity_steps: Annotated[int, Bounds(least=1), "env steps kept, over all shards"] = 1_000_000
    capacity_bytes: Annotated[
        int, Bounds(least=0), "bytes for compressed frames, over all shards; 0 derives the number from capacity-steps"
    ] = 0
    num_shards: Annotated[int, Bounds(least=1, most=1024), "shards that the replay is split over"] = 1
    min_steps: Annotated[int, Bounds(least=0), "env steps stored before replayed experience is drawn"] = 1_000
    samples_per_insert: Annotated[
        float,
        Bounds(above=0.0, allow_infinite=True),
        "replayed steps drawn per step inserted, for learners that draw no fresh experience; inf: as fast as possible",
    ] = float("inf")
    stream_weight: Annotated[
        Literal["episode", "length"],
        "how recurrent agents draw episodes; episode: every finished episode is equally likely; length: every step of "
        "one is",
    ] = "episode"
    lease_s: Annotated[
        float,
        Bounds(above=0.0, most=1e6),
        "seconds without a request after which inserts no longer wait for a learner",
    ] = 300.0
    remover: Annotated[str, "chooses the episode to forget when the replay is full"] = "fifo"
    log_share: Annotated[
        float | None,
        Bounds(least=0.0, most=1.0),
        "share of replayed items that are drawn from the log of init-replay, at the run's start; none: all items are "
        "drawn alike",
    ] = None
    log_share_final: Annotated[
        float | None,
        Bounds(least=0.0, most=1.0),
        "log-share at the run's end, which it moves to in proportion to the env steps done; none: as at the start",
    ] = None

    def __post_init__(self) -> None:
        """Give the sampler's own settings their defaults; `single_problems` reports if that is impossible."""
        if type(self.sampler_settings) is SamplerSettings:
            try:
                object.__setattr__(self, "sampler_settings", self._settings_class()())
            except (ValueError, TypeError):
                return

    def single_problems(self) -> Iterator[Problem]:
        """Yield problems with the sampler's name or with the class of its settings."""
        try:
            wanted = self._settings_class()
        except ValueError as error:
            yield Problem("sampler", str(error).removeprefix("sampler "))
            return
        found = type(self.sampler_settings)
        if found is SamplerSettings and wanted is not SamplerSettings:
            wrong = f"{wanted.__name__} of {self.sampler} must have a default for every field"
            yield Problem("sampler-settings", wrong, "give each one")
        elif found is not wanted:
            wrong = f"must be {wanted.__name__} for the sampler {self.sampler}, got {found.__name__}"
            yield Problem("sampler-settings", wrong, "leave it out for the defaults")

    def log_share_at(self, progress: float) -> float | None:
        """Return the share of items from a log after a fraction `progress` of the run; None: all are drawn alike."""
        if self.log_share is None or self.log_share_final is None:
            return self.log_share
        return self.log_share + (self.log_share_final - self.log_share) * min(1.0, max(0.0, progress))

    def unused(self) -> Iterator[Problem]:
        """Yield settings that the chosen sampler does not read, or that have no effect without another."""
        if self.log_share is None:
            why = "items of a log are drawn like all others"
            yield from find_unused(self, "replay", ["log_share_final"], why, "set replay.log-share")
        for name, settings in self._sections():
            if name != self.sampler:
                names = [item.name for item in fields(settings)]
                why = f"{self.sampler} draws"
                yield from find_unused(settings, f"replay.{name}", names, why, f"use --replay.sampler {name}")
        for name in _SHARED:
            readers = sorted({kind.name for kind in find_samplers() if name in (kind.reads or ())})
            if not any(kind.reads is None or name in kind.reads for kind in self._samplers()):
                remedy = f"leave it out, or use {', '.join(readers[:-1])} or {readers[-1]}"
                yield from find_unused(self, "replay", [name], f"{self.sampler} draws without it", remedy)

    def sampler_warnings(self) -> Iterator[Problem]:
        """Yield settings that have an unexpected effect with the chosen sampler."""
        for kind in dict.fromkeys(self._samplers()):
            for problem in kind.warnings(self):
                yield replace(problem, key=f"replay.{problem.key}")

    def drawn_like(self, other: ReplayConfig) -> ReplayConfig:
        """Return this config with the sampler and the sampler's settings of `other`."""
        names = [item.name for item in fields(SamplingConfig)] + [name for name, _ in self._sections()]
        return replace(self, **{name: getattr(other, name) for name in names})

    def _samplers(self) -> list[type[Sampler]]:
        return list(samplers_called(self.sampler).values())

    def _sections(self) -> list[tuple[str, SamplerSettings]]:
        sections = [(item.name, getattr(self, item.name)) for item in fields(self) if item.name != "sampler_settings"]
        return [(name, settings) for name, settings in sections if isinstance(settings, SamplerSettings)]

    def _settings_class(self) -> type[SamplerSettings]:
        """Return the class that `sampler_settings` must have."""
        if self.own_section != "sampler_settings":
            return SamplerSettings
        classes = [kind.settings_class for kind in self._samplers()]
        return next((kind for kind in classes if kind is not SamplerSettings), SamplerSettings)
