"""Decisions of population based training: copies between members and changes of settings, without any weights.

There are two published rules. IMPALA's: a member meets one other at random, copies it if that one is better by an
absolute margin, and multiplies each setting with probability 1/3 by 1.2 or 1/1.2, whether it copied or not. Jaderberg's
truncation selection: a member among the worst copies one among the best, and multiplies every setting by 1.2 or 0.8.

Source: Espeholt et al. 2018 (IMPALA), appendix F; Jaderberg et al. 2017 (PBT), section 3.3 and 4.1.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np

from laser.algorithms.base import AlgorithmConfig
from laser.config import Bounds, Problem, field_infos, find_unused
from laser.environments import task_ids
from laser.scoring.scores import find_reference
from launch.planning.member_plan import MemberPlan
from launch.recording.task_returns import has_capped_score
from launch.records.settings_schedule import field_names, setting_keys
from launch.settings.train_config import TrainConfig
from launch.settings.values import nearest

IMPALA_FACTOR, IMPALA_PROBABILITY = 1.2, 1.0 / 3.0
TRUNCATION_FACTORS = (1.2, 0.8)


@dataclass(frozen=True)
class PbtConfig:
    """Settings of population based training: times of comparison, and rule of change."""

    rule: Annotated[
        Literal["impala", "truncation"], "impala: one random rival, absolute margin; truncation: worst copy best"
    ] = "impala"
    burn_in: Annotated[int, Bounds(least=0), "env steps of a member before it is first compared"] = 5_000
    interval: Annotated[
        int, Bounds(least=1), "env steps between two comparisons; 20 new episodes must have ended as well"
    ] = 5_000
    margin: Annotated[float, Bounds(least=0.0), "impala: return by which the rival must be better"] = 0.0
    truncation: Annotated[float, Bounds(above=0.0, most=0.5), "truncation: share that counts as worst, and as best"] = (
        0.2
    )
    perturb: Annotated[tuple[str, ...], "settings to change; by default those of these that the algorithm has"] = (
        "algorithm.learning-rate",
        "algorithm.entropy-cost",
    )

    def changing(self, algorithms: Sequence[AlgorithmConfig]) -> tuple[str, ...]:
        """Return the settings to change: those of the user, or the default ones that can change and are not 0."""
        if self.perturb != PbtConfig.perturb:
            return self.perturb
        live = live_settings(algorithms[0])
        return tuple(
            key
            for key in self.perturb
            if key in live and any(getattr(algorithm, live[key]) != 0.0 for algorithm in algorithms)
        )

    def warnings(self, configs: Sequence[TrainConfig], grid_keys: Collection[str]) -> Iterator[Problem]:
        """Yield warnings about settings without effect, or with an unexpected effect.

        Args:
            configs: of the members.
            grid_keys: keys of the settings that differ between members.
        """
        unused = "margin" if self.rule == "truncation" else "truncation"
        yield from find_unused(self, "pbt", [unused], f"the rule is {self.rule}", "leave it out")
        references = {find_reference(task) for config in configs for task in task_ids(config.env)}
        reference = references.pop() if len(references) == 1 else None
        whole = abs(reference.human - reference.random) if reference else math.inf
        if self.rule == "impala" and self.margin > whole:
            wrong = (
                f"{self.margin:g} is more than the range from random to good play ({whole:g}): few will copy, or none"
            )
            yield Problem("pbt.margin", wrong, "lower it")
        live = live_settings(configs[0].algorithm)
        for key in grid_keys:
            if key.startswith(("algorithm.", "learner.", "replay.")) and key not in live:
                wrong = f"{key} cannot change while training: a member that copies keeps its own, and schedules lack it"
                yield Problem("grid", wrong, "leave it out of the grid")

    def never(self, configs: Sequence[TrainConfig]) -> Iterator[Problem]:
        """Yield the reasons why members with these configs would never copy each other or never change."""
        if len(configs) < 2:
            yield Problem("rule", "a population of 1 has no other member to copy", "give at least two members")
        steps = min(config.steps for config in configs)
        if self.burn_in >= steps:
            yield Problem("burn-in", f"must be below the {steps} env steps of the run, got {self.burn_in}", "lower it")
        elif self.interval >= steps:
            yield Problem(
                "interval", f"must be below the {steps} env steps of the run, got {self.interval}", "lower it"
            )
        if self.rule == "impala":
            yield from self._margin_problems(configs)
        algorithms = [config.algorithm for config in configs]
        if len({config.network for config in configs}) > 1 or len({(type(a), a.optimizer) for a in algorithms}) > 1:
            wrong = "members with different networks, algorithms or optimisers cannot copy each other's weights"
            yield Problem("rule", wrong, "take those out of the grid")
            return
        if len({config.env for config in configs}) > 1:
            yield Problem("rule", "returns in different environments cannot be compared", "take env out of the grid")
            return
        if any(config.settings_schedule is not None for config in configs):
            wrong = "a population changes its settings itself, and a settings schedule would change the same settings"
            yield Problem("rule", wrong, "leave --settings-schedule out, or --pbt")
        yield from self._setting_problems(algorithms)

    def _margin_problems(self, configs: Sequence[TrainConfig]) -> Iterator[Problem]:
        solved = min(config.stop_at_return for config in configs)
        if any(has_capped_score(task_ids(config.env)) for config in configs) and self.margin >= 1.0:
            wrong = f"must be below 1, the best capped normalised score, got {self.margin:g}"
        elif self.margin >= solved > 0.0:
            wrong = f"must be below the return at which a member stops ({solved:g}), got {self.margin:g}"
        else:
            return
        yield Problem("margin", f"{wrong}: no rival is ever that much better", "lower it")

    def _setting_problems(self, algorithms: Sequence[AlgorithmConfig]) -> Iterator[Problem]:
        if not self.perturb:
            yield Problem("perturb", "lists no settings, so members would only copy", "leave it out for the default")
        names = live_settings(algorithms[0])
        perturb = self.changing(algorithms)
        if self.perturb and not perturb:
            wrong = f"{algorithms[0].name} has none of the default settings"
            yield Problem("perturb", wrong, f"name settings to change, of: {', '.join(names)}")
        for key in dict.fromkeys(perturb):
            if self.perturb.count(key) > 1:
                yield Problem("perturb", f"lists {key} twice", "name it once")
            elif key not in names:  # another spelling of a key would count as another setting
                best = nearest(key, list(names))
                remedy = f"did you mean {best}?" if best else f"settings that can: {', '.join(names)}"
                yield Problem("perturb", f"{key} cannot change while training", remedy)
            elif all(getattr(algorithm, names[key]) == 0.0 for algorithm in algorithms):
                yield Problem("perturb", f"{key} is 0, and multiplication keeps it at 0", "give it a value")


def live_settings(algorithm: AlgorithmConfig) -> dict[str, str]:
    """Return the fields that can change during training, by key."""
    keys = setting_keys(dict.fromkeys(algorithm.live_settings, 0.0))
    return dict(zip(keys, algorithm.live_settings, strict=True))


def find_strangers(members: Sequence[MemberPlan]) -> list[Problem]:
    """Return a problem for each member whose weights differ in name or shape from member 0's: the first difference."""
    problems: list[Problem] = []
    first: dict[str, tuple[int, ...]] = {}
    like_first: list[AlgorithmConfig] = []
    leader = members[0].config.algorithm
    live = {name: getattr(leader, name) for name in leader.live_settings}
    for number, member in enumerate(members):
        frozen = dataclasses.replace(member.config.algorithm, **live)
        if frozen in like_first:
            continue
        networks = member.algorithm.seeded_networks(0)
        shapes = {name: tuple(value.shape) for name, value in networks.state_dict().items()}
        first = first or shapes
        strange = next((name for name in sorted(first | shapes) if first.get(name) != shapes.get(name)), None)
        if strange is None:
            like_first.append(frozen)
        else:
            wrong = f"members 0 and {number} cannot copy each other's weights: {strange} is not the same in both"
            problems.append(Problem("pbt", wrong, "take settings that change the networks out of the grid"))
    return problems


