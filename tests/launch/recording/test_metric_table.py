"""The table of metrics against what runs record, and against what the dashboard draws."""

from __future__ import annotations

from pathlib import Path

import pytest

from launch.dashboard.panels import panels_of
from launch.presets import load_preset
from launch.recording.metric_panels import BOXES, PANELS, TITLES
from launch.recording.metric_table import FIELDS, METRICS, known_key, label_of, metric_of, values_by_field
from launch.recording.metrics_page import page
from launch.recording.tracker import tracking_key
from launch.records.metrics_db import read_names
from launch.train import train

DOCS = Path(__file__).parents[3] / "docs"

SMALL = {"steps": 480, "quiet": True, "runtime": "lockstep"}
LAYERS = {"network.hidden-sizes": (8,)}
STEPS = {**LAYERS, "algorithm.batch-size": 16, "replay.min-steps": 128, "replay.samples-per-insert": 4.0}
EVALUATED = {"evaluation.interval": 150, "evaluation.episodes": 1, "evaluation.num-envs": 1}
RUNS = {
    "acer_cartpole": {**LAYERS, "steps": 1500},
    "cartpole": {**LAYERS, **EVALUATED},
    "cartpole, tasks": {
        **LAYERS,
        "evaluation.interval": 700,
        "evaluation.episodes": 1,
        "env": "mini/TMaze10-v0,mini/TMaze20-v0,mini/TMaze5-v0",
        "steps": 1500,
    },
    "ddpg_pendulum, ero": {**STEPS, **EVALUATED, "replay.sampler": "ero"},
    "ddpg_pendulum, ners": {**STEPS, **EVALUATED, "replay.sampler": "ners"},
    "dqn_cartpole": STEPS,
    "ppo_pendulum": {**LAYERS, "steps": 2048},
    "reactor_mini": EVALUATED,
    "sac_pendulum": STEPS,
    "td3_pendulum": STEPS,
    "v_racer_pendulum": STEPS,
}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The keys that short runs of different agents record."""
    root, keys = tmp_path_factory.mktemp("runs"), set()
    for number, (name, values) in enumerate(RUNS.items()):
        path = root / str(number)
        train(load_preset(name.partition(",")[0], {**SMALL, **values, "run-dir": path}))
        keys.update(read_names(path / "metrics.db"))
    return keys


def test_every_key_that_a_run_records_has_a_row(recorded):
    assert sorted(key for key in recorded if metric_of(key) is None) == []


def test_every_row_is_recorded_unless_it_says_when(recorded):
    found = {metric_of(key) for key in recorded}
    assert [metric.name for metric in METRICS if not metric.only and metric not in found] == []


_EXAMPLES = {"kl": "kl", "maker": "3"}


def example_of(metric):
    """Return a key that is this metric: a median where it has quantiles, else the first of a field's values."""
    values = {name: next(iter(field.values), _EXAMPLES.get(name, "x")) for name, field in FIELDS.items()}
    return metric.name.format(**{**values, "quantile": "p50"})


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.name)
def test_a_row_says_what_it_is_and_is_drawn_where_it_says(metric):
    assert metric.words
    assert metric_of(example_of(metric)) is metric, "an earlier row takes its keys"
    assert not metric.panel or metric.panel in TITLES
    panels = {panel.key: panel for panel in PANELS}
    if metric.panel in panels:
        key = example_of(metric)
        (line,) = panels[metric.panel].of_run([key]).chosen([key])
        assert (line.name, line.label) == (key, label_of(key, metric, without="quantile"))


@pytest.mark.parametrize("panel", [*(panel.key for panel in PANELS), *BOXES])
def test_a_panel_has_a_row(panel):
    assert any(metric.panel == panel for metric in METRICS)


def test_rows_are_told_apart_however_much_their_keys_look_alike():
    same = {
        "process/main/cpu_percent": "process/{process}/cpu_percent",
        "process/learner/0/children/cpu_percent": "process/{process}/cpu_percent",
        "tasks/ALE/Pong-v5/mean_return": "tasks/{task}/mean_return",
        "evaluation/mean_return": "evaluation/mean_return",
        "evaluation/ALE/Pong-v5/mean_return": "evaluation/{task}/mean_return",
        "kl_from_behaviour": "kl_from_behaviour",
        "kl_of_mine": "{kl}",
        "implied_kl_online": "implied_kl_{source}",
        "aux_loss": "{part}_loss",
        "value_loss": "value_loss",
        "ledger/rejected": "ledger/rejected",
        "ledger/rejected/not_finite": "ledger/rejected/{reason}",
    }
    assert {key: metric_of(key).name for key in same} == same
    assert all(
        metric_of(key) is None for key in ("policy_lag/online/p51", "accept_fraction_elsewhere", "tickle", "busy/")
    )


def test_code_may_not_read_a_key_that_no_row_has():
    assert known_key("totals/restarts/{reason}") == "totals/restarts/{reason}"
    assert known_key("busy/decode") == "busy/decode"
    for key in ("totals/restart/{reason}", "busy/decoding", "entropie"):
        with pytest.raises(KeyError, match="no row of the table"):
            known_key(key)


def test_values_are_read_by_the_word_in_their_keys():
    values = {"totals/restarts/hung": 1.0, "totals/restarts/died": 2.0, "totals/rejected/hung": 4.0}
    assert values_by_field("totals/restarts/{reason}", values) == {"died": 2.0, "hung": 1.0}


def test_trackers_have_the_keys_that_other_tools_know():
    keys = ("pg_loss", "loss", "entropy", "aux_loss", "charts/SPS", "policy_lag/online/p50")
    expected = ["losses/policy_loss", "losses/total_loss", "losses/entropy", "losses/aux_loss", *keys[4:]]
    assert [tracking_key(key) for key in keys] == expected


def test_tasks_are_drawn_where_there_are_several():
    keys = [f"tasks/ALE/Game{number}-v5/mean_return" for number in range(10)]
    (panel,) = [panel for panel in panels_of(keys) if panel.key == "tasks"]
    assert panel.title == "Return by task (the first 8 of 10)"
    assert [line.label for line in panel.lines] == [f"ALE/Game{number}-v5" for number in range(8)]
    assert not any(panel.key == "tasks" for panel in panels_of(keys[:1]))


def test_the_page_of_metrics_is_made_from_the_table():
    assert (DOCS / "metrics.md").read_text("utf-8") == page(), "run `make docs`"
