"""Grids: what members come of them, and every mistake in one line, before anything starts."""

import dataclasses

import pytest

from laser.config import ConfigError
from laser.environments.named_sets import ATARI16
from launch.command_line.arguments import parse_sweep
from launch.presets import load_preset
from launch.sweeps.sweep_config import SweepConfig, SweepOptions, parse_grid, sweep_from_json

RATES = "algorithm.learning-rate=1e-3,3e-3"


def mistakes(*arguments):
    with pytest.raises(ConfigError) as caught:
        parse_sweep(["cartpole", *arguments])
    return [str(problem) for problem in caught.value.problems]


def test_members_are_the_products_in_order_each_with_a_seed_of_its_own():
    sweep = parse_sweep(
        ["cartpole", "--grid", RATES, "--grid=algorithm.entropy_cost=0.1,0.2", "--seeds", "2", "--seed", "7"]
    )
    members = sweep.members()
    assert [member.number for member in members] == list(range(8))
    points = [(item.config.algorithm.learning_rate, item.config.algorithm.entropy_cost) for item in members]
    assert points[::2] == [(1e-3, 0.1), (1e-3, 0.2), (3e-3, 0.1), (3e-3, 0.2)] == points[1::2]
    assert len({member.config.seed for member in members}) == 8
    assert members[3].overrides == {"algorithm.learning-rate": 1e-3, "algorithm.entropy-cost": 0.2}
    again, other = parse_sweep(["cartpole", "--grid", RATES]), parse_sweep(["cartpole", "--grid", RATES, "--seed", "1"])
    seeds = [[member.config.seed for member in each.members()] for each in (again, again, other)]
    assert seeds[0] == seeds[1] != seeds[2]


def test_seeds_may_be_listed():
    sweep = parse_sweep(["cartpole", "--grid", "seed=3,5"])
    assert [member.config.seed for member in sweep.members()] == [3, 5]


def test_values_with_commas_stand_in_brackets():
    grid = parse_grid(load_preset("cartpole"), ["network.hidden-sizes=(64,64),[32,],16"], ())[0]
    assert grid == {"network.hidden-sizes": [(64, 64), (32,), (16,)]}


def test_a_set_of_games_in_a_grid_is_a_member_each():
    grid = parse_grid(load_preset("rainbow"), ["env=atari16,ALE/Zaxxon-v5"], ())[0]
    assert grid["env"] == [*ATARI16, "ALE/Zaxxon-v5"]


def test_presets_draw_their_own_way_where_each_has_a_replay_of_its_own():
    words = ["dqn_mini", "--grid", "preset=dqn_mini,rainbow"]
    alone = parse_sweep([*words, "--no-share-replay"])
    assert [member.config.replay.sampler for member in alone.members()] == ["uniform", "per"]
    assert alone.members()[1].config.replay.priority_uniform == 0.0
    chosen = parse_sweep([*words, "--no-share-replay", "--replay.sampler", "rank"])
    assert {member.config.replay.sampler for member in chosen.members()} == {"rank"}
    shared = parse_sweep(words)
    assert {member.config.replay.sampler for member in shared.members()} == {"uniform"}
    (found,) = [str(item) for item in shared.warnings() if item.key == "replay.sampler"]
    assert "uniform replaces per, the sampler of preset rainbow" in found


def test_members_learn_as_the_presets_of_the_grid_say():
    arguments = ["cartpole", "--grid", "preset=cartpole,acer-cartpole", "--grid", "algorithm.discount=0.9,0.8"]
    sweep = parse_sweep([*arguments, "--steps", "5000", "--replay.capacity-steps", "9000"])
    configs = [member.config for member in sweep.members()]
    own = [load_preset(name) for name in ("cartpole", "acer_cartpole") for _ in range(2)]
    for config, preset, discount in zip(configs, own, (0.9, 0.8, 0.9, 0.8), strict=True):
        assert config.algorithm == dataclasses.replace(preset.algorithm, discount=discount)
        assert (config.network, config.preset) == (preset.network, preset.preset)
        assert config.replay == dataclasses.replace(preset.replay, capacity_steps=9000)
        assert (config.steps, config.env) == (5000, "CartPole-v1")
    assert sweep_from_json({"sweep": sweep.to_json()}, sweep.base) == sweep


