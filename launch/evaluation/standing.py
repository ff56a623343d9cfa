"""Standing of an agent among the agents of the Reactor paper: mean rank and Elo over Atari games."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from laser.scoring.published_reactor import AGENTS, REACTOR_TABLE_2, REACTOR_TABLE_3, find_human_start_scores
from laser.scoring.ranking import Ranking, rank_agents

THIS = "this agent"


@dataclass(frozen=True)
class Standing:
    """Ranks and Elo ratings over the same games; the human's Elo is 0."""

    num_games: int
    ranking: Ranking

    def to_json(self) -> dict[str, Any]:
        """Return the numbers as JSON values."""
        return {"num_games": self.num_games, **vars(self.ranking)}

    def lines(self) -> list[str]:
        """Return a text table, with the paper's own numbers over its 57 games."""
        width = max(map(len, self.ranking.mean_ranks))
        head = f"{'mean rank':>10}  {'Elo':>6}  {'printed':>8}  {'printed':>7}"
        lines = [
            f"  among the Reactor paper's agents, whose scores are from human starts, over {self.num_games} games:",
            f"  {'agent':<{width}}  {head}",
        ]
        for agent, rank in self.ranking.mean_ranks.items():
            line = f"  {agent:<{width}}  {rank:>10.2f}  {self.ranking.elo[agent]:>6.0f}"
            if agent in REACTOR_TABLE_2:
                printed = REACTOR_TABLE_2[agent]
                line += f"  {printed.mean_rank:>8.2f}  {printed.elo:>7.0f}"
            lines.append(line)
        medians = ", ".join(f"{agent} {row.median:.2f}" for agent, row in REACTOR_TABLE_3.items())
        lines.append(f"  the paper's medians of normalised scores over 57 games, no-op starts: {medians}")
        return lines


def find_standing(returns: Mapping[str, float]) -> Standing | None:
    """Return an agent's standing by its mean returns; None if the paper has a score for none of its tasks.

    Args:
        returns: mean undiscounted, unclipped returns by environment id.
    """
    games = {id: find_human_start_scores(id) for id in returns}
    known = {id: scores for id, scores in games.items() if scores is not None}
    if not known:
        return None
    names = [THIS, *AGENTS]
    scores = np.array([[returns[id], *published.values()] for id, published in known.items()]).T
    return Standing(len(known), rank_agents(names, scores, zero="human"))


def rank_words(id: str, mean_return: float) -> str | None:
    """Return the rank of a mean return among the paper's agents on one game, in words; None without scores."""
    published = find_human_start_scores(id)
    if published is None:
        return None
    rank = 1 + sum(score > mean_return for score in published.values())
    scores = ", ".join(f"{agent} {score:,.1f}" for agent, score in published.items())
    return f"the Reactor paper, human starts: {scores}; this agent would be number {rank} of {len(published) + 1}"
