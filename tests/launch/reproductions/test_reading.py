"""The reader of figures' files."""

import pytest

from laser.config import ConfigError
from launch.reproductions.reading import read_figure

WHOLE = """
title = "A"
shows = "B."
numbers = [{ arm = "one", value = 2.0 }]

[paper]
preset = "cartpole"
games = ["CartPole-v1"]
steps = 1_000
seeds = 2
set = { "algorithm.learning-rate" = 1e-3, network = { hidden-sizes = [8, 8] } }

[small]
preset = "cartpole"
games = ["CartPole-v1"]
steps = 100
seeds = 1

[[arms]]
label = "one"

[[arms]]
label = "two"
set = { "replay.sampler" = "per" }

[[curves]]
metric = "charts/mean_return"
title = "return"

[[rules]]
claim = "one is better"
arm = "one"
than = "two"
"""


def problems(text, name="laser/x"):
    with pytest.raises(ConfigError) as caught:
        read_figure(name, text)
    return [str(problem) for problem in caught.value.problems]


def test_a_whole_file():
    figure = read_figure("laser/x", WHOLE)
    assert figure.full.values == {"algorithm.learning-rate": 1e-3, "network.hidden-sizes": [8, 8]}
    assert [arm.label for arm in figure.arms] == ["one", "two"]
    assert figure.numbers[0].value == 2.0
    assert str(figure.rules[0]) == (
        "the share of pairs in which the final score of one is more than that of two is above 0.5 "
        "with its whole 95 % interval"
    )


def test_all_mistakes_are_reported_at_once():
    text = (
        WHOLE.replace('title = "A"', 'titel = "A"')
        .replace("seeds = 2", "seeds = 0")
        .replace("steps = 100\n", "")
        .replace('metric = "charts/mean_return"', "metric = 3")
        .replace('claim = "one is better"', 'claim = "one is better"\ncompare = "beats"')
    )
    assert problems(text) == [
        "laser/x.titel: unknown key; did you mean title?",
        "laser/x.title: is missing",
        "laser/x paper.seeds: must be a whole number above 0, got 0",
        "laser/x small.steps: is missing",
        "laser/x curves 1.metric: must be text, got 3",
        "laser/x rules 1.compare: must be one of wins, difference, ratio, speed, value, near_best, got 'beats'",
    ]


@pytest.mark.parametrize(
    ("old", "new", "line"),
    [
        ('arm = "one"\nthan', 'arm = "noe"\nthan', "laser/x rules 1.arm: there is no 'noe'; did you mean 'one'?"),
        ('than = "two"', "", "laser/x rules 1.than: there is no ''; there are ['one', 'two']"),
        ('label = "two"', 'label = "one"', "laser/x arms: 'one' is the label of two arms; name them apart"),
        ('label = "two"', 'label = "two"\nlength = 2.0', "laser/x arms 'two'.length: must be above 0 and at most 1: 2"),
        ('label = "two"', 'label = "two"\nshare = true', "laser/x arms 'two': share and pbt are of sweeps; add a grid"),
        (
            'than = "two"',
            'than = "two"\nis = "within"',
            "laser/x rules 1.lower: belongs to is = within; give both, or neither",
        ),
        (
            'label = "two"',
            'label = "two"\npbt-set = { margin = 0.1 }',
            "laser/x arms 'two'.pbt-set: has no effect without pbt; add pbt = true",
        ),
        (
            'label = "two"',
            'label = "two"\npbt-set = { burnin = 5 }',
            "laser/x arms 'two'.pbt-set: there is no 'burnin'; did you mean 'burn-in'?",
        ),
        (
            "seeds = 2",
            'seeds = 2\nset-of = { "CartPole-v0" = { "num-envs" = 2 } }',
            "laser/x paper.set-of: there is no 'CartPole-v0'; did you mean 'CartPole-v1'?",
        ),
        (
            'than = "two"',
            'than = "two"\nmetric = "x"',
            "laser/x rules 1.metric: there is no 'x'; there are ['charts/mean_return']",
        ),
    ],
)
def test_parts_that_do_not_go_together(old, new, line):
    assert old in WHOLE
    assert line in problems(WHOLE.replace(old, new))


def test_a_figure_needs_runs_or_a_reason():
    assert problems('title = "A"\nshows = "B."') == [
        "laser/x: has no runs and does not say why; add arms, or say what is missing or why there is nothing"
    ]
    assert read_figure("laser/x", 'title = "A"\nshows = "B."\nnothing = "a diagram"').nothing == "a diagram"
    assert problems("title = A")[0].startswith("laser/x: is not valid TOML")
    assert "laser/x.rules: is missing: a figure with runs has a verdict; add [[rules]]" in problems(
        WHOLE.partition("[[rules]]")[0]
    )
