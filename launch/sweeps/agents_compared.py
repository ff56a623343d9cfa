"""Which settings of a sweep are best over games and seeds: ranks, Elo, and who beats whom how often."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from laser.evaluation.elo import count_wins, elo_ratings, has_finite_ratings
from laser.evaluation.ranks import mean_ranks, mean_winning_probabilities, winning_probabilities
from laser.evaluation.scores import atari_game, find_reference
from launch.evaluation.evaluation_result import EvaluationResult

HUMAN = "human"
# What a run is of, and not what an agent is.
_NOT_OF_AN_AGENT = ("env", "seed")


class Evaluated(Protocol):
    """A member of a sweep that was evaluated, or could not be."""

    @property
    def overrides(self) -> dict[str, str]:
        """What sets it apart."""

    @property
    def result(self) -> EvaluationResult | None:
        """What it reached."""


@dataclass(frozen=True)
class AgentsCompared:
    """Agents over the games that all of them played, by mean rank, the best first.

    Args:
        games: environment ids.
        num_seeds: runs of each agent on each game that count.
        mean_ranks: by agent, of its mean over seeds; 1 would be the best on every game.
        elo: by agent, from who scores more on how many games; 0 is the human's, or where a game has no human score
            that of the agent ranked last.
        winning: by agent, how likely a run of it scores more than a run of another one, over seeds and games.
    """

    games: list[str]
    num_seeds: int
    mean_ranks: dict[str, float]
    elo: dict[str, float]
    winning: dict[str, float]

    def to_json(self) -> dict[str, Any]:
        """Return its numbers."""
        return vars(self)

    def lines(self) -> list[str]:
        """Return a table in words."""
        games = f"{len(self.games)} games" if len(self.games) > 1 else self.games[0]
        seeds = f"{self.num_seeds} seeds each" if self.num_seeds > 1 else "one seed each"
        width = max(map(len, [*self.mean_ranks, HUMAN]))
        lines = [
            f"over {games}, {seeds}:",
            f"  {'settings':<{width}}  {'mean rank':>9}  {'Elo':>6}  {'beats another':>13}",
        ]
        for agent, rank in self.mean_ranks.items():
            winning = f"{self.winning[agent]:.0%}" if agent in self.winning else ""
            lines.append(f"  {agent:<{width}}  {rank:>9.2f}  {self.elo[agent]:>6.0f}  {winning:>13}")
        return lines


def compare_agents(members: Sequence[Evaluated]) -> AgentsCompared | None:
    """Compare settings that were trained with several seeds or on several games.

    Args:
        members: of a sweep; where some have more seeds than others, the first ones count.

    Returns:
        None where there are no two settings with a game in common, or one run each, which members' returns say.
    """
    runs: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for member in members:
        if member.result is not None:
            settings = {key: value for key, value in member.overrides.items() if key not in _NOT_OF_AN_AGENT}
            agent = ", ".join(f"{key}={value}" for key, value in settings.items())
            for task in member.result.tasks:
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
    names = [*agents, HUMAN] if len(people) == len(games) else agents
    with_people = np.vstack([means, people]) if len(people) == len(games) else means
    ranks = mean_ranks(with_people)
    order = np.argsort(ranks, kind="stable")
    wins = count_wins(with_people)
    anchor = names.index(HUMAN) if HUMAN in names else int(order[-1])
    # Half a win each way keeps ratings finite where somebody won or lost every game.
    elo = elo_ratings(wins, anchor, 0.0 if has_finite_ratings(wins) else 0.5)
    winning = mean_winning_probabilities(winning_probabilities(scores))
    return AgentsCompared(
        games,
        num_seeds,
        {names[place]: float(ranks[place]) for place in order},
        {names[place]: float(elo[place]) for place in order},
        {agents[place]: float(winning[place]) for place in order if place < len(agents)},
    )
