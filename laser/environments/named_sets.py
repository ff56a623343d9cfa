"""Named sets of tasks for `--env`; a module of its own, since reading them must not load any suite."""

from __future__ import annotations

# The 57 games that papers report.
_GAMES = (
    "Alien Amidar Assault Asterix Asteroids Atlantis BankHeist BattleZone BeamRider Berzerk Bowling Boxing "
    "Breakout Centipede ChopperCommand CrazyClimber Defender DemonAttack DoubleDunk Enduro FishingDerby Freeway "
    "Frostbite Gopher Gravitar Hero IceHockey Jamesbond Kangaroo Krull KungFuMaster MontezumaRevenge MsPacman "
    "NameThisGame Phoenix Pitfall Pong PrivateEye Qbert Riverraid RoadRunner Robotank Seaquest Skiing Solaris "
    "SpaceInvaders StarGunner Surround Tennis TimePilot Tutankham UpNDown Venture VideoPinball WizardOfWor "
    "YarsRevenge Zaxxon"
)
ATARI57 = tuple(f"ALE/{game}-v5" for game in _GAMES.split())

_SIXTEEN = (
    "Alien Amidar Assault Asterix BattleZone Boxing ChopperCommand Freeway Frostbite KungFuMaster MsPacman Pong "
    "PrivateEye Qbert RoadRunner Seaquest"
)
# The games on which learned samplers were evaluated at 100,000 steps (Oh et al. 2021, NERS, table 2).
ATARI16 = tuple(f"ALE/{game}-v5" for game in _SIXTEEN.split())

DMLAB_LEVELS = (
    "rooms_collect_good_objects",
    "rooms_exploit_deferred_effects",
    "rooms_select_nonmatching_object",
    "rooms_watermaze",
    "rooms_keys_doors_puzzle",
    "language_select_described_object",
    "language_select_located_object",
    "language_execute_random_task",
    "language_answer_quantitative_question",
    "lasertag_one_opponent_small",
    "lasertag_three_opponents_small",
    "lasertag_one_opponent_large",
    "lasertag_three_opponents_large",
    "natlab_fixed_large_map",
    "natlab_varying_map_regrowth",
    "natlab_varying_map_randomized",
    "skymaze_irreversible_path_hard",
    "skymaze_irreversible_path_varied",
    "psychlab_arbitrary_visuomotor_mapping",
    "psychlab_continuous_recognition",
    "psychlab_sequential_comparison",
    "psychlab_visual_search",
    "explore_object_locations_small",
    "explore_object_locations_large",
    "explore_obstructed_goals_small",
    "explore_obstructed_goals_large",
    "explore_goal_locations_small",
    "explore_goal_locations_large",
    "explore_object_rewards_few",
    "explore_object_rewards_many",
)
DMLAB30 = tuple(f"dmlab/{level}" for level in DMLAB_LEVELS)

SETS: dict[str, tuple[str, ...]] = {"atari57": ATARI57, "atari16": ATARI16, "dmlab30": DMLAB30}
