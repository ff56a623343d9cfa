"""Comparison of a sweep's agents over games and seeds: normalised scores, ranks, Elo, and probabilities of winning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from laser.scoring.published import find_published
from laser.scoring.ranking import Ranking, rank_agents
from laser.scoring.ranks import mean_winning_probabilities, winning_probabilities
from laser.scoring.scores import atari_game, find_reference
from launch.evaluation.evaluation_result import Summary, in_brackets, published_words, summarise_runs, summary_to_json

HUMAN = "human"
# Settings of a run that do not make another agent.
_NOT_OF_AN_AGENT = ("env", "seed")


@dataclass(frozen=True)
class AgentsCompared:
    """Comparison of agents over the games that all of them played, by mean rank, best first.

    Args:
        games: environment ids.
        num_seeds: number of runs per agent and game that count.
        means: mean return over seeds, by agent and game.
        ranking: of these means. Elo 0 is the human's, or the last agent's if a game has no human score. None for a
            single agent.
        winning: by agent, the probability that one of its runs scores more than a run of another agent, over seeds and
            games.
        summaries: by agent, normalised scores over games with 95 % bootstrap intervals over seeds (meaningless for one
            seed, and then not shown); empty if a game has no reference scores.
    """

    games: list[str]
    num_seeds: int
    means: dict[str, dict[str, float]]
    ranking: Ranking | None
    winning: dict[str, float]
    summaries: dict[str, Summary]

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        summaries = {agent: summary_to_json(summary) for agent, summary in self.summaries.items()}
        ranking = {} if self.ranking is None else vars(self.ranking) | {"winning": self.winning}
        return {
            "games": self.games,
            "num_seeds": self.num_seeds,
            "means": self.means,
            "summaries": summaries,
            "published": {game: vars(scores) for game in self.games if (scores := find_published(game)) is not None},
            **ranking,
        }

    def lines(self) -> list[str]:
        """Return text tables: normalised scores, ranks, and the games with scores in the paper."""
        games = f"{len(self.games)} games" if len(self.games) > 1 else self.games[0]
        seeds = f"{self.num_seeds} seeds each" if self.num_seeds > 1 else "one seed each"
        lines = [f"over {games}, {seeds}:"]
        if self.summaries:
            names = list(next(iter(self.summaries.values())))
            rows = [["settings, normalised", *(name.replace("_", " ") for name in names)]]
            for agent, summary in self.summaries.items():
                cells = [f"{score:.3f}{in_brackets(around)}" for score, around in summary.values()]
                rows.append([agent, *cells])
            lines += _table(rows)
        if self.ranking is not None:
            rows = [["settings", "mean rank", "Elo", "beats another"]]
            for agent, rank in self.ranking.mean_ranks.items():
                winning = f"{self.winning[agent]:.0%}" if agent in self.winning else ""
                rows.append([agent, f"{rank:.2f}", f"{self.ranking.elo[agent]:.0f}", winning])
            lines += _table(rows)
        for game in self.games:
            published = find_published(game)
            if published is not None:
                best = max(self.means, key=lambda agent: self.means[agent][game])
                named = f" ({best})" if len(self.means) > 1 else ""
                lines.append(
                    f"  {game}: {self.means[best][game]:,.1f}{named}; the LASER paper: {published_words(published)}"
                )
        return lines


def agent_of(overrides: Mapping[str, Any]) -> str:
    """Return a member's settings without game and seed, as the name of its agent."""
    settings = {key: value for key, value in overrides.items() if key not in _NOT_OF_AN_AGENT}
    return ", ".join(f"{key}={value}" for key, value in settings.items()) or "all"


def agents_of(members: Sequence[tuple[str, Mapping[str, Any]]]) -> list[tuple[str, int]]:
    """Return the agent of each member, so that the members of one agent differ only in their game.

    Args:
        members: the environment id and the overrides of each member, in the order of their numbers.

    Returns:
        (settings, index) of each member. Members with the same settings and game differ by their seeds: the first of
        them belongs to agent index 0, the second to agent index 1.
    """
    seen: Counter[tuple[str, str]] = Counter()
    agents = []
    for env, overrides in members:
        settings = agent_of(overrides)
        agents.append((settings, seen[settings, env]))
        seen[settings, env] += 1
    return agents


def compare_agents(members: Iterable[tuple[Mapping[str, Any], Mapping[str, float]]]) -> AgentsCompared | None:
    """Compare settings that were trained with several seeds or on several games.

    Args:
        members: overrides of each member of a sweep, and its mean return by game. If some settings have more seeds
            than others, the first seeds count.

    Returns:
        None if the agents have no game in common, if each agent has a single run (the members' returns say the same),
        or if there is one agent without reference scores.
    """
    runs: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for overrides, returns in members:
        for game, mean_return in returns.items():
            runs[agent_of(overrides)][game].append(mean_return)
    games = sorted(set.intersection(*(set(played) for played in runs.values()))) if runs else []
    if not games:
        return None
    num_seeds = min(len(played[game]) for played in runs.values() for game in games)
    references = [reference for game in games if (reference := find_reference(game)) is not None]
    has_references = len(references) == len(games)
    if len(games) == num_seeds == 1 or (len(runs) == 1 and not has_references):
        return None
    scores = np.array([[played[game][:num_seeds] for game in games] for played in runs.values()])
    agents, means = list(runs), scores.mean(-1)
    ranking, winning = None, {}
    if len(agents) > 1:
        if has_references and all(map(atari_game, games)):
            people = [reference.human for reference in references]
            ranking = rank_agents([*agents, HUMAN], np.vstack([means, people]), zero=HUMAN)
        else:
            ranking = rank_agents(agents, means)
        chances = mean_winning_probabilities(winning_probabilities(scores)).tolist()
        winning = dict(zip(agents, chances, strict=True))
    summaries = {}
    if has_references:
        random, human = np.array([(reference.random, reference.human) for reference in references]).T
        summaries = {
            agent: summarise_runs((row.T - random) / (human - random))
            for agent, row in zip(agents, scores, strict=True)
        }
    by_agent = {agent: dict(zip(games, row, strict=True)) for agent, row in zip(agents, means.tolist(), strict=True)}
    return AgentsCompared(games, num_seeds, by_agent, ranking, winning, summaries)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return [
        "  "
        + "  ".join([row[0].ljust(widths[0]), *(cell.rjust(w) for cell, w in zip(row[1:], widths[1:], strict=True))])
        for row in rows
    ]
