import numpy as np

from launch.dashboard.comparing import flat, group_by_settings, seed_curves, single_curves
from launch.records.listing import find_entries
from launch.records.series import read_series


def test_configs_are_flattened_by_the_keys_of_the_command_line() -> None:
    assert flat({"num_envs": 3, "algorithm": {"learning_rate": 0.1}}) == {"num-envs": 3, "algorithm.learning-rate": 0.1}


def test_runs_that_differ_in_their_seed_alone_are_one_group(tmp_path, make_run) -> None:
    for name, seed, rate in (("a", 0, 0.1), ("b", 1, 0.1), ("c", 0, 0.2)):
        config = {"seed": seed, "run_dir": name, "algorithm": {"name": "laser", "learning_rate": rate}}
        make_run(name, config=config)
    groups = group_by_settings(list(find_entries(tmp_path / "runs").values()))
    named = {name: [entry.name for entry in entries] for name, entries in groups.items()}
    assert named == {"learning-rate 0.1 (2 seeds)": ["a", "b"], "learning-rate 0.2": ["c"]}


def test_a_group_is_drawn_as_mean_and_band(tmp_path, make_run) -> None:
    for seed in (0, 1):
        make_run(f"run{seed}", [{"loss": 2.0 * seed + n} for n in range(5)], config={"seed": seed})
    entries = list(find_entries(tmp_path / "runs").values())
    series = {entry.key: read_series(entry.metrics_path, ["loss"])["loss"] for entry in entries}
    (curve,) = seed_curves(entries, series, "env_steps", 0)
    assert curve.name == "cartpole CartPole-v1 (2 seeds)"
    np.testing.assert_allclose(np.interp([0, 100, 400], curve.x, curve.y), [1.0, 2.0, 5.0])
    np.testing.assert_allclose(curve.high - curve.low, 2 * np.sqrt(2.0))
    assert [curve.name for curve in single_curves(entries, series, "frames", 0)] == ["run0", "run1"]
