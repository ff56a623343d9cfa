"""Metrics of draws: what is stored and drawn, evenness, and what is left out."""

import numpy as np
import pytest
import torch

from learner.metrics.draw_metrics import DrawMetrics


def test_what_is_stored_is_estimated_from_what_is_drawn():
    """Items 0 to 9; nine tenths of the draws go to the five large ones."""
    rng, metrics = np.random.default_rng(0), DrawMetrics()
    p = np.repeat([0.02, 0.18], 5)
    for _ in range(20):
        items = rng.choice(10, 2000, p=p)
        numbers = torch.from_numpy(items.astype(np.float32))
        metrics.add({"q": numbers[None], "td_error": -numbers[None]}, p[items], items + 1, 2000)
    taken = metrics.take()
    assert taken["sampled_q/mean"] == pytest.approx((np.arange(10) * p).sum(), abs=0.05)
    assert taken["stored_q/mean"] == pytest.approx(4.5, abs=0.1)
    assert taken["stored_q/std"] == pytest.approx(np.arange(10).std(), abs=0.1)
    assert taken["sampled_q/p50"] == 7.0
    assert taken["stored_q/p10"] in (0.0, 1.0)
    assert taken["stored_td_error/p90"] in (0.0, -1.0)
    assert taken["sampled_td_error/p10"] == -9.0
    # (E w)^2 / E w^2 with w = 1 / p: 10^2 / sum 1 / p.
    assert taken["effective_draws"] == pytest.approx(100 / (1 / p).sum(), rel=0.05)
    assert (taken["times_replayed/p50"], taken["times_replayed/max"]) == (8.0, 10.0)
    assert metrics.take() == {}


def test_evenness_is_one_where_draws_are_uniform_and_small_where_one_item_counts_for_all():
    metrics = DrawMetrics()
    metrics.add({}, np.full(50, 1e-4), None, 50)
    assert metrics.take() == {"effective_draws": pytest.approx(1.0)}
    weights = np.array([1.0, 2.0, 5.0])
    metrics.add({}, 1 / weights, None, 3)
    assert metrics.take()["effective_draws"] == pytest.approx(8.0**2 / (3 * 30.0))
    metrics.add({}, np.array([1e-9, 1.0, 1.0, 1.0]), None, 4)
    assert metrics.take()["effective_draws"] == pytest.approx(0.25)


def test_numbers_that_are_not_finite_are_left_out():
    metrics = DrawMetrics()
    said = {"q": torch.tensor([[1.0, torch.nan, 3.0]]), "td_error": torch.full((1, 3), torch.inf)}
    metrics.add(said, np.ones(3), None, 3)
    taken = metrics.take()
    assert taken["sampled_q/mean"] == 2.0
    assert not any("td_error" in name for name in taken)


def test_what_could_not_be_drawn_is_not_guessed():
    metrics = DrawMetrics()
    metrics.add({"q": torch.tensor([[1.0, 3.0]])}, None, np.array([1, 2]), 2)
    taken = metrics.take()
    assert (taken["sampled_q/mean"], taken["times_replayed/max"]) == (2.0, 2.0)
    assert not any(name.startswith(("stored", "effective")) for name in taken)
    assert metrics.take() == {}


def test_fresh_columns_and_rows_of_unrolls_are_passed_over():
    metrics = DrawMetrics()
    said = {"q": torch.tensor([[90.0, 1.0, 3.0]]), "td_error": torch.tensor([[90.0, -1.0, 3.0]])}
    metrics.add({**said, "priority": torch.ones(5, 3)}, None, None, 2)
    taken = metrics.take()
    assert (taken["sampled_q/mean"], taken["sampled_td_error/mean"], taken["sampled_abs_td_error/mean"]) == (2, 1, 2)
    assert not any("priority" in name for name in taken)
