"""The list of figures, held against the captions of the five papers."""

import json
import re

import pytest

from laser.config import ConfigError
from laser.scoring.statistics import share_interval
from launch.__main__ import main
from launch.reproductions.catalogue import choose, find_names, load_figure
from launch.reproductions.listing import describe

# (runs, nothing or missing), then how the caption begins in the paper. ACER's are told in our words.
CAPTIONS = {
    "laser/figure-1": ("runs", "Sharing experience between agents leads to more efficient hyper-parameter sweeps"),
    "laser/figure-2": ("runs", "Left: Learning entirely off-policy from experience replay fails"),
    "laser/figure-3": (
        "runs",
        "Left: Naively sharing experience between distinct agents in a hyper-parameter sweep fails",
    ),
    "laser/figure-4": (
        "runs",
        "Left: Increasing the V-trace clipping constant does not enable shared experience replay",
    ),
    "laser/table-1": ("runs", "Comparison of state-of-the-art agents on 57 Atari games trained up until 200M"),
    "laser/table-2": ("runs", "Per level performance of various agents at 50M and 200M environment steps"),
    "acer/figure-1": ("runs", "ACER's sample and computation complexity on Atari, four replay ratios"),
    "acer/figure-2": ("nothing", "the stochastic dueling network"),
    "acer/figure-3": ("runs", "the continuous tasks, and the methods' returns on them"),
    "acer/figure-4": ("runs", "ablation of ACER's components"),
    "acer/figure-5": ("runs", "learning rate against final return, continuous tasks"),
    "acer/figure-6": ("runs", "trust region's delta against final return, continuous tasks"),
    "reactor/figure-1": ("nothing", "The Reactor architecture"),
    "reactor/figure-2": ("nothing", "Unrolling current and target networks"),
    "reactor/figure-3": ("nothing", "Relationship between different network outputs"),
    "reactor/figure-4": ("nothing", "The model of parallelism"),
    "reactor/figure-5": (
        "runs",
        "Comparison of a relative performance of memorizing versus learning behaviour probability",
    ),
    "reactor/figure-6": ("runs", "Comparison of performance of different policy gradient algorithms with memorized"),
    "reactor/table-1": ("nothing", "Specification of the neural network used"),
    "reactor/table-2": (
        "runs",
        "Comparison of algorithm performance across 57 Atari games with 30 random human starts",
    ),
    "reactor/table-3": ("runs", "Comparison of algorithm performance across 57 Atari games with 30 random noop starts"),
    "reactor/table-4": ("missing", "Scores for each game evaluated with 30 random human starts"),
    "reactor/table-5": ("runs", "Human normalized scores obtained by evaluating agents with 30 random human starts"),
    "refer/figure-1": (
        "nothing",
        "(a) Diagram of asynchronous ER-based RL algorithms. (b) Neural network architecture",
    ),
    "refer/figure-2": ("runs", "Cumulative rewards on OpenAI MuJoCo tasks for DDPG"),
    "refer/figure-3": ("runs", "Average Kullback-Leibler divergence between the policy and the behaviors in the RM"),
    "refer/figure-4": ("runs", "Cumulative rewards on the OpenAI MuJoCo tasks for NAF"),
    "refer/figure-5": ("runs", "Average cumulative rewards on MuJoCo OpenAI Gym tasks obtained with PPO, ACER, RACER"),
    "refer/figure-6": ("runs", "Mean cumulative rewards with RACER exploring the effect of the choice of advantage"),
    "refer/figure-7": (
        "runs",
        "Average D_KL for ACER, RACER baseline, with conservative constraints, with relaxed ones",
    ),
    "refer/figure-8": ("runs", "20th and 80th percentiles of cumulative rewards on OpenAI Gym: PPO, RACER"),
    "refer/figure-9": ("runs", "20th and 80th percentiles of cumulative rewards on OpenAI Gym: DDPG, PER, u-DDPG"),
    "refer/figure-10": ("runs", "20th and 80th percentiles of cumulative rewards on the Control Suite: RACER"),
    "refer/figure-11": ("runs", "20th and 80th percentiles of cumulative rewards on the Control Suite: u-DDPG"),
    "refer/table-1": ("nothing", "RACER architecture's baseline hyper-parameters"),
    "ners/figure-1": ("missing", "Sampled transitions on Pendulum-v0 from various sampling strategies"),
    "ners/figure-2": ("nothing", "An overview of our neural experience replay sampler (NERS) framework"),
    "ners/figure-3": ("runs", "Learning curves of off-policy RL algorithms with various sampling methods on classical"),
    "ners/figure-4": ("runs", "Comparison of NERS and variants of NERS only with few features"),
    "ners/figure-5": ("runs", "Curves of the average of Q-values and Log(TD-errors) of sampled transitions"),
    "ners/figure-a.1": ("nothing", "MuJoCo environments"),
    "ners/figure-a.2": ("nothing", "Other continuous control environments"),
    "ners/figure-c.1": (
        "runs",
        "Learning curves of off-policy RL algorithms with various sampling methods on MuJoCo tasks",
    ),
    "ners/figure-c.2": ("runs", "Learning curves on additional Atari environments under Rainbow"),
    "ners/table-1": ("runs", "Average of cumulative rewards under SAC and TD3 on MuJoCo Environments"),
    "ners/table-2": ("runs", "Average of cumulative rewards under Rainbow on each Atari environments"),
    "ners/table-3": ("runs", "Sampled transitions' statistical values for Q-values and TD-errors on Pendulum-v0"),
    "ners/table-a.1": ("nothing", "Dimensions of observation and action spaces for continuous control environments"),
    "ners/table-b.1": ("nothing", "Hyper-parameters"),
}


