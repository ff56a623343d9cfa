"""Sweeps tuned by Optuna: choices within the space, a study that others can open, and a search that goes on."""

from __future__ import annotations

import dataclasses
import random
import shutil
import sqlite3
from contextlib import closing, contextmanager

import optuna
import pytest
from optuna.distributions import FloatDistribution
from small_sweeps import SMALL
from stopped_sweeps import stopped

from laser.config import ConfigError
from launch.command_line.arguments import parse_sweep
from launch.errors import LaunchError, NothingToResumeError, OutputError
from launch.presets import change, load_preset
from launch.records.run_directory import open_run
from launch.settings.seeds import seed_for
from launch.sweeps import optuna_search
from launch.sweeps.halving import PrunerConfig, Rungs
from launch.sweeps.optuna_search import STUDY, OptunaSearch
from launch.sweeps.search_space import Choice, Range
from launch.sweeps.sweep import sweep
from launch.sweeps.sweep_config import SweepConfig
from launch.sweeps.sweep_options import SweepOptions
from launch.sweeps.tuning import STUDY_NAME

SPACE = {
    "algorithm.learning-rate": Range("log", 1e-4, 1e-2),
    "algorithm.entropy-cost": Range("uniform", 0.0, 0.05),
    "algorithm.batch-size": Range("integers", 16, 18),
    "network.hidden-sizes": Choice(((8,), (8, 9))),
}


def search(path, seed=0, resume=False, space=SPACE, num_settings=40, steps=1000):
    return OptunaSearch(space, {"algorithm.batch-size"}, path / STUDY_NAME, seed, steps, num_settings, resume)


@contextmanager
def opened(path, study=STUDY):
    storage = optuna.storages.RDBStorage(f"sqlite:///{path / STUDY_NAME}")
    yield optuna.load_study(study_name=study, storage=storage)
    storage.engine.dispose()


def trials(path, study=STUDY):
    with opened(path, study) as found:
        return found.trials


@pytest.mark.parametrize(("num_settings", "num_random"), [(8, 2), (20, 5), (100, 10)])
def test_a_quarter_of_the_settings_at_most_ten_is_random_whatever_the_scores(tmp_path, num_settings, num_random):
    drawn = []
    for sign in (1.0, -1.0):
        folder = tmp_path / str(sign)
        folder.mkdir()
        with search(folder, num_settings=num_settings) as each:
            for setting in range(num_random + 3):
                each.values(setting, {})
                each.tell(setting, sign * setting, None)
            drawn.append([each.values(setting, {}) for setting in range(num_random + 3)])
    same = [one == other for one, other in zip(*drawn, strict=True)]
    assert all(same[:num_random])
    assert not any(same[num_random + 1 :]), "scores of opposite order lead to the same choices"


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
def test_settings_that_train_meanwhile_count_as_bad_ones(tmp_path):
    rate = {"algorithm.learning-rate": SPACE["algorithm.learning-rate"]}
    with search(tmp_path, space=rate, num_settings=8) as each:
        for setting in range(6):
            each.values(setting, {})
            each.tell(setting, -abs(setting - 3.0), None)
        chosen = [each.values(setting, {})["algorithm.learning-rate"] for setting in range(6, 12)]

    def by_optuna(counts_running):
        study = optuna.create_study(direction="maximize")
        found = []
        for number in range(12):
            seed = seed_for(0, "tuner", number)
            study.sampler = optuna.samplers.TPESampler(seed=seed, n_startup_trials=2, constant_liar=counts_running)
            trial = study.ask({"rate": FloatDistribution(1e-4, 1e-2, log=True)})
            found.append(trial.params["rate"])
            if number < 6:
                study.tell(trial, -abs(number - 3.0))
        return found[6:]

    assert chosen == pytest.approx(by_optuna(True), rel=1e-5)
    assert chosen != pytest.approx(by_optuna(False), rel=1e-5)


