import math

import ale_py
import gymnasium
import pytest

from laser.scoring.published import LASER_TABLE_2, find_published
from laser.scoring.scores import ATARI57, DMLAB30, Reference, atari_game, atari_id, find_reference, summarise


def test_the_suites_are_complete():
    assert len(ATARI57) == 57
    assert len(DMLAB30) == 30
    assert set(LASER_TABLE_2) < set(ATARI57)
    for reference in (*ATARI57.values(), *DMLAB30.values()):
        assert reference.human > reference.random


def test_every_game_has_an_id_that_exists():
    gymnasium.register_envs(ale_py)
    assert {atari_id(game) for game in ATARI57} <= set(gymnasium.registry)
    assert [atari_game(atari_id(game)) for game in ATARI57] == list(ATARI57)


@pytest.mark.parametrize(
    ("id", "reference"),
    [
        ("ALE/Breakout-v5", Reference(1.7, 30.5)),
        ("ALE/Pong-v5", Reference(-20.7, 14.6)),
        ("ALE/UpNDown-v5", Reference(533.4, 11693.2)),
        ("dmlab/rooms_watermaze", Reference(4.065, 54)),
        ("dmlab/rooms_collect_good_objects_test", Reference(0.073, 10)),
        ("mini/Catch-v0", Reference(-0.6, 1.0)),
        ("CartPole-v1", None),
        ("ALE/Adventure-v5", None),
        ("dmlab/seekavoid_arena_01", None),
    ],
)
def test_references_are_found_by_id(id, reference):
    assert find_reference(id) == reference


def test_normalised_scores_and_their_summary():
    scores, references = (5.0, 120.0), (Reference(0.0, 10.0), Reference(20.0, 70.0))
    normalised = {str(n): r.normalise(s) for n, (s, r) in enumerate(zip(scores, references, strict=True))}
    summary = summarise(normalised)
    assert summary.mean_capped == 0.75
    assert summary.mean == summary.median == 1.25
    assert summarise({"a": 0.1, "b": 0.3, "c": 50.0}).median == 0.3


def test_the_papers_table_stands_beside_a_result():
    assert find_published("ALE/Breakout-v5").laser_shared_200m == 850.3
    assert find_published("ALE/Venture-v5") is None
    assert find_published("CartPole-v1") is None
    assert find_published("ALE/Hero-v5").laser_50m is None


def test_the_papers_scores_are_of_the_right_size():
    """A lost decimal point or a row that slipped would show: agents beat random play nearly everywhere."""
    normalised = [
        find_reference(atari_id(game)).normalise(scores.laser_shared_200m)
        for game, scores in LASER_TABLE_2.items()
        if scores.laser_shared_200m is not None
    ]
    assert sum(score > 0 for score in normalised) >= 0.95 * len(normalised)
    assert 4.0 < sorted(normalised)[len(normalised) // 2] < 7.0  # the paper's median over all 57: 448 %
    assert all(math.isfinite(score) for score in normalised)
