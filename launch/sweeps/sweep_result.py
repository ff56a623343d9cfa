"""Result of a sweep: its members' results, and the best member."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from launch.evaluation.agents_compared import AgentsCompared, compare_agents
from launch.evaluation.settings_compared import SettingReturns, best_setting, compare_settings
from launch.evaluation.sweep_evaluation import BestCurve
from launch.supervision.training_result import TrainResult
from launch.sweeps.halving import Verdict


@dataclass(frozen=True)
class MemberResult:
    """Result of one member: `overrides` are its settings from the grid, `settings` its present ones after PBT.

    `pruned` is the verdict that ended it early.
    """

    number: int
    overrides: dict[str, Any]
    seed: int
    result: TrainResult
    error: str
    settings: dict[str, float] = field(default_factory=dict)
    pruned: Verdict | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the member's entry in the object that `--json` prints."""
        overrides = {key: list(value) if isinstance(value, tuple) else value for key, value in self.overrides.items()}
        values = self.result.to_json() | {"member": self.number, "overrides": overrides, "seed": self.seed}
        pruned = None if self.pruned is None else asdict(self.pruned)
        extra = {"error": self.error, "settings": self.settings, "pruned": pruned}
        return values | {name: value for name, value in extra.items() if value}


@dataclass(frozen=True)
class SweepResult:
    """Result of a sweep.

    Args:
        members: in the order of their numbers.
        seconds: of training; if members waited for their turn, of this command.
        run_dir: of the sweep; each member has a run directory of its own below it.
        share_replay: whether the members shared one replay.
        best_curve: the point-wise best of their bucketed curves; None if no bucket was completed.
    """

    members: list[MemberResult]
    seconds: float
    run_dir: Path
    share_replay: bool
    best_curve: BestCurve | None = None

    @property
    def best(self) -> MemberResult | None:
        """The member ranked first; None if members play different games, whose returns cannot be compared."""
        return None if len({item.overrides.get("env") for item in self.members}) > 1 else self.ranked[0]

    @cached_property
    def agents(self) -> AgentsCompared | None:
        """Settings over games and seeds, by the last 20 training episodes; None without several of either."""
        return compare_agents((item.overrides, item.result.task_returns) for item in self.members)

    @cached_property
    def settings(self) -> list[SettingReturns]:
        """Returns of the settings over their seeds, best first; empty for a population, whose settings change."""
        if any(member.settings for member in self.members):
            return []
        return compare_settings((item.number, item.overrides, item.result.mean_return) for item in self.members)

    @property
    def best_setting(self) -> SettingReturns | None:
        """The setting with the highest mean return over its seeds; None for a population and for different games."""
        return best_setting(self.settings)

    @property
    def ranked(self) -> list[MemberResult]:
        """The members, best first: by normalised score if all members with a return have one, else by mean return.

        Members without a return are last. Normalised scores come first because the task with the largest rewards
        dominates a mean return over several tasks.
        """
        played = [member.result for member in self.members if not math.isnan(member.result.mean_return)]
        by_score = all(result.normalised_score is not None for result in played)

        def worth(result: TrainResult) -> float:
            if math.isnan(result.mean_return):
                return -math.inf
            return result.normalised_score if by_score and result.normalised_score is not None else result.mean_return

        return sorted(self.members, key=lambda member: -worth(member.result))

    def to_json(self) -> dict[str, Any]:
        """Return the object that `--json` prints: totals, and `members`."""
        results = [member.result for member in self.members]
        returns = [result.mean_return for result in results if not math.isnan(result.mean_return)]
        env_steps, best = sum(result.env_steps for result in results), self.best
        return {
            "env_steps": env_steps,
            "frames": sum(result.frames for result in results),
            "seconds": self.seconds,
            "env_steps_per_second": env_steps / self.seconds if self.seconds > 0 else 0.0,
            "learner_steps": sum(result.learner_steps for result in results),
            "mean_return": sum(returns) / len(returns) if returns else None,
            "best_return": None if best is None else max(returns, default=None),
            "best_member": None if best is None else best.number,
            "best_setting": None if self.best_setting is None else self.best_setting.to_json(),
            "episodes": sum(result.episodes for result in results),
            "run_dir": str(self.run_dir),
            "share_replay": self.share_replay,
            "best_curve": None if self.best_curve is None else vars(self.best_curve),
            "agents": None if self.agents is None else self.agents.to_json(),
            "members": [member.to_json() for member in self.members],
        }
