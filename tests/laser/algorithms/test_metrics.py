import pytest
import torch

from laser.algorithms.metrics import MetricMeans, explained_variance, means, means_by_source, stack
from laser.batch import FOREIGN_REPLAY, ONLINE, OWN_REPLAY

VALUES = torch.tensor([[1.0, 2.0, 3.0], [5.0, float("nan"), 7.0]])
VALID = torch.tensor([[True, True, True], [True, False, True]])


def test_means_by_source_leave_out_invalid_rows():
    source = torch.tensor([[ONLINE, ONLINE, FOREIGN_REPLAY], [ONLINE, ONLINE, ONLINE]], dtype=torch.int8)
    metrics = {name: value.item() for name, value in means_by_source(source, VALID, x=VALUES).items()}
    assert metrics == pytest.approx(
        {
            "num_steps_online": 4.0,
            "x_online": (1 + 2 + 5 + 7) / 4,
            "num_steps_own_replay": 0.0,
            "x_own_replay": 0.0,
            "num_steps_foreign_replay": 1.0,
            "x_foreign_replay": 3.0,
        }
    )


def test_means_over_steps_count_rows_of_a_source_alike():
    own = torch.tensor([[OWN_REPLAY, FOREIGN_REPLAY, FOREIGN_REPLAY]] * 2, dtype=torch.int8)
    none_of_its_own = torch.full((2, 3), FOREIGN_REPLAY, dtype=torch.int8)
    averages = MetricMeans()
    for source, value, loss in ((own, 1.0, 2.0), (none_of_its_own, 4.0, 6.0)):
        rows = torch.full((2, 3), value)
        metrics = means_by_source(source, torch.ones(2, 3, dtype=torch.bool), x=rows)
        averages.add({"loss": torch.tensor(loss), **metrics})
    assert averages.take() == pytest.approx(
        {
            "loss": 4.0,
            "num_steps_online": 0.0,
            "num_steps_own_replay": 1.0,
            "x_own_replay": 1.0,  # a batch without any of its own does not pull this down
            "num_steps_foreign_replay": 5.0,
            "x_foreign_replay": (4 * 1.0 + 6 * 4.0) / 10,
        }
    )
    assert averages.take() == {}


def test_metrics_in_one_vector_are_those_of_a_dict():
    metrics = {"loss": torch.tensor(2.0), "count": torch.tensor(3), "half": torch.tensor(0.5, dtype=torch.bfloat16)}
    stacked = stack(metrics)
    assert {name: value.item() for name, value in stacked.items()} == {"loss": 2.0, "count": 3.0, "half": 0.5}
    assert stacked.vector.dtype == torch.float32
    assert stack(stacked) is stacked
    plain, vectors = MetricMeans(), MetricMeans()
    for factor in (1, 3):
        scaled = {name: value * factor for name, value in metrics.items()}
        plain.add(scaled)
        vectors.add(stack(scaled))
    assert vectors.take() == plain.take() == {"loss": 4.0, "count": 6.0, "half": 1.0}


def test_means_and_explained_variance():
    assert means(VALID, x=VALUES)["x"].item() == pytest.approx((1 + 2 + 3 + 5 + 7) / 5)
    assert means(torch.zeros_like(VALID), x=VALUES)["x"].item() == 0.0
    targets = torch.randn(2, 3)
    rows = torch.ones_like(VALID)
    assert explained_variance(targets, targets, rows).item() == 1.0
    assert explained_variance(targets - 3.0, targets, rows).item() > 0.999, "a constant error leaves the variance"
    assert abs(explained_variance(torch.zeros(2, 3), targets, rows).item()) < 1e-6
    assert explained_variance(targets, torch.ones(2, 3), rows).item() == 0.0
    single = torch.tensor([[True, False, False], [False, False, False]])
    assert explained_variance(3 * targets, targets, single).item() == 0.0, "one target does not vary"
    half = torch.tensor([[True, True, False], [True, False, True]])
    expected = 1 - (targets - 2 * targets)[half].var() / targets[half].var()
    torch.testing.assert_close(explained_variance(2 * targets, targets, half), expected)


def test_a_metric_that_some_steps_leave_out_is_a_mean_over_the_others():
    averages = MetricMeans()
    for number in range(1, 5):
        metrics = {"loss": torch.tensor(float(number))}
        averages.add(metrics if number % 2 else {**metrics, "policy": torch.tensor(10.0 * number)})
    assert averages.take() == pytest.approx({"loss": 2.5, "policy": 30.0})
    assert averages.take() == {}


def test_means_over_more_steps_than_are_summed_at_once():
    averages = MetricMeans()
    for number in range(1_000):
        averages.add({"loss": torch.tensor(float(number))})
    assert averages.take() == {"loss": 499.5}
    averages.add({"loss": torch.tensor(3.0)})
    assert averages.take() == {"loss": 3.0}
