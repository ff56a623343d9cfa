"""Arguments of the Python API that are not what they must be: one line for each, before anything starts."""

import pytest

import laser
from laser.config import ConfigError

SWEEP = "laser.SweepConfig(base, grid) makes one"
CONFIG = laser.load_preset("cartpole", {"steps": 600})


def sweep_of(**changes):
    return lambda: laser.sweep(laser.SweepConfig(**{"base": CONFIG, "grid": {}, **changes}))


@pytest.mark.parametrize(
    ("call", "lines"),
    [
        (
            lambda: laser.train("cartpole"),
            ["config: must be of the class TrainConfig, got 'cartpole'; use laser.load_preset('cartpole')"],
        ),
        (
            lambda: laser.train(None),
            ["config: must be of the class TrainConfig, got None; use one of laser.load_preset"],
        ),
        (
            lambda: laser.train(CONFIG, [3]),
            ["command: must be a list, and each of its items text or none, got [3]; callbacks=[...] takes callbacks"],
        ),
        (
            lambda: laser.train(CONFIG, callbacks=3),
            ["callbacks: must be a list of objects, got 3; put it into brackets: callbacks=[...]"],
        ),
        (
            lambda: laser.sweep("cartpole"),
            [f"config: must be of the class SweepConfig, got 'cartpole'; {SWEEP}"],
        ),
        (
            sweep_of(base="cartpole", grid=["a"], options={"seeds": 2}, space={"seed": 3}),
            [
                "base: must be of the class TrainConfig, got 'cartpole'",
                "options: must be of the class SweepOptions, got {'seeds': 2}",
                "grid: must be a mapping of names to values, got ['a']",
                "space.seed: must be of the class Range or of the class Choice, got 3",
            ],
        ),
        (
            sweep_of(grid={"seed": 3}, zipped={"algorithm.learning-rate": "1e-3"}),
            [
                "grid.seed: must be a list of values, got 3; use [3]",
                "zipped.algorithm.learning-rate: must be a list of values, got '1e-3'; use ['1e-3']",
            ],
        ),
        (
            sweep_of(grid={"algorithm.learning-rate": []}),
            ["grid.algorithm.learning-rate: lists no values; list one or more, or leave it out"],
        ),
        (
            sweep_of(
                options=laser.SweepOptions(sample=2),
                space={
                    "algorithm.learning-rate": laser.Range("gauss", 1e-4, 1e-2),
                    "algorithm.lr": laser.Range("log", 1e-4, 1e-2),
                    "algorithm.optimizr": laser.Choice(("adam", "sgd")),
                },
            ),
            [
                "space: algorithm.learning-rate must be log(LOW,HIGH), uniform(LOW,HIGH), integers(LOW,HIGH) "
                "or {V1,V2}, got gauss(0.0001,0.01); choose one of these kinds",
                "algorithm.lr: in --space: unknown key; did you mean algorithm.learning-rate?",
                "algorithm.optimizr: in --space: unknown key; did you mean algorithm.optimizer?",
            ],
        ),
        (
            sweep_of(grid={"seed": [1, 2]}, options=laser.SweepOptions(tuner="hyperopt")),
            ["tuner: must be one of random, optuna, got 'hyperopt'"],
        ),
        (lambda: laser.load_preset(3), ["preset: must be text, got 3"]),
        (
            lambda: laser.load_preset("cartpole", ["steps"]),
            ["values: must be a mapping of names to values or none, got ['steps']"],
        ),
        (lambda: laser.change(None, {}), ["config: must be of the class TrainConfig, got None"]),
        (lambda: laser.load_policy(5), ["run-dir: must be text or a path, got 5"]),
        (
            lambda: laser.load_policy("none", device="gpu", seed=-1),
            [
                "device: must be cpu, cuda or cuda:N, got 'gpu'",
                "seed: must be in [0, 2147483647], got -1",
            ],
        ),
        (lambda: laser.load_policy("none", greedy="yes"), ["greedy: must be true or false, got 'yes'"]),
        (
            lambda: laser.evaluate(5, kwargs=[1]),
            [
                "kwargs: must be a mapping of names to values or none, got [1]",
                "run-dir: must be text or a path, got 5",
            ],
        ),
    ],
)
def test_every_wrong_argument_is_one_line(tmp_path, monkeypatch, call, lines):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as caught:
        call()
    assert sorted(str(caught.value).splitlines()) == sorted(lines)
    assert not list(tmp_path.iterdir())