def test_every_caption_is_in_the_list_and_in_its_order():
    of_papers = [name for name in find_names() if not name.startswith("claims/")]
    assert sorted(of_papers) == sorted(CAPTIONS)
    assert of_papers == list(CAPTIONS)


@pytest.mark.parametrize("name", CAPTIONS)
def test_what_can_be_run_has_runs_and_the_rest_says_why_not(name):
    figure = load_figure(name)
    kind = "runs" if figure.has_runs else "nothing" if figure.nothing else "missing"
    assert kind == CAPTIONS[name][0]
    words = set(re.findall(r"[a-z]{5,}", CAPTIONS[name][1].lower()))
    ours = f"{figure.title} {figure.shows}".lower()
    # By their beginnings: sampler and sampling, behaviour and behavior.
    assert 3 * sum(word[:5] in ours for word in words) >= len(words), "title and caption have too little in common"


def test_the_list_is_one_json_object_too(capsys):
    assert main(["reproduce", "list", "refer", "--json"]) == 0
    figures = {each["name"]: each for each in json.loads(capsys.readouterr().out)["figures"]}
    assert figures["refer/figure-2"]["runs"]["whole"] == len(figures["refer/figure-2"]["commands"]["whole"]) == 180
    assert figures["refer/figure-2"]["env_steps"]["whole"] == 180 * 10_000_000
    assert figures["refer/figure-1"]["nothing"].startswith("a diagram")
    assert figures["refer/figure-1"]["runs"] == {}


def test_the_list_names_commands_costs_and_what_cannot_be_had(capsys):
    assert main(["reproduce", "list", "refer"]) == 0
    lines = capsys.readouterr().out
    assert "refer/figure-2: Cumulative rewards" in lines
    assert "180 = 6 arms x 6 games x 5 seeds; 1.8 billion env steps; about" in " ".join(lines.split())
    assert "laser train ddpg --env HalfCheetah-v5 --steps 10000000 --seed 1" in " ".join(lines.split())
    assert "not here: which tasks the panels show is not in the text" in " ".join(lines.split())
    assert "nothing to run: a diagram" in lines
    assert "laser/figure-1" not in lines


def test_a_figure_with_the_runs_of_another_says_so():
    assert any("those of refer/figure-2" in line for line in describe(load_figure("refer/figure-3")))
    assert [figure.name for figure in choose("refer")][:2] == ["refer/figure-1", "refer/figure-2"]


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ("laser/figur-1", "figure: there is no figure or table 'laser/figur-1'; did you mean laser/figure-1?"),
        ("reactr", "figure: there is no figure or table 'reactr'; did you mean reactor?"),
        ("x", "figure: there is no figure or table 'x'; laser reproduce list names all of them"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(given, line):
    with pytest.raises(ConfigError) as caught:
        choose(given)
    assert str(caught.value) == line


def test_the_command_has_help(capsys):
    assert main(["reproduce", "--help"]) == 0
    text = capsys.readouterr().out
    assert "--small" in text
    assert "--scale" in text
    assert main(["reproduce", "refer/figure-3", "--dry-run", "--small", "more"]) == 2
    assert capsys.readouterr().err.startswith("error: argument: 'more' is one too many")


@pytest.mark.parametrize("name", [name for name in find_names() if load_figure(name).rules])
def test_every_rule_can_be_met_and_missed_at_the_papers_size(name):
    figure = load_figure(name)
    num = len(figure.full.ids) * figure.full.seeds
    for rule in figure.rules:
        if rule.compare == "wins":
            middle = num * (rule.lower + rule.threshold) / 2.0 if rule.side == "within" else num / 2.0
            always, never, between = (share_interval(wins, num) for wins in (float(num), 0.0, middle))
            assert always[0] > rule.threshold, rule.claim
            assert never[1] < (rule.lower if rule.side == "within" else rule.threshold), rule.claim
            if rule.side == "within":
                assert rule.lower < between[0] < between[1] < rule.threshold, rule.claim
        elif rule.compare == "value":
            assert figure.full.seeds > 1, rule.claim
        else:
            assert num > 1, rule.claim
