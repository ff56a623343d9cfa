"""Grids: what members come of them, and every mistake in one line, before anything starts."""

import dataclasses

import pytest

from laser.config import ConfigError
from laser.environments.named_sets import ATARI16
from launch.command_line.arguments import parse_sweep
from launch.presets import load_preset
from launch.records.run_directory import open_run
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.sweep_record import sweep_from_json
from launch.sweeps.value_lists import parse_lists

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
    grid = parse_lists(load_preset("cartpole"), ["network.hidden-sizes=(64,64),[32,],16"], ())[0]
    assert grid == {"network.hidden-sizes": [(64, 64), (32,), (16,)]}


def test_a_set_of_games_in_a_grid_is_a_member_each():
    grid = parse_lists(load_preset("rainbow"), ["env=atari16,ALE/Zaxxon-v5"], ())[0]
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


SPACE = ["algorithm.learning-rate=log(1e-4,1e-2)", "network.hidden-sizes={(64,64),(256,)}"]


def spaced(*arguments, space=SPACE):
    return parse_sweep(["cartpole", *(word for text in space for word in ("--space", text)), *arguments])


def test_zipped_lists_pair():
    zipped = ["--zip", RATES, "--zip", "network.hidden-sizes=(64,64),(32,)"]
    overrides = [member.overrides for member in parse_sweep(["cartpole", *zipped]).members()]
    assert overrides == [
        {"algorithm.learning-rate": 1e-3, "network.hidden-sizes": (64, 64)},
        {"algorithm.learning-rate": 3e-3, "network.hidden-sizes": (32,)},
    ]