def choose_model(
    config: PbtConfig, member: int, fitness: Mapping[int, float], generator: np.random.Generator
) -> int | None:
    """Return the number of the member to copy, or None.

    Args:
        config: the rule.
        member: number of the member that may copy.
        fitness: of all members that have one, this member included; larger is better.
        generator: source of randomness.
    """
    others = sorted(number for number in fitness if number != member)
    if not others:
        return None
    if config.rule == "impala":
        rival = others[int(generator.integers(len(others)))]
        return rival if fitness[rival] > fitness[member] + config.margin else None
    ranked = sorted(fitness, key=lambda number: (fitness[number], number))
    num_chosen = max(1, round(config.truncation * len(ranked)))
    if member not in ranked[:num_chosen]:
        return None
    model = ranked[len(ranked) - 1 - int(generator.integers(num_chosen))]
    return model if fitness[model] > fitness[member] else None


def perturbed(
    config: PbtConfig, settings: Mapping[str, float], copied: bool, generator: np.random.Generator
) -> dict[str, float]:
    """Return new values of a member's settings.

    Args:
        config: the rule.
        settings: present values, after a copy.
        copied: whether the member has just copied another member.
        generator: source of randomness.
    """
    if config.rule == "truncation":
        return {
            key: value * TRUNCATION_FACTORS[int(generator.integers(2))] if copied else value
            for key, value in settings.items()
        }
    changed = {}
    for key, value in settings.items():
        changes, up = generator.random() < IMPALA_PROBABILITY, generator.random() < 0.5
        changed[key] = value * (IMPALA_FACTOR if up else 1.0 / IMPALA_FACTOR) if changes else value
    return changed


def within_bounds(
    wanted: Mapping[str, float], before: Mapping[str, float], algorithm: type[AlgorithmConfig]
) -> dict[str, float]:
    """Return the wanted settings, with the old value for each one outside the range that its config declares."""
    infos = field_infos(algorithm)
    bounds = {key: infos[name].bounds or Bounds() for key, name in zip(wanted, field_names(wanted), strict=True)}
    return {key: value if bounds[key].complaint(value) is None else before[key] for key, value in wanted.items()}
