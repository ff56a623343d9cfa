"""Words of other systems lead to keys that exist."""

import pytest

from launch.presets import load_preset
from launch.settings.values import find_leaves
from launch.settings.words_elsewhere import _OURS, our_key
from launch.sweeps.sweep_options import sweep_leaves

KEYS = {name: [leaf.key for leaf in find_leaves(load_preset(name))] for name in ("cartpole", "ppo", "rainbow", "sac")}
KEYS["a sweep"] = [leaf.key for leaf in sweep_leaves()] + KEYS["cartpole"]


@pytest.mark.parametrize(
    ("word", "preset", "key"),
    [
        ("lr", "cartpole", "algorithm.learning-rate"),
        ("algorithm.lr", "cartpole", "algorithm.learning-rate"),
        ("total_timesteps", "cartpole", "steps"),
        ("total-timesteps", "cartpole", "steps"),
        ("n_envs", "cartpole", "num-envs"),
        ("gamma", "sac", "algorithm.discount"),
        ("ent_coef", "cartpole", "algorithm.entropy-cost"),
        ("ent_coef", "sac", "algorithm.temperature"),
        ("gae_lambda", "ppo", "algorithm.gae-lambda"),
        ("gae_lambda", "cartpole", "algorithm.trace-lambda"),
        ("clip_coef", "ppo", "algorithm.clip"),
        ("clip_coef", "sac", None),
        ("norm_obs", "ppo", "algorithm.normalize-observations"),
        ("norm_obs", "sac", None),
        ("colour", "sac", None),
        ("n_trials", "a sweep", "sample"),
        ("n_jobs", "a sweep", "concurrent"),
        ("n_jobs", "cartpole", "num-actors"),
    ],
)
def test_a_word_leads_to_the_key_that_the_preset_has(word, preset, key):
    assert our_key(word, KEYS[preset]) == key


@pytest.mark.parametrize("word", _OURS)
def test_every_word_is_plain_and_leads_somewhere(word):
    assert word == word.lower().replace("-", "").replace("_", "")
    known = {key for keys in KEYS.values() for key in keys}
    assert set(_OURS[word]) <= known
    assert word not in {key.replace("-", "") for key in known}, "the key itself"
