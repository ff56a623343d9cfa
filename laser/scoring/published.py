"""Scores of the LASER paper on Atari (table 2 of its appendix C), for comparison with a user's result.

The source text of the table is damaged. "-" stands for a cell that cannot be read with certainty: all of double_dunk,
enduro, fishing_derby, time_pilot, tutankham, up_n_down, venture, video_pinball and wizard_of_wor (rows run into each
other), and single cells of freeway, hero, tennis and yars_revenge. Rainbow's column was the check: in every row here it
agrees with the number that Rainbow's authors published, if there is one. Lost decimal points were put back where
Rainbow's column of the same row, or the game's range (surround ends at 10), shows that they are missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from laser.scoring.scores import atari_game


@dataclass(frozen=True)
class PublishedScores:
    """Scores of one game, mean of the last 100 training episodes, up to 37 no-ops at the start; None: not readable.

    Frames, not env steps: 50M frames are 12.5M env steps at action repeat 4.
    """

    laser_50m: float | None
    laser_shared_50m: float | None
    laser_shared_200m: float | None
    rainbow_200m: float | None


def find_published(id: str) -> PublishedScores | None:
    """Return the paper's scores for an environment id such as `ALE/Pong-v5`, or None if it has none."""
    game = atari_game(id)
    return LASER_TABLE_2.get(game) if game else None


def _read(table: str) -> dict[str, PublishedScores]:
    rows = (line.split() for line in table.split("\n") if line)
    return {row[0]: PublishedScores(*(None if cell == "-" else float(cell) for cell in row[1:])) for row in rows}


# game, LASER at 50M, shared LASER at 50M, shared LASER at 200M, Rainbow at 200M
LASER_TABLE_2 = _read("""
alien 7255.6 18635.3 18277.3 9491.7
amidar 1338 1838.3 2695 5131.2
assault 18230.5 26027.1 40603.2 14198.5
asterix 282150 496735.0 240770 428200
asteroids 33435.1 232651 257420.1 2712.8
atlantis 976528.5 889934 866584 826660
bank_heist 1333.3 1333.1 1712.8 1358
battle_zone 65275 66900 131880.0 62010
beam_rider 27667.1 80830.5 125795.2 16850.2
berzerk 9006.8 46651.6 64513.1 2545.6
bowling 70.6 42.4 47.4 30
boxing 99.8 99.8 99.4 99.6
breakout 570 852.5 850.3 417.5
centipede 105250 208008 409702.8 8167.3
chopper_command 33285 24814 727333.0 16654
crazy_climber 137093 160494 88818 168788.5
defender 337993 355447 369397.0 55105
demon_attack 129630 133557 138000.6 111185
freeway - 34.0 34.0 34.0
frostbite 6952.9 5297.4 2230.8 9590.5
gopher 59209.1 86222.2 39721.2 70354.6
gravitar 414.8 1360.5 2812.0 1419.3
hero - 30159.2 36510.6 55887.4
ice_hockey -3 20.2 38.7 1.1
jamesbond 8796 21663 60402.5 19809
kangaroo 13904 13932 14187 14637.5
krull 10623.8 9559.3 5743.6 8741.5
kung_fu_master 51511 65032 81792.0 52181
montezuma_revenge 0 1 1 384.0
ms_pacman 5014.6 6089.3 6890.7 5380.4
name_this_game 18156.7 25998.9 27910.7 13136
phoenix 276132 458355 628711.6 108529
pitfall -0.2 -0.2 -0.2 0.0
pong 21.0 21.0 21.0 20.9
private_eye 100 100 100 4234.0
qbert 20210.6 20283.8 24600.8 33817.5
riverraid 24825.1 24138.1 35491.5 22920.8
road_runner 60732.5 52942 63762.0 62041
robotank 48.2 63.6 67.8 61.4
seaquest 136473 1802.2 557213.3 15898.9
skiing -8977.4 -8904.8 -8980.1 -12957.8
solaris 2092 2222.4 3017.6 3560.3
space_invaders 13641.8 36071.4 53124.3 18789
star_gunner 211698 331327 602540.0 127029
surround 6.5 9.8 9.8 9.7
tennis - 9.0 9.0 0.0
yars_revenge - 145055.2 - 102557
zaxxon 22550.5 50486 106862.0 22209.5
""")
