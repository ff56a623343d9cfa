"""Scores of the Reactor paper on 57 Atari games (tables 2, 3 and 4), for comparison with a user's result.

Table 4 was checked number by number against table 5, which holds the same scores normalised: all of its rows are
readable. The only disagreement is in the paper: on video_pinball, where people score less than random play, it divides
by their score alone. Misspelt names of games are corrected. Recomputed from table 4, the mean ranks and Elo ratings of
table 2 agree to within 0.01 and 6 points, its means and medians exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

from laser.scoring.scores import atari_game


@dataclass(frozen=True)
class PublishedStanding:
    """Results of an agent over 57 games; None where the paper gives no number.

    Args:
        median: median of the scores normalised by random play and people.
        mean_rank: mean rank among the agents of the same table; 1 would be the best on every game.
        elo: Elo rating, where the human's is 0.
        mean: mean of the normalised scores.
    """

    median: float
    mean_rank: float | None
    elo: float | None
    mean: float | None = None


AGENTS = ("random", "human", "DQN", "Double DQN", "Dueling", "Prioritised", "Prioritised Dueling", "Reactor")
"""The columns of table 4; Reactor is its variant M1: memorised behaviour, beta = 1, lambda = 1."""

# 30 random human starts, 200M frames, lambda = 1.
REACTOR_TABLE_2 = {
    "random": PublishedStanding(0.00, 7.67, -520, 0.00),
    "human": PublishedStanding(1.00, 4.19, 0, 1.00),
    "DQN": PublishedStanding(0.69, 5.61, -153, 2.17),
    "Double DQN": PublishedStanding(1.11, 4.42, -24, 3.31),
    "Dueling": PublishedStanding(1.17, 3.49, 71, 3.42),
    "Prioritised": PublishedStanding(1.13, 3.77, 43, 3.84),
    "Prioritised Dueling": PublishedStanding(1.15, 3.47, 73, 5.65),
    "Reactor": PublishedStanding(1.40, 3.40, 81, 5.55),
}

# 30 random no-op starts, the best window of 1M steps of each training curve. M: memorised, L: learned behaviour;
# 1 and 5: beta = min(1/mu, 1 or 5); TISLR: truncated importance sampling.
REACTOR_TABLE_3 = {
    "random": PublishedStanding(0.00, 8.00, -808),
    "human": PublishedStanding(1.00, 4.74, 0),
    "ACER": PublishedStanding(1.55, None, None),
    "Reactor M5": PublishedStanding(1.40, 3.81, 100),
    "Reactor M1": PublishedStanding(1.51, 3.42, 139),
    "Reactor M TISLR": PublishedStanding(1.28, 4.82, -2),
    "Reactor L5": PublishedStanding(1.54, 4.12, 71),
    "Reactor L1": PublishedStanding(1.61, 3.84, 99),
    "Reactor L TISLR": PublishedStanding(1.72, 3.65, 116),
}


def find_human_start_scores(id: str) -> dict[str, float] | None:
    """Return the scores of `AGENTS` for an environment id such as `ALE/Pong-v5`, or None if there are none."""
    game = atari_game(id)
    return REACTOR_TABLE_4.get(game) if game else None


def _read(table: str) -> dict[str, dict[str, float]]:
    rows = (line.split() for line in table.split("\n") if line)
    return {row[0]: dict(zip(AGENTS, map(float, row[1:]), strict=True)) for row in rows}


# game, then the scores of AGENTS; 30 random human starts, random play and people included
REACTOR_TABLE_4 = _read("""
alien 128.3 6371.3 634 1033.4 1486.5 1334.7 823.7 856.5
amidar 11.8 1540.4 178.4 169.1 172.7 129.1 238.4 221.4
assault 166.9 628.9 3489.3 6060.8 3994.8 6548.9 10950.6 15511.3
asterix 164.5 7536 3170.5 16837 15840 22484.5 364200 16797
asteroids 871.3 36517.3 1458.7 1193.2 2035.4 1745.1 1021.9 6207.4
atlantis 13463 26575 292491 319688 445360 330647 423252 705930.5
bank_heist 21.7 644.5 312.7 886 1129.3 876.6 1004.6 901.2
battle_zone 3560 33030 23750 24740 31320 25520 30650 76385
beam_rider 254.6 14961 9743.2 17417.2 14591.3 31181.3 37412.2 6994.8
berzerk 196.1 2237.5 493.4 1011.1 910.6 865.9 2178.6 912.5
bowling 35.2 146.5 56.5 69.6 65.7 52 50.4 70.3
boxing -1.5 9.6 70.3 73.5 77.3 72.3 79.2 68.2
breakout 1.6 27.9 354.5 368.9 411.6 343 354.6 457.3
centipede 1925.5 10321.9 3973.9 3853.5 4881 3489.1 5570.2 3522.4
chopper_command 644 8930 5017 3495 3784 4635 8058 5080
crazy_climber 9337 32667 98128 113782 124566 127512 127853 144593.5
defender 1965.5 14296 15917.5 27510 33996 23666.5 34415 50490.5
demon_attack 208.3 3442.8 12550.7 69803.4 56322.8 61277.5 73371.3 45122.3
double_dunk -16 -14.4 -6 -0.3 -0.8 16 -10.7 21.5
enduro -81.8 740.2 626.7 1216.6 2077.4 1831 2223.9 2110.1
fishing_derby -77.1 5.1 -1.6 3.2 -4.1 9.8 17 16
freeway 0.1 25.6 26.9 28.8 0.2 28.9 28.2 29.2
frostbite 66.4 4202.8 496.1 1448.1 2332.4 3510 4038.4 3348.9
gopher 250 2311 8190.4 15253 20051.4 34858.8 105148.4 60018.6
gravitar 245.5 3116 298 200.5 297 269.5 167 497.2
hero 1580.3 25839.4 14992.9 14892.5 15207.9 20889.9 15459.2 10604
ice_hockey -9.7 0.5 -1.6 -2.5 -1.3 -0.2 0.5 5.4
jamesbond 33.5 368.5 697.5 573 835.5 3961 585 3049
kangaroo 100 2739 4496 11204 10334 12185 861 7163.5
krull 1151.9 2109.1 6206 6796.1 8051.6 6872.8 7658.6 8148.6
kung_fu_master 304 20786.8 20882 30207 24288 31676 37484 46172.5
montezuma_revenge 25 4182 47 42 22 51 24 23
ms_pacman 197.8 15375 1092.3 1241.3 2250.6 1865.9 1007.8 1207.5
name_this_game 1747.8 6796 6738.8 8960.3 11185.1 10497.6 13637.9 11897
phoenix 1134.4 6686.2 7484.8 12366.5 20410.5 16903.6 63597 5844.1
pitfall -348.8 5998.9 -113.2 -186.7 -46.9 -427 -243.6 -198.4
pong -18 15.5 18 19.1 18.8 18.9 18.4 18.9
private_eye 662.8 64169.1 207.9 -575.5 292.6 670.7 1277.6 -161.4
qbert 183 12085 9271.5 11020.8 14175.8 9944 14063 7413.5
riverraid 588.3 14382.2 4748.5 10838.4 16569.4 11807.2 16496.8 6113.6
road_runner 200 6878 35215 43156 58549 52264 54630 49709
robotank 2.4 8.9 58.7 59.1 62 56.2 24.7 59.3
seaquest 215.5 40425.8 4216.7 14498 37361.6 25463.7 1431.2 5943.3
skiing -15287.4 -3686.6 -12142.1 -11490.4 -11928 -10169.1 -18955.8 -15464.8
solaris 2047.2 11032.6 1295.4 810 1768.4 2272.8 280.6 840.2
space_invaders 182.6 1464.9 1293.8 2628.7 5993.1 3912.1 8978 1704.8
star_gunner 697 9528 52970 58365 90804 61582 127073 45829
surround -9.7 5.4 -6 1.9 4 5.9 -0.2 -0.9
tennis -21.4 -6.7 11.1 -7.8 4.4 -5.3 -13.2 22.5
time_pilot 3273 5650 4786 6608 6601 5963 4871 14596
tutankham 12.7 138.3 45.6 92.2 48 56.9 108.6 130.5
up_n_down 707.2 9896.1 8038.5 19086.9 24759.2 12157.4 22681.3 165934
venture 18 1039 136 21 200 94 29 7.5
video_pinball 20452 15641.1 154414.1 367823.7 110976.2 295972.8 447408.6 550035.6
wizard_of_wor 804 4556 1609 6201 7054 5727 10471 8658
yars_revenge 1476.9 47135.2 4577.5 6270.6 25976.5 4687.4 58145.9 65248.1
zaxxon 475 8443 4412 8593 10164 9474 11320 11980
""")
