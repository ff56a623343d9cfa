"""The numbers that presets and the README give are those of the measured rows."""

import json
import statistics
from pathlib import Path

import pytest

from launch.presets import find_presets

ROOT = Path(__file__).resolve().parents[3]
GAMES = ("asterix", "breakout", "freeway", "seaquest", "spaceinvaders")
UNSOLVED = {"lunar_lander": 1_000_000, "doorkey": 100_000}
"""Env steps of a seed of a peer that did not reach the return in its whole run."""


def median(row, side):
    sides = json.loads((ROOT / "benchmarks" / "rows" / f"{row}.json").read_text())["sides"]
    values = [each["value"] for each in sides[side].values()]
    return statistics.median(UNSOLVED[row] if value is None else value for value in values)


def ratio(row, peer="SB3 PPO"):
    return median(row, "LASER") / median(row, peer)


def minatar():
    ratios = [ratio(f"minatar_{game}") for game in GAMES]
    return f"{min(ratios):.1f} to {max(ratios):.1f} times PPO's"


def in_tenths(row, peer="SB3 PPO"):
    return {0.3: "a third", 0.4: "a third", 0.5: "half", 0.6: "six tenths"}[round(ratio(row, peer), 1)]


@pytest.mark.parametrize(
    ("preset", "words"),
    [
        ("minatar", minatar),
        ("minigrid", lambda: f"{in_tenths('doorkey')} of PPO's env steps"),
        ("cartpole", lambda: f"{in_tenths('cartpole')} of PPO's env steps"),
        ("box2d", lambda: f"{ratio('lunar_lander'):.0%}".replace("%", " %") + " of PPO's env steps"),
        ("atari_small", lambda: f"{median('pong', 'LASER'):.0f} after 2M env steps"),
        ("halfcheetah", lambda: f"{median('halfcheetah', 'LASER'):,.0f} after 300,000 env steps"),
    ],
)
def test_a_preset_says_what_was_measured(preset, words):
    assert words() in find_presets()[preset]


def test_the_readme_says_what_was_measured():
    text = " ".join((ROOT / "README.md").read_text().split())
    assert f"is {minatar()}" in text
    assert f"needs {in_tenths('doorkey')} of PPO's to open MiniGrid's DoorKey, and {in_tenths('cartpole')} to" in text
    assert f"needs {round(100 * ratio('lunar_lander'))} % to reach 200 on LunarLander" in text
    assert f"and {in_tenths('lunar_lander', 'SB3 DQN')} of what Stable-Baselines3's DQN needs" in text