@pytest.mark.parametrize("left", ["garbage", "half", "nothing"])
def test_a_damaged_study_is_one_line(tmp_path, left):
    with search(tmp_path) as each:
        each.values(0, {})
    path = tmp_path / STUDY_NAME
    whole = path.read_bytes()
    path.write_bytes({"garbage": b"no database " * 1000, "half": whole[: len(whole) // 2], "nothing": b""}[left])
    with pytest.raises(NothingToResumeError, match="the tuner's study, cannot be used") as caught:
        search(tmp_path, resume=True)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("has_members", [False, True])
def test_a_study_that_lost_its_settings_is_refused_and_one_that_never_had_any_begins(tmp_path, has_members):
    base = dataclasses.replace(change(load_preset("cartpole"), SMALL), steps=200, run_dir=tmp_path / "run")
    options = SweepOptions(sample=2, concurrent=1, tuner="optuna")
    config = SweepConfig(base, {}, options, space={"algorithm.learning-rate": SPACE["algorithm.learning-rate"]})
    sweep(config)
    (tmp_path / "run" / STUDY_NAME).write_bytes(b"")
    again = dataclasses.replace(config, base=dataclasses.replace(base, resume=True, steps=400))
    if has_members:
        with pytest.raises(NothingToResumeError, match="it holds no study"):
            sweep(again)
        return
    shutil.rmtree(tmp_path / "run" / "members")  # as if it had been killed before its first member
    assert len(sweep(again).members) == 2


def test_values_lie_in_the_space_and_depend_on_the_seed_only(tmp_path):
    drawn = []
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        (tmp_path / name).mkdir()
        with search(tmp_path / name, seed) as each:
            drawn.append([each.values(setting, {}) for setting in range(6)])
            assert each.values(3, {}) == drawn[-1][3], "a setting keeps its values"
    assert drawn[0] == drawn[1] != drawn[2]
    for values in drawn[0]:
        rate, cost, batch, sizes = (values[key] for key in SPACE)
        assert 1e-4 <= rate <= 1e-2
        assert rate == float(f"{rate:.6g}")
        assert 0.0 <= cost <= 0.05
        assert batch in (16, 17, 18)
        assert isinstance(batch, int)
        assert sizes in ((8,), (8, 9))
    assert len({values["algorithm.learning-rate"] for values in drawn[0]}) == 6


def test_it_finds_better_settings_than_it_began_with(tmp_path):
    space = {"x": Range("uniform", 0.0, 1.0), "y": Range("uniform", 0.0, 1.0)}
    scores = []
    with search(tmp_path, space=space) as each:
        for setting in range(40):
            values = each.values(setting, {})
            scores.append(-((values["x"] - 0.3) ** 2) - (values["y"] - 0.8) ** 2)
            each.tell(setting, scores[-1], None)
    assert sum(scores[-20:]) / 20 > sum(scores[:10]) / 10 + 0.1


def test_each_point_of_a_grid_has_a_study_of_its_own(tmp_path):
    space, best = {"x": Range("uniform", 0.0, 1.0)}, {"a": 0.9, "b": 0.1}
    points = [{"widths": (8, 9), "kind": kind} for kind in "ab"]

    def choose(each, settings):
        for setting in settings:
            given = points[setting % 2]
            x = each.values(setting, given)["x"]
            assert each.values(setting, given) == {"x": x}
            each.tell(setting, -abs(x - best[given["kind"]]) - 100.0 * (setting % 2), None)

    with search(tmp_path, space=space) as each:
        choose(each, range(30))
    with search(tmp_path, space=space, resume=True) as each:
        assert each.is_told(29)
        choose(each, range(30, 60))
    for kind, goal in best.items():
        found = trials(tmp_path, f"{STUDY}, widths=8,9, kind={kind}")
        assert len(found) == 30
        assert sum(abs(trial.params["x"] - goal) for trial in found[-5:]) / 5 < 0.15, "it does not learn"


def test_the_study_says_how_each_setting_ended(tmp_path):
    with search(tmp_path) as each:
        for setting in range(5):
            each.values(setting, {})
        each.tell(0, 5.0, None)
        each.tell(1, 3.0, 100)
        each.tell(2, None, None)
        each.tell(3, float("nan"), None)
        assert [each.is_told(setting) for setting in range(6)] == [True] * 4 + [False] * 2
    found = trials(tmp_path)
    assert [trial.state.name for trial in found] == ["COMPLETE", "PRUNED", "FAIL", "FAIL", "RUNNING"]
    assert [trial.value for trial in found] == [5.0, 3.0, None, None, None]
    assert found[1].intermediate_values == {100: 3.0}
    assert [trial.user_attrs["setting"] for trial in found] == list(range(5))


def test_an_interrupted_search_goes_on_as_if_it_had_not_been(tmp_path):
    for name in ("whole", "parts"):
        (tmp_path / name).mkdir()
    with search(tmp_path / "whole") as whole:
        values = []
        for setting in range(14):  # beyond Optuna's ten random ones
            values.append(whole.values(setting, {}))
            if setting != 5:
                whole.tell(setting, float(setting), None)
    again = []
    for begin, end in ((0, 6), (6, 11), (11, 14)):
        with search(tmp_path / "parts", resume=begin > 0) as parts:
            assert [parts.values(setting, {}) for setting in range(begin)] == again
            for setting in range(begin, end):
                again.append(parts.values(setting, {}))
                if setting != 5:
                    parts.tell(setting, float(setting), None)
    assert again == values


def test_rejected_settings_are_chosen_anew_and_not_taken_up_again(tmp_path):
    with search(tmp_path) as each:
        first = each.values(0, {})
        each.reject(0)
    with search(tmp_path, resume=True) as again:
        second = again.values(0, {})
        assert second != first
        assert not again.is_told(0)
    assert [trial.state.name for trial in trials(tmp_path)] == ["FAIL", "RUNNING"]


def test_a_trial_that_no_setting_got_before_a_kill_has_failed(tmp_path):
    with search(tmp_path) as each:
        each.values(0, {})
    with opened(tmp_path) as study:
        study.ask()
    with search(tmp_path, resume=True) as again:
        again.values(1, {})
    assert [trial.state.name for trial in trials(tmp_path)] == ["RUNNING", "FAIL", "RUNNING"]


def test_a_search_that_is_resumed_with_more_steps_compares_none_of_the_old_scores(tmp_path):
    """A setting that scored 30 after 1,000 env steps is no worse than one with 60 after 3,000."""
    with search(tmp_path) as each:
        before = [each.values(setting, {}) for setting in range(3)]
        each.tell(0, 30.0, None)
        each.tell(1, 10.0, 256)
    for _ in range(2):  # it may be resumed again, with as many steps
        with search(tmp_path, resume=True, steps=3000) as again:
            assert [again.values(setting, {}) for setting in range(3)] == before
            told = [again.is_told(setting) for setting in range(3)]
    assert told == [False] * 3
    with search(tmp_path, resume=True, steps=3000) as again:
        again.values(0, {})
        again.tell(0, 60.0, None)
        again.tell(1, 10.0, 256)
        assert again.is_told(0)
        new = again.values(3, {})
    assert [trial.value for trial in trials(tmp_path)[:1]] == [30.0]
    found = trials(tmp_path, f"{STUDY}, env-steps=3000")
    assert [(trial.state.name, trial.value) for trial in found[:2]] == [("COMPLETE", 60.0), ("PRUNED", 10.0)]
    assert [trial.user_attrs["setting"] for trial in found] == [0, 1, 2, 3]
    with search(tmp_path, resume=True, steps=3000) as again:
        assert again.values(3, {}) == new
        assert again.is_told(0)


def test_a_setting_that_failed_is_scored_once_it_has_been_trained(tmp_path):
    with search(tmp_path) as each:
        before = each.values(0, {})
        each.tell(0, None, None)
    with search(tmp_path, resume=True) as again:
        assert again.values(0, {}) == before
        assert not again.is_told(0)
        again.tell(0, 5.0, None)
    assert [(trial.state.name, trial.value) for trial in trials(tmp_path)] == [("FAIL", None), ("COMPLETE", 5.0)]


def test_any_path_holds_the_study(tmp_path):
    folder = tmp_path / "a?b#c%20d"
    folder.mkdir()
    with search(folder) as each:
        before = each.values(0, {})
    assert [path.name for path in tmp_path.iterdir()] == [folder.name]
    with search(folder, resume=True) as again:
        assert again.values(0, {}) == before


def test_a_study_that_another_process_holds_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(optuna_search, "_PATIENCE_S", 0.1)
    with search(tmp_path) as each:
        each.values(0, {})
        with closing(sqlite3.connect(tmp_path / STUDY_NAME, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            for call in (lambda: each.is_told(0), lambda: each.tell(0, 1.0, None), lambda: each.values(1, {})):
                with pytest.raises(OutputError, match="database is locked; end the process that holds it, then cont"):
                    call()
            other.execute("ROLLBACK")
        each.tell(0, 1.0, None)


def test_a_study_that_is_gone_is_named(tmp_path):
    with pytest.raises(NothingToResumeError, match=r"optuna\.db, the tuner's study, is missing"):
        search(tmp_path, resume=True)


def test_a_study_that_cannot_be_written_is_one_line(tmp_path):
    with search(tmp_path) as each:
        each.values(0, {})
        (tmp_path / STUDY_NAME).write_bytes(b"no database" * 1000)
        with pytest.raises(LaunchError, match=r"optuna\.db: .*--resume"):
            each.tell(0, 1.0, None)


@pytest.mark.parametrize("reduction", [2, 3, 4])
def test_the_pruner_decides_as_optuna_does(reduction):
    source, rungs = random.Random(reduction), Rungs(reduction, {number: number for number in range(40)})
    study = optuna.create_study(
        direction="maximize", pruner=optuna.pruners.SuccessiveHalvingPruner(1, reduction_factor=reduction)
    )
    for number in range(40):
        trial = study.ask()
        for step in (1, reduction, reduction**2):
            score = float(source.randrange(30))
            trial.report(score, step)
            rungs.leave(number, step, score)
            (verdict,) = rungs.judge(number, [])
            assert verdict.goes_on is not trial.should_prune()
            if not verdict.goes_on:
                break
    assert 0 < len(rungs.pruned) < 40


def tuned(path, seeds=1, sample=4, concurrent=2, share_replay=True, first_rung=300, **changes):
    base = dataclasses.replace(change(load_preset("cartpole"), SMALL | changes), run_dir=path)
    options = SweepOptions(
        seeds=seeds, sample=sample, share_replay=share_replay, concurrent=concurrent, tuner="optuna", pruner="asha"
    )
    space = {key: SPACE[key] for key in ("algorithm.learning-rate", "network.hidden-sizes")}
    return SweepConfig(base, {}, options, space=space, pruner=PrunerConfig(first_rung=first_rung, reduction=2))


@pytest.mark.parametrize("schedule", ["lockstep", "free"])
def test_members_train_what_the_study_chose_and_it_hears_their_scores(tmp_path, schedule):
    steps = 1500 if schedule == "lockstep" else 8000
    result = sweep(tuned(tmp_path / "run", seeds=2, schedule=schedule, steps=steps, first_rung=steps // 3))
    found = trials(tmp_path / "run")
    assert len(found) == 4
    pruned = 0
    for trial in found:
        members = result.members[2 * trial.number : 2 * trial.number + 2]
        assert members[0].overrides == members[1].overrides
        rate = members[0].overrides["algorithm.learning-rate"]
        assert rate == pytest.approx(trial.params["algorithm.learning-rate"], rel=1e-5)
        assert members[0].seed != members[1].seed
        if members[0].pruned:
            pruned += 1
            assert (trial.state.name, trial.value) == ("PRUNED", members[0].pruned.score)
        else:
            assert trial.value == pytest.approx(sum(member.result.mean_return for member in members) / 2)
    assert pruned or schedule == "free"


def test_a_tuned_lockstep_sweep_goes_on_as_if_it_had_not_been_interrupted(tmp_path, monkeypatch):
    values = {"steps": 1000, "sample": 5, "share_replay": False, "checkpoint_replay": True}
    whole = sweep(tuned(tmp_path / "whole", **values))
    stopped(tuned(tmp_path / "parts", **values), monkeypatch, member=2, env_steps=100)
    again = sweep(tuned(tmp_path / "parts", **values, resume=True))
    assert [member.overrides for member in whole.members] == [member.overrides for member in again.members]
    ends = [[(trial.state, trial.value) for trial in trials(tmp_path / name)] for name in ("whole", "parts")]
    assert ends[0] == ends[1]


SPACED = ["--space", "algorithm.learning-rate=log(1e-4,1e-2)"]
TUNED = [*SPACED, "--sample", "8", "--tuner", "optuna", "--concurrent", "2"]


@pytest.mark.parametrize(
    ("words", "mistake"),
    [
        ([*TUNED, "--pbt", "--concurrent", "0"], "tuner: population based training changes"),
        (["--seeds", "4", "--tuner", "optuna"], "tuner: has nothing to choose"),
        ([*TUNED, "--grid", "num-envs=1,2"], "tuner: num-envs is no setting of learning"),
        ([*TUNED, "--grid", "seed=1,2"], "tuner: seed is no setting of learning"),
        ([*TUNED, "--grid", "algorithm.entropy-cost=0.1,0.2", "--concurrent", "16"], "concurrent: must leave members"),
        (
            [*TUNED, "--no-share-replay", "--space", "env={CartPole-v1,Acrobot-v1}"],
            "space: env is no setting of learning",
        ),
        ([*TUNED, "--space", "num-actors={1,2}"], "space: num-actors is no setting of learning"),
        ([*TUNED, "--concurrent", "0"], "concurrent: must leave members waiting"),
        ([*TUNED, "--concurrent", "8"], "concurrent: must leave members waiting"),
        ([*TUNED, "--tuner", "skopt"], "tuner: must be one of random, optuna"),
        ([*TUNED, "--score", "evaluation", "--evaluation.interval", "0"], "score: is evaluation, but"),
        ([*TUNED, "--steps", "5000", "--evaluation.interval", "5000"], "score: takes evaluations, and the first one"),
    ],
)
def test_what_makes_no_sense_is_refused_in_one_line(words, mistake):
    with pytest.raises(ConfigError) as caught:
        parse_sweep(["cartpole", *words])
    assert str(caught.value.problems[0]).startswith(mistake)


def test_a_key_that_changes_the_use_of_a_shared_replay_is_refused_before_anything_starts(tmp_path):
    config = tuned(tmp_path / "run")
    config = dataclasses.replace(config, space=config.space | {"algorithm.batch-size": SPACE["algorithm.batch-size"]})
    with pytest.raises(ConfigError, match=r"space: algorithm\.batch-size=.*share-replay"):
        sweep(config)
    assert not (tmp_path / "run").exists()


def test_a_tuner_chooses_for_all_points_of_a_grid_by_turns():
    words = ["--grid", "algorithm.entropy-cost=0.1,0.2", "--zip", "algorithm.discount=0.9,0.99", "--concurrent", "9"]
    words += ["--zip", "unroll-length=5,10", "--no-share-replay", "--seeds", "2", "--sample", "3"]
    members = parse_sweep(["cartpole", *TUNED, *words]).members()
    points = [tuple(member.overrides.values())[:3] for member in members[::2]]
    assert points == [(0.1, 0.9, 5), (0.1, 0.99, 10), (0.2, 0.9, 5), (0.2, 0.99, 10)] * 3
    assert [member.setting for member in members] == [number // 2 for number in range(24)]


def test_a_resumed_sweep_keeps_its_tuner(tmp_path):
    config = parse_sweep(["cartpole", *TUNED, "--run-dir", str(tmp_path / "run")])
    with open_run(config.base, ["test"], facts={"sweep": config.to_json()}):
        pass
    resume = ["cartpole", "--resume", "--run-dir", str(tmp_path / "run")]
    assert parse_sweep(resume).options.tuner == "optuna"
    for words in (["--tuner", "random"], ["--seed", "1"]):
        with pytest.raises(ConfigError, match="a resumed sweep keeps its own"):
            parse_sweep([*resume, *words])
