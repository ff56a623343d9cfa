from typing import Any

import pytest

from launch.dashboard.findings import Facts, findings
from launch.recording.metric_table import Metric, rows_of

HEALTHY: dict[str, Any] = {
    "status": "running",
    "age_s": 1.0,
    "env_steps": 100_000,
    "seconds": 100.0,
    "values": {
        "totals/episodes": 500.0,
        "entropy": 0.4,
        "gradient_norm": 3.0,
        "updates_applied": 1.0,
        "accept_fraction_online": 1.0,
        "accept_fraction_foreign_replay": 0.7,
        "num_steps_foreign_replay": 100.0,
        "totals/restarts/died": 0.0,
        "ledger/imbalance/received": 0.0,
    },
    "growth": {
        "totals/time/environment": 5.0,
        "totals/time/inference": 5.0,
        "totals/time/insert_wait": 0.1,
        "totals/time/learner_wait": 2.0,
        "totals/time/learner_step": 8.0,
        "learner_steps": 300.0,
    },
    "growth_s": 30.0,
    "config": {
        "algorithm": {"trust_region_threshold": 0.03, "max_gradient_norm": 40.0},
        "replay": {"min_steps": 5000},
    },
}


def facts(**changes: Any) -> Facts:
    merged = dict(HEALTHY)
    for name, value in changes.items():
        merged[name] = {**HEALTHY[name], **value} if isinstance(HEALTHY.get(name), dict) else value
    return Facts(**merged)


def test_a_healthy_run_is_not_talked_about() -> None:
    assert findings(facts()) == []
    assert findings(facts(status="finished", age_s=86_400.0)) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem": "metrics.db cannot be read: malformed"}, "metrics.db cannot be read: malformed"),
        (
            {"status": "failed", "log": "failed: ValueError: bad"},
            "the run failed: ValueError: bad; it had no checkpoint yet, so it can only be begun again",
        ),
        (
            {"status": "failed", "log": "failed: ValueError: bad", "resume": "laser train x --resume --run-dir y"},
            "the run failed: ValueError: bad; continue from its last checkpoint: laser train x --resume --run-dir y",
        ),
        (
            {
                "status": "stopped",
                "log": "finished: stopped by Ctrl-C",
                "saved": "a checkpoint of 5 env steps",
                "resume": "x",
            },
            "the run was stopped by Ctrl-C; saved: a checkpoint of 5 env steps; continue from its last checkpoint: x",
        ),
        (
            {"status": "interrupted"},
            "the run recorded no end, as after a kill; it had no checkpoint yet, so it can only be begun again",
        ),
        (
            {
                "status": "finished",
                "values": {
                    "ledger/rejected": 2.0,
                    "ledger/rejected/too_old": 2.0,
                    "totals/rejected/too_old": 2.0,
                    "totals/unrolls_lost/died": 1200.0,
                },
            },
            "the run ended with losses: 2 unrolls refused (too old); "
            "1,200 unrolls that never arrived from actors that died",
        ),
        (
            {"status": "pruned", "values": {"totals/updates_lost/died": 531.0}},
            "the run ended with losses: 531 updates of learners that died since their newest checkpoints, "
            "as far as they were reported or published",
        ),
        (
            {"status": "finished", "values": {"totals/dropped_rows/raised": 40.0}},
            "the run ended with losses: 40 rows of unfinished unrolls when an environment failed (raised)",
        ),
        (
            {"status": "finished", "values": {"ledger/died": 7.0, "totals/unrolls_lost/shard": 7.0}},
            "the run ended with losses: 7 unrolls in shards that died",
        ),
        ({"age_s": 300.0}, "nothing has been recorded for 300 s although the run holds its lock: it has stalled"),
        ({"age_s": None}, "nothing has been recorded yet"),
        (
            {"values": {"totals/restarts/died": 2.0, "totals/restarts/hung": 1.0}},
            "3 workers had to be replaced (2 died, 1 hung)",
        ),
        ({"values": {"totals/shards_lost": 1.0}}, "1 replay shards are lost with their contents"),
        (
            {"values": {"totals/evaluations_failed/raised": 2.0, "totals/evaluations_failed/evaluator_died": 1.0}},
            "3 evaluations failed (1 evaluator died, 2 raised)",
        ),
        (
            {"values": {"updates_applied": 0.5}},
            "50 % of learner steps were skipped because their gradient was not finite",
        ),
        (
            {"status": "finished", "values": {"ledger/imbalance/received": 3.0}},
            "the ledger of unrolls does not add up (received): experience was lost uncounted",
        ),
        (
            {"growth": {"totals/time/insert_wait": 30.0, "totals/time/learner_wait": 0.0}},
            "actors wait for the replay's rate limiter (75 % of their time): the learner is slower than the actors",
        ),
        (
            {"growth": {"totals/time/insert_wait": 30.0, "totals/time/learner_wait": 8.0}},
            "actors wait for the replay's rate limiter (75 % of their time), and the learner waits too: "
            "the replay is slow",
        ),
        (
            {"values": {"accept_fraction_foreign_replay": 0.08}},
            "92 % of foreign steps are rejected: threshold 0.03 is tight",
        ),
        ({"values": {"totals/episodes": 0.0}}, "no episode has finished yet, after 100,000 env steps"),
        ({"growth": {"learner_steps": 0.0}}, "the learner made no step in the last 30 s"),
        (
            {"growth": {"learner_steps": 0.0}, "values": {"replay/num_steps": 1200.0}},
            "the learner waits for the replay to hold 5,000 steps; it has 1,200",
        ),
        (
            {"values": {"entropy": 1e-5}},
            "the policy is nearly deterministic (entropy 1e-5 nats): raise the entropy cost",
        ),
        ({"values": {"gradient_norm": 1000.0}}, "gradients are clipped hard: their norm is 1,000, the limit 40"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(changes: dict[str, Any], said: str) -> None:
    assert findings(facts(**changes)) == [said]


@pytest.mark.parametrize("metric", list(rows_of("lost")), ids=lambda metric: metric.name)
def test_whatever_is_counted_as_lost_is_said_once_at_the_end_of_a_run(metric: Metric) -> None:
    counted = {metric.name.format(reason="hung"): 41.0}
    (said,) = findings(facts(status="finished", values=counted))
    assert "41" in said
    assert ("hung" in said) == bool(metric.fields)


def test_what_is_on_its_way_in_a_running_run_is_not_lost() -> None:
    assert findings(facts(values={"ledger/lost": 3.0, "totals/unrolls_lost/died": 3.0})) == []


def test_a_source_without_steps_is_not_judged() -> None:
    assert findings(facts(values={"accept_fraction_foreign_replay": 0.0, "num_steps_foreign_replay": 0.0})) == []


def test_nothing_is_said_too_early() -> None:
    early = {"env_steps": 500, "seconds": 5.0, "values": {"totals/episodes": 0.0}, "growth": {"learner_steps": 0.0}}
    assert findings(facts(**early)) == []


@pytest.mark.parametrize(
    "config", [{}, {"algorithm": None}, {"algorithm": {"trust_region_threshold": "x"}}, {"replay": 3}]
)
def test_whatever_a_config_holds_a_sentence_comes(config: dict[str, Any]) -> None:
    merged = HEALTHY | {"config": config, "values": {**HEALTHY["values"], "accept_fraction_online": 0.0}}
    merged["growth"] = {"learner_steps": 0.0}
    merged["values"]["replay/num_steps"] = 1.0
    assert any("fresh steps are rejected" in sentence for sentence in findings(Facts(**merged)))
