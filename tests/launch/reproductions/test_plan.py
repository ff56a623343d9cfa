"""Runs of figures: commands, scale, and mistakes before anything starts."""

import dataclasses
import sys

import pytest

from laser.config import ConfigError
from launch.__main__ import main
from launch.command_line.arguments import parse_sweep, parse_train
from launch.presets import load_preset
from launch.reproductions import plan
from launch.reproductions.catalogue import find_names, load_figure
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.plan import find_missing_games, make_plan, make_tuning, restrict, scaled
from launch.reproductions.results import how_small

WITH_RUNS = [name for name in find_names() if load_figure(name).has_runs]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", WITH_RUNS)
def test_the_command_line_takes_every_arms_command_and_means_the_same(name, small, capsys):
    options = ReproduceOptions(small=small, games=1, seeds=1)
    figure = load_figure(name)
    runs = make_plan(figure, options)
    assert [run.arm for run in runs] == [arm.label for arm in figure.arms]
    for run in runs:
        command, *words = run.words
        parsed = parse_train(words) if command == "train" else parse_sweep(words).base
        assert parsed == run.config
        if command == "sweep":
            assert len(parse_sweep(words).members()) == run.num_members


def test_a_dry_run_prints_the_commands_and_starts_nothing(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["reproduce", "all", "--dry-run", "--small", "--games", "1", "--seeds", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("# ")]
    assert not list(tmp_path.iterdir())
    assert all(line.startswith(("# ", "laser train ", "laser sweep ")) for line in lines)
    assert len([line for line in lines if line.startswith("# ")]) == len([n for n in WITH_RUNS if n[:7] != "claims/"])


def test_a_scale_shortens_steps_replay_and_warm_up():
    config = load_preset("ddpg")
    assert scaled(config, 0.01) == {"steps": 100_000, "replay.capacity-steps": 5243, "replay.min-steps": 2621}
    (run, *_) = make_plan(load_figure("refer/figure-2"), ReproduceOptions(scale=0.01, games=1, seeds=1))
    assert run.config.bucket_frames == 2_000, "buckets shrink with the run"
    assert list(run.words[run.words.index("--bucket-frames") :][:2]) == ["--bucket-frames", "2000"]
    assert (run.config.steps, run.config.replay.capacity_steps, run.config.replay.min_steps) == (100_000, 5243, 2621)
    assert "--replay.capacity-steps 5243" in str(run)


def test_the_replay_still_holds_a_batch_and_the_warm_up_still_fills_one():
    config = load_preset("ddpg")
    least = scaled(config, 1e-5)
    assert least["replay.capacity-steps"] == least["replay.min-steps"] == 128
    assert scaled(config, 1.0)["replay.capacity-steps"] == 2**19
    atari = load_preset("atari")
    assert scaled(atari, 1e-6)["replay.capacity-steps"] == 160 * 19


def test_annealing_per_step_follows_the_length():
    def of(**options):
        (run, *_) = make_plan(load_figure("refer/figure-2"), ReproduceOptions(games=1, seeds=1, **options))
        return run.config.algorithm.refer.annealing

    assert of() == pytest.approx(5e-7)
    assert of(scale=0.01) == pytest.approx(5e-5)
    assert of(small=True) == pytest.approx(5.0 / 8_000)


def test_a_scale_that_leaves_less_than_the_warm_up_is_refused_with_one_that_does_not():
    with pytest.raises(ConfigError) as caught:
        make_plan(load_figure("refer/figure-3"), ReproduceOptions(scale=1e-5))
    (problem,) = caught.value.problems
    assert str(problem) == (
        "refer/figure-3: scale: 1e-05 leaves 100 env steps, and learning begins after 192; "
        "use at least 3.9e-05, or --small"
    )
    assert make_plan(load_figure("refer/figure-3"), ReproduceOptions(scale=3.9e-5))


def test_games_and_seeds_take_the_first():
    runs = make_plan(load_figure("ners/table-2"), ReproduceOptions(games=2, seeds=3))
    assert len(runs) == 4 * 2 * 3
    assert {run.game for run in runs} == {"ALE/Alien-v5", "ALE/Amidar-v5"}
    assert {run.seed for run in runs} == {1, 2, 3}
    assert len(make_plan(load_figure("ners/table-2"), ReproduceOptions())) == 4 * 16 * 5


def test_an_arm_that_is_a_sweep_counts_its_members():
    runs = make_plan(load_figure("laser/figure-1"), ReproduceOptions(games=1, seeds=1))
    assert [(run.num_members, run.config.steps) for run in runs] == [(9, 50_000_000), (9, 12_500_000), (9, 50_000_000)]
    assert runs[1].words[0] == "sweep"
    assert "--no-share-replay" in runs[1].words
    assert "--share-replay" in runs[2].words


def test_games_that_are_not_installed_are_named_once(monkeypatch):
    monkeypatch.setitem(sys.modules, "deepmind_lab", None)  # other tests put a stand-in there
    plan._environment_of.cache_clear()
    figure = load_figure("laser/figure-3")
    found = list(find_missing_games(figure, make_plan(figure, ReproduceOptions(games=1, seeds=2)), ReproduceOptions()))
    assert len(found) == 1
    assert str(found[0]).startswith("laser/figure-3: dmlab30: ")
    assert "--small" in str(found[0])
    small = make_plan(figure, ReproduceOptions(small=True))
    assert list(find_missing_games(figure, small, ReproduceOptions(small=True))) == []


def test_another_environment_is_measured_by_what_it_records():
    figure = load_figure("laser/figure-4")
    assert figure.curves[0].metric == "buckets/normalised_median"
    for env, metric in (("MinAtar/Breakout-v1", "charts/mean_return"), ("dmlab30", "buckets/normalised_median")):
        assert restrict(figure, ReproduceOptions(env=env)).curves[0].metric == metric


def test_agents_that_cannot_play_a_game_are_named_once():
    figure = restrict(load_figure("ners/table-3"), ReproduceOptions(preset="dqn_cartpole"))
    options = ReproduceOptions(preset="dqn_cartpole")
    found = list(find_missing_games(figure, make_plan(figure, options), options))
    assert found
    assert len(set(map(str, found))) == len(found)
    assert all("needs Discrete actions" in str(item) and "--small" not in str(item) for item in found)


def test_samplers_that_cannot_draw_for_an_agent_are_named_before_anything_starts():
    options = ReproduceOptions(small=True, preset="cartpole", env="CartPole-v1")
    figure = restrict(load_figure("ners/table-3"), options)
    found = [str(each) for each in find_missing_games(figure, make_plan(figure, options), options)]
    assert any("ners does not draw unrolls, which laser learns from" in each for each in found)
    assert not any("use --small" in each for each in found)


def test_the_smallest_size_is_no_remedy_for_who_uses_it():
    options = ReproduceOptions(small=True, env="Nonesuch-v1")
    figure = restrict(load_figure("ners/table-3"), options)
    found = [str(each) for each in find_missing_games(figure, make_plan(figure, options), options)]
    assert found
    assert not any("use --small" in each for each in found)


def test_the_figures_that_cannot_be_run_say_why(capsys):
    for name, why in (("ners/figure-2", "a diagram"), ("reactor/table-4", "human starts")):
        assert main(["reproduce", name]) == 2
        captured = capsys.readouterr()
        assert captured.err.startswith(f"error: {name}: ")
        assert why in captured.err
        assert len(captured.err.splitlines()) == 1


def test_tuning_has_seeds_and_settings_of_its_own_and_the_comparison_takes_the_best():
    figure, options = load_figure("claims/replay-fraction"), ReproduceOptions(seeds=2, games=1)
    tuning = make_tuning(figure, options)
    assert len(tuning) == 5 * 3 * 2
    assert {run.seed for run in tuning} == {1_000, 1_001}
    assert {run.config.algorithm.learning_rate for run in tuning} == {1e-3, 3e-4, 3e-3}
    chosen = {("7/8 replayed", "mini/SparseCatch3-v0"): {"algorithm.learning-rate": 3e-3}}
    runs = make_plan(figure, options, chosen)
    rates = {run.arm: run.config.algorithm.learning_rate for run in runs}
    assert (rates["7/8 replayed"], rates["fresh only"]) == (3e-3, 1e-3)
    assert not {run.name for run in tuning} & {run.name for run in runs}
    assert make_tuning(figure, ReproduceOptions(small=True)) == []
    assert make_tuning(load_figure("refer/figure-2"), options) == []


def test_games_may_have_lengths_of_their_own():
    runs = make_plan(load_figure("claims/replay-fraction"), ReproduceOptions(seeds=1))
    assert {run.game: run.config.steps for run in runs} == {"mini/SparseCatch3-v0": 40_000, "mini/KeyDoor4-v0": 30_000}


def test_only_some_arms_and_another_environment():
    options = ReproduceOptions(arms="NERS ;PER", env="LunarLanderContinuous-v3", seeds=1)
    figure = restrict(load_figure("claims/ners-returns"), options)
    runs = make_plan(figure, options)
    assert {run.arm for run in runs} == {"SAC, NERS", "SAC, PER", "TD3, NERS", "TD3, PER"}
    assert {(run.game, run.config.steps) for run in runs} == {("LunarLanderContinuous-v3", 20_000)}
    assert figure.rules == ()
    both = restrict(load_figure("claims/ners-returns"), ReproduceOptions(arms="SAC, NERS;SAC, uniform"))
    assert [rule.than for rule in both.rules] == ["SAC, uniform"]
    with pytest.raises(
        ConfigError, match="arms: no label of ners/table-2 holds 'SAC'; they are NERS; RANDOM; PER; ERO"
    ):
        restrict(load_figure("ners/table-2"), ReproduceOptions(arms="SAC"))
    with pytest.raises(ConfigError) as raised:
        restrict(load_figure("ners/table-2"), ReproduceOptions(arms="SAC;PER;TD3"))
    assert [problem.wrong for problem in raised.value.problems] == [
        f"no label of ners/table-2 holds {text!r}" for text in ("SAC", "TD3")
    ]


def test_a_whole_label_names_its_arm_alone():
    figure = restrict(load_figure("claims/acer-replay"), ReproduceOptions(arms="ratio 4; ratio 8"))
    assert [arm.label for arm in figure.arms] == ["ratio 4", "ratio 8"]
    figure = restrict(load_figure("claims/acer-replay"), ReproduceOptions(arms="no trust"))
    assert [arm.label for arm in figure.arms] == ["ratio 4, no trust region", "ratio 8, no trust region"]


def test_a_sweep_over_presets_is_scaled_without_the_warm_up_that_its_presets_decide():
    runs = make_plan(load_figure("claims/mixed-sweep"), ReproduceOptions(scale=0.5, seeds=1))
    assert [(run.num_members, run.config.steps) for run in runs] == [(3, 10_000)] * 2
    assert parse_sweep(runs[1].words[1:]).members()[0].config.steps == 10_000


def test_members_of_short_sweeps_are_compared_before_they_end():
    for scale, burn_in in ((1.0, 800), (0.25, 200)):
        (*_, run) = make_plan(
            load_figure("laser/figure-3"), ReproduceOptions(small=True, scale=scale, seeds=1, games=1)
        )
        assert "--pbt" in run.words
        assert parse_sweep(run.words[1:]).pbt.burn_in == burn_in
    (*_, run) = make_plan(load_figure("laser/figure-3"), ReproduceOptions(seeds=1))
    pbt = parse_sweep(run.words[1:]).pbt
    assert (pbt.burn_in, pbt.interval, pbt.margin) == (5_000_000, 5_000_000, 0.05)


def test_another_preset_takes_the_place_of_the_figures():
    """Asked for `sac` on Ant, no small pendulum agent may be trained."""
    options = ReproduceOptions(env="Ant-v5", preset="sac", seeds=1)
    figure = restrict(load_figure("claims/ners-ablations"), options)
    runs = make_plan(figure, options)
    assert {run.words[1] for run in runs} == {"sac"}
    assert {run.config.network.hidden_sizes for run in runs} == {load_preset("sac").network.hidden_sizes}
    assert {run.game for run in runs} == {"Ant-v5"}
    assert how_small(figure, options) == "on Ant-v5; with the preset sac; 1 seed instead of 5"


def test_the_replay_of_another_preset_is_not_scaled_and_arms_keep_their_proportion():
    """A replay for MinAtar of 100,000 steps is not one of 200 because the paper's runs are long."""
    options = ReproduceOptions(env="MinAtar/Breakout-v1", preset="minatar", scale=0.002, seeds=1)
    runs = make_plan(restrict(load_figure("laser/figure-1"), options), options)
    assert {run.config.replay for run in runs} == {load_preset("minatar").replay}
    assert {run.config.steps for run in runs} == {100_000, 25_000}
    short = dataclasses.replace(options, scale=0.00004)
    for name, capacities in (("laser/figure-2", {10_000, 30_000, 100_000}), ("laser/figure-4", {30_000, 100_000})):
        runs = make_plan(restrict(load_figure(name), short), short)
        assert {run.config.replay.capacity_steps for run in runs} == capacities
        assert {run.config.replay.min_steps for run in runs} == {load_preset("minatar").replay.min_steps}


def test_the_network_is_that_of_another_preset():
    """The figure's own cannot see its observations."""
    options = ReproduceOptions(env="MinAtar/Breakout-v1", preset="acer_cartpole", scale=0.002, seeds=1)
    runs = make_plan(restrict(load_figure("acer/figure-1"), options), options)
    assert {run.config.network.torso for run in runs} == {load_preset("acer_cartpole").network.torso}
    (torso,) = {run.config.network.torso for run in make_plan(load_figure("acer/figure-1"), ReproduceOptions(games=1))}
    assert torso == "nature_cnn"


def test_arms_with_a_preset_of_their_own_are_scaled_as_without_another():
    arms = "RACER, C = 2;PPO"
    figure = restrict(load_figure("claims/refer-racer"), ReproduceOptions(arms=arms))
    options = ReproduceOptions(preset="ddpg_pendulum", scale=0.1, seeds=1, arms=arms)
    alone = {run.name: run for run in make_plan(figure, dataclasses.replace(options, preset=""))}
    runs = [run for run in make_plan(restrict(figure, options), options) if run.arm == "PPO"]
    assert {run.words[1] for run in runs} == {"ppo_pendulum"}
    assert [run.config.replay for run in runs] == [alone[run.name].config.replay for run in runs]
    assert "with the preset ddpg_pendulum and its replay, but not PPO;" in how_small(figure, options)


def test_a_preset_that_no_arm_takes_is_refused():
    options = ReproduceOptions(preset="sac")
    with pytest.raises(ConfigError) as caught:
        restrict(load_figure("ners/table-1"), options)
    assert str(caught.value) == (
        "preset: has no effect on ners/table-1: each of its arms has a preset of its own; leave it out"
    )


def test_batches_hold_as_many_fresh_unrolls_as_the_preset_of_the_user():
    options = ReproduceOptions(preset="minatar", env="MinAtar/Breakout-v1", scale=0.01, seeds=1)
    minatar = load_preset("minatar").algorithm
    for name in ("laser/figure-1", "laser/figure-2"):
        runs = make_plan(restrict(load_figure(name), options), options)
        online = {run.arm: run.config.algorithm.num_online for run in runs if run.arm != "all replayed"}
        assert set(online.values()) == {minatar.num_online}
    assert {run.arm: run.config.algorithm.batch_size for run in runs}["1/2 replayed"] == 2 * minatar.num_online


def test_every_arm_of_the_papers_makes_as_many_updates_of_fresh_experience():
    for name in ("laser/figure-1", "laser/figure-2", "laser/figure-3", "laser/figure-4"):
        for small in (False, True):
            runs = make_plan(load_figure(name), ReproduceOptions(small=small, seeds=1, games=1))
            assert len({run.config.algorithm.num_online for run in runs if run.arm != "all replayed"}) == 1, name


def test_settings_of_single_games_are_those_of_their_runs():
    runs = make_plan(load_figure("ners/figure-3"), ReproduceOptions(seeds=1))
    intervals = {run.game: run.config.evaluation.interval for run in runs}
    assert intervals == {"SparsePendulum-v0": 200, "LunarLanderContinuous-v3": 1_000, "BipedalWalker-v3": 1_600}


def test_target_networks_are_copied_as_often_in_a_scaled_run():
    figure = load_figure("reactor/table-3")
    whole, short = (make_plan(figure, ReproduceOptions(games=1, seeds=1, scale=scale))[0] for scale in (1.0, 0.01))
    assert short.config.algorithm.target_period == round(0.01 * whole.config.algorithm.target_period)


@pytest.mark.parametrize(
    ("options", "wrong"),
    [
        (
            ReproduceOptions(scale=1e-5, seeds=1),
            "laser/figure-2: scale: 1e-05 makes '7/8 replayed, 10M' and '7/8 replayed, 1M' the same runs; "
            "use a larger one, or --arms",
        ),
    ],
)
def test_arms_that_have_become_the_same_are_refused(options, wrong):
    with pytest.raises(ConfigError) as caught:
        make_plan(load_figure("laser/figure-2"), options)
    assert wrong in [str(problem) for problem in caught.value.problems]


def test_a_preset_that_learns_after_the_end_is_named_and_not_a_scale():
    options = ReproduceOptions(small=True, preset="sac")
    figure = load_figure("ners/figure-4")
    with pytest.raises(ConfigError, match=r"preset: sac learns from .* env steps on, and the runs have 3,000"):
        make_plan(restrict(figure, options), options)


def test_only_pairs_of_chosen_arms_are_compared():
    figure = restrict(load_figure("reactor/figure-5"), ReproduceOptions(arms="M1;L1;M5"))
    assert [(pair.arm, pair.than) for pair in figure.pairs] == [("M1", "L1")]


def test_a_warm_up_that_the_figure_names_is_scaled_with_another_preset_too():
    options = ReproduceOptions(preset="dqn_mini", scale=0.1, seeds=1)
    runs = make_plan(restrict(load_figure("claims/per-value-learning"), options), options)
    assert max(run.config.replay.min_steps for run in runs) == 3_000


def test_arms_with_a_preset_of_their_own_keep_it():
    options = ReproduceOptions(preset="ddpg_pendulum", arms="PPO;C = 2", seeds=1)
    runs = make_plan(restrict(load_figure("claims/refer-racer"), options), options)
    assert {run.arm: run.words[1] for run in runs} == {"RACER, C = 2": "ddpg_pendulum", "PPO": "ppo_pendulum"}


def test_an_unknown_preset_is_refused_with_the_nearest():
    options = ReproduceOptions(preset="racr")
    with pytest.raises(ConfigError, match="racer"):
        make_plan(restrict(load_figure("claims/refer-racer"), options), options)
