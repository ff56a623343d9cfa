"""Which settings of a sweep are best over games and seeds: ranks, Elo, and who beats whom how often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from laser.evaluation.ranking import Ranking, rank_agents
from laser.evaluation.ranks import mean_winning_probabilities, winning_probabilities
from laser.evaluation.scores import atari_game, find_reference
from launch.evaluation.evaluation_result import EvaluationResult

HUMAN = "human"
# What a run is of, and not what an agent is.
_NOT_OF_AN_AGENT = ("env", "seed")


@dataclass(frozen=True)
class AgentsCompared:
    """Agents over the games that all of them played, by mean rank, the best first.

    Args:
        games: environment ids.
        num_seeds: runs of each agent on each game that count.
        ranking: of their means over seeds; Elo 0 is the human's, or where a game has no human score that of the agent
            ranked last.
        winning: by agent, how likely a run of it scores more than a run of another one, over seeds and games.
    """

    games: list[str]
    num_seeds: int
    ranking: Ranking
    winning: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return its numbers."""
        return {"games": self.games, "num_seeds": self.num_seeds, **vars(self.ranking), "winning": self.winning}

    def lines(self) -> list[str]:
        """Return a table in words."""
        games = f"{len(self.games)} games" if len(self.games) > 1 else self.games[0]
        seeds = f"{self.num_seeds} seeds each" if self.num_seeds > 1 else "one seed each"
        width = max(map(len, [*self.ranking.mean_ranks, HUMAN]))
        lines = [
            f"over {games}, {seeds}:",
            f"  {'settings':<{width}}  {'mean rank':>9}  {'Elo':>6}  {'beats another':>13}",
        ]
        for agent, rank in self.ranking.mean_ranks.items():
            winning = f"{self.winning[agent]:.0%}" if agent in self.winning else ""
            lines.append(f"  {agent:<{width}}  {rank:>9.2f}  {self.ranking.elo[agent]:>6.0f}  {winning:>13}")
        return lines


def compare_agents(members: Iterable[tuple[Mapping[str, str], EvaluationResult]]) -> AgentsCompared | None:
    """Compare settings that were trained with several seeds or on several games.

    Args:
        members: what sets each member of a sweep apart, and what it reached; where some settings have more seeds than
            others, the first ones count.

    Returns:
        None where there are no two settings with a game in common, or one run each, which members' returns say.
    """
    runs: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for overrides, result in members:
        settings = {key: value for key, value in overrides.items() if key not in _NOT_OF_AN_AGENT}
        agent = ", ".join(f"{key}={value}" for key, value in settings.items())
        for task in result.tasks:
            runs[agent][task.id].append(task.mean_return)
    games = sorted(set.intersection(*(set(played) for played in runs.values()))) if runs else []
    if len(runs) < 2 or not games:
        return None
    num_seeds = min(len(played[game]) for played in runs.values() for game in games)
    if len(games) == num_seeds == 1:
        return None
    scores = np.array([[played[game][:num_seeds] for game in games] for played in runs.values()])
    agents, means = list(runs), scores.mean(-1)
    references = [find_reference(game) for game in games if atari_game(game)]
    people = [reference.human for reference in references if reference is not None]
    if len(people) == len(games):
        ranking = rank_agents([*agents, HUMAN], np.vstack([means, people]), zero=HUMAN)
    else:
        ranking = rank_agents(agents, means)
    winning = mean_winning_probabilities(winning_probabilities(scores))
    return AgentsCompared(games, num_seeds, ranking, dict(zip(agents, winning.tolist(), strict=True)))