def test_a_record_gives_the_sweep_back():
    base = load_preset("cartpole")
    grid = {"network.hidden-sizes": [(64, 64), (32,)], "algorithm.learning-rate": [1e-3 / 3, 2e-3 / 7]}
    sweep = SweepConfig(base, grid, SweepOptions(seeds=3, share_replay=False))
    assert sweep_from_json({"sweep": sweep.to_json()}, base) == sweep


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "grid: is missing"),
        (["--grid"], "grid: needs a value"),
        (["--grid", "seed="], "grid: seed lists no values"),
        (["--grid", "seed"], "grid: must be KEY=V1,V2, got 'seed'"),
        (["--grid", "seed=1,1"], "grid: seed lists 1 twice"),
        (["--grid", "seed=1,2", "--grid", "seed=3"], "grid: seed is given twice"),
        (["--grid", "seed=1,2", "--seeds", "2"], "grid: seed lists the seeds, and so does --seeds"),
        (["--grid", RATES, "--algorithm.learning-rate", "1"], "grid: algorithm.learning-rate also has a value"),
        (
            ["--grid", "seed=" + ",".join(map(str, range(4097)))],
            "grid: makes 4,097 members, and a sweep has at most 4,096",
        ),
        (["--grid", "algorithm.learningrate=1,2"], "algorithm.learningrate: in --grid: unknown key; did you mean"),
        (["--grid", "steps=x,2"], "steps: in --grid: must be a whole number, got 'x'"),
        (["--grid", "algorithm.learning-rate=-1,1"], "algorithm.learning-rate: must be above 0, got -1.0"),
        (["--grid", "run-dir=a,b"], "grid: run-dir has one value for the whole sweep"),
        (["--grid", "replay.capacity-steps=1e4,2e4"], "grid: replay.capacity-steps cannot differ"),
        (
            ["--grid", "preset=cartpole,acer_cartpol"],
            "grid: there is no preset 'acer_cartpol'; did you mean acer_cartpole",
        ),
        (["--grid", "preset="], "grid: preset lists no values; for example preset=cartpole"),
        (
            ["--grid", "preset=cartpole,acer_cartpole", "--algorithm.discount", "0.9"],
            "algorithm.discount: has no effect",
        ),
        (["--grid", "preset=cartpole,acer_cartpole", "--replay.min-steps", "600"], "replay.min-steps: has no effect"),
        (
            ["--grid", "preset=cartpole,acer_cartpole", "--grid", "algorithm.baseline-cost=0.5,1"],
            "algorithm.baseline-cost: of preset acer_cartpole: unknown key",
        ),
        (["--grid", RATES, "--stepz", "5"], "stepz: unknown key; did you mean steps?"),
        (["--grid", RATES, "--sedes", "5"], "sedes: unknown key; did you mean"),
        (["--grid", RATES, "--seeds", "0"], "seeds: must be in [1, 4096], got 0"),
        (["--grid", RATES, "--pbt.margin", "5"], "pbt.margin: has no effect without --pbt"),
        (["--grid", RATES, "--pbt", "--pbt.margn", "5"], "pbt.margn: unknown key; did you mean pbt.margin?"),
        (["--grid", RATES, "--pbt", "--pbt.interval", "0"], "pbt.interval: must be at least 1"),
        (["--grid", RATES, "--pbt", "--pbt.burn-in", "1e9"], "pbt.burn-in: must be below"),
    ],
)
def test_each_mistake_is_one_line(arguments, says):
    (found,) = mistakes(*arguments)
    assert found.startswith(says)
    assert "\n" not in found


def test_all_mistakes_are_told_at_once():
    found = mistakes("--grid", "seed=", "--grid", "stepz=1,2", "--grid", "steps=-1,x", "--sedes", "5", "surplus")
    assert len(found) == 6


def test_ranges_of_grid_options_and_evolution_are_told_with_all_else():
    found = mistakes(
        *["--grid", "algorithm.learning-rate=-1,1", "--grid", "steps=x,100000", "--grid", "network.hidden-sizes=(64"],
        *["--seeds", "0", "--pbt", "--pbt.interval", "0", "--algorithm.discount", "2", "--env", "CartPol-v1"],
    )
    assert {line.partition(":")[0] for line in found} == {
        "algorithm.learning-rate",
        "steps",
        "grid",
        "seeds",
        "pbt.interval",
        "algorithm.discount",
        "env",
    }
    assert len(found) == 7
    assert "grid: network.hidden-sizes=(64 has a bracket without its other half" in "\n".join(found)


def test_own_replays_may_differ_in_size():
    sweep = parse_sweep(["cartpole", "--no-share-replay", "--grid", "replay.capacity-steps=8000,16000"])
    assert [member.config.replay.capacity_steps for member in sweep.members()] == [8000, 16000]


def test_a_broken_rule_of_one_point_is_told_once():
    base = dataclasses.replace(load_preset("cartpole"), steps=1000)
    sweep = SweepConfig(base, {"algorithm.c-clip": [1.0, 2.0], "algorithm.entropy-cost": [0.1, 0.2]})
    with pytest.raises(ConfigError) as caught:
        sweep.members()
    assert [problem.key for problem in caught.value.problems] == ["algorithm.c-clip"]