def test_samples_are_the_same_for_the_same_seed_only():
    drawn = [
        [member.overrides for member in spaced("--sample", "5", "--seed", seed).members()] for seed in ("0", "0", "1")
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    assert len({item["algorithm.learning-rate"] for item in drawn[0]}) == 5
    configs = [member.config for member in spaced("--sample", "5").members()]
    assert [config.algorithm.learning_rate for config in configs] == [
        item["algorithm.learning-rate"] for item in drawn[0]
    ]


def test_grid_zip_samples_and_seeds_multiply():
    listed = ["--grid", "algorithm.entropy-cost=0.1,0.2", "--zip", "algorithm.discount=0.9,0.8", "--zip"]
    sweep = spaced(*listed, "algorithm.baseline-cost=0.5,1", "--sample", "3", "--seeds", "2")
    members = sweep.members()
    assert len(members) == 2 * 2 * 3 * 2
    assert len({member.config.seed for member in members}) == len(members)
    points = [tuple(member.overrides.values()) for member in members]
    drawn = [tuple(member.overrides.values()) for member in spaced("--sample", "3").members()]
    expected = [
        (entropy, discount, baseline, *draw)
        for entropy in (0.1, 0.2)
        for discount, baseline in ((0.9, 0.5), (0.8, 1.0))
        for draw in drawn
        for _ in range(2)
    ]
    assert points == expected
    assert sweep_from_json({"sweep": sweep.to_json()}, sweep.base) == sweep


def test_a_draw_that_breaks_a_rule_at_one_point_is_no_mistake_where_a_tuner_chooses():
    space = ["algorithm.rho-clip=uniform(1,4)"]
    words = ["--grid", "algorithm.c-clip=1,2", "--sample", "8"]
    with pytest.raises(ConfigError, match="must be at most rho-clip"):
        spaced(*words, space=space).members()
    members = spaced(*words, "--tuner", "optuna", "--concurrent", "4", space=space).members()
    assert len(members) == 16
    assert all(member.config.algorithm.c_clip <= member.config.algorithm.rho_clip for member in members)
    never = ["--grid", "algorithm.c-clip=1,5", "--sample", "8", "--tuner", "optuna", "--concurrent", "4"]
    with pytest.raises(ConfigError, match="must be at most rho-clip"):
        spaced(*never, space=space).members()


def test_presets_may_be_drawn_and_zipped():
    arguments = ["--zip", "preset=cartpole,acer-cartpole", "--zip", "algorithm.discount=0.9,0.8"]
    configs = [member.config for member in parse_sweep(["cartpole", *arguments]).members()]
    assert [(config.algorithm.name, config.algorithm.discount) for config in configs] == [("laser", 0.9), ("acer", 0.8)]
    drawn = spaced("--sample", "20", space=["preset={cartpole,acer_cartpole}"]).members()
    assert {member.config.algorithm.name for member in drawn} == {"laser", "acer"}


def test_a_record_without_zip_and_space_is_read():
    sweep = parse_sweep(["cartpole", "--grid", RATES])
    record = sweep.to_json()
    del record["zip"], record["space"], record["options"]["sample"]
    assert sweep_from_json({"sweep": record}, sweep.base) == sweep


def test_a_record_of_before_even_draws_draws_again_what_it_drew():
    sweep = parse_sweep(["cartpole", "--space", "algorithm.learning-rate=log(1e-4,1e-2)", "--sample", "3"])
    record = sweep.to_json()
    del record["options"]["even_draws"]
    read = sweep_from_json({"sweep": record}, sweep.base)
    assert read.members() != sweep.members()
    assert read.members() == dataclasses.replace(sweep, options=read.options).members()
    assert not read.options.even_draws


def test_more_samples_than_settings_are_warned_of():
    arguments = ["cartpole", "--space", "algorithm.batch-size=integers(16,18)", "--sample"]
    keys = [[item.key for item in parse_sweep([*arguments, num]).warnings()] for num in ("3", "4")]
    assert keys[1] == [*keys[0], "sample"]


def test_a_resumed_sweep_keeps_its_space(tmp_path):
    base = dataclasses.replace(load_preset("cartpole"), run_dir=tmp_path / "run")
    sweep = dataclasses.replace(spaced("--sample", "3"), base=base)
    with open_run(base, ["test"], facts={"sweep": sweep.to_json()}):
        pass
    resume = ["--resume", "--run-dir", str(tmp_path / "run")]
    again = spaced(*resume, space=[])
    assert again.members()[2].overrides == sweep.members()[2].overrides
    assert spaced(*resume, "--sample", "3").space == sweep.space, "the same space again is no other space"
    for arguments, says in (
        (["--space", "algorithm.learning-rate=log(1e-4,1e-3)"], "space: a resumed sweep keeps its own"),
        (["--sample", "4"], "sample: a resumed sweep keeps its own"),
        (["--no-even-draws"], "even-draws: a resumed sweep keeps its own"),
        (["--tuner", "optuna"], "tuner: a resumed sweep keeps its own"),
        (["--algorithm.learning-rate", "0.5"], "algorithm.learning-rate: has no effect: each member of the resumed"),
        (["--seed", "1"], "seed: a resumed sweep keeps its own; leave it out"),
        (["--zip", RATES], "zip: a resumed sweep keeps its own"),
    ):
        (found,) = mistakes(*resume, *arguments)
        assert found.startswith(says)


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
        (["--zip"], "zip: needs a value"),
        (["--zip", RATES, "--zip", "seed=1,2,3"], "zip: algorithm.learning-rate lists 2 and seed lists 3 values"),
        (["--zip", RATES, "--zip", "seed=1,2,x"], "seed: in --zip: must be a whole number, got 'x'"),
        (["--zip", "seed=1,1", "--zip", "steps=5000,5000"], "zip: seed, steps list 1,5000 twice"),
        (["--zip", RATES, "--grid", RATES], "zip: algorithm.learning-rate has values in --grid too"),
        (["--zip", "algorithm.discount=1.5,0.9"], "algorithm.discount: must be in"),
        (["--zip", "run-dir=a,b"], "zip: run-dir has one value for the whole sweep"),
        (["--zip", "unroll-length=8,16"], "zip: unroll-length cannot differ: the members share one replay"),
        (["--grid", "env=CartPole-v1,Acrobot-v1"], "grid: env cannot differ: the members share one replay"),
        (["--grid", "init-replay=minari:aa/one-v0,minari:aa/two-v0"], "grid: init-replay cannot differ"),
        (["--grid", "offline=minari:aa/one-v0,minari:aa/two-v0"], "grid: offline cannot differ"),
        (["--grid", RATES, "--sample", "5"], "sample: has no effect without --space"),
        (["--space", SPACE[0]], "sample: is missing: a space needs a number of settings to draw; use --sample 20"),
        (["--space", SPACE[0], "--sample", "-1"], "sample: must be in [0, 4096], got -1"),
        (["--space", SPACE[0], "--sample", "x"], "sample: must be a whole number, got 'x'"),
        (["--space", SPACE[0], "--sample", "1000", "--seeds", "5"], "sample: makes 5,000 members, and a sweep has at"),
        (
            ["--space", "replay.capacity-steps=integers(10000,20000)", "--sample", "3"],
            "space: replay.capacity-steps cann",
        ),
        (["--space", "unroll-length={8,16}", "--sample", "3"], "space: unroll-length cannot differ"),
        (
            ["--space", "quiet={true,false}", "--sample", "3"],
            "space: quiet has one value for the whole sweep; use --quiet",
        ),
        (
            ["--space", "seed={1,2}", "--sample", "2", "--seeds", "2"],
            "space: seed lists the seeds, and so does --seeds",
        ),
        (
            ["--space", SPACE[0], "--sample", "3", "--algorithm.learning-rate", "1"],
            "space: algorithm.learning-rate also",
        ),
        (
            ["--space", SPACE[0], "--sample", "3", "--zip", RATES],
            "space: algorithm.learning-rate has values in --zip too",
        ),
        (["--space", "algorithm.c-clip=uniform(1.5,3)", "--sample", "9"], "algorithm.c-clip: must be at most"),
        (["--grid", RATES, "--concurrent", "-1"], "concurrent: must be in [0, 4096], got -1"),
        (["--grid", RATES, "--concurrent", "1", "--pbt"], "concurrent: members that wait cannot be compared"),
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


def test_mistakes_of_a_space_are_told_with_all_else():
    found = mistakes(
        *["--space", "algorithm.learning-rate=log(1e-2,1e-4)", "--space", "algorithm.entropi-cost=uniform(0,1)"],
        *["--space", "network.hidden-sizes={}", "--zip", "steps=x", "--grid", "seed=", "--sample", "0", "--sedes", "5"],
    )
    assert [line.partition(":")[0] for line in found] == [
        *["sedes", "grid", "steps", "algorithm.entropi-cost", "space", "space"]
    ], found


def test_own_replays_may_differ_in_size():
    sweep = parse_sweep(["cartpole", "--no-share-replay", "--grid", "replay.capacity-steps=8000,16000"])
    assert [member.config.replay.capacity_steps for member in sweep.members()] == [8000, 16000]


def test_a_broken_rule_of_one_point_is_told_once():
    base = dataclasses.replace(load_preset("cartpole"), steps=1000)
    sweep = SweepConfig(base, {"algorithm.c-clip": [1.0, 2.0], "algorithm.entropy-cost": [0.1, 0.2]})
    with pytest.raises(ConfigError) as caught:
        sweep.members()
    assert [problem.key for problem in caught.value.problems] == ["algorithm.c-clip"]
