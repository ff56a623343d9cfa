"""Weights that correct for uneven draws."""

import numpy as np
import pytest

from laser.ports import KEY_DTYPE, Sample
from laser.prioritization.config import SamplingConfig
from laser.specs import ArraySpec, DiscreteActions, EnvironmentSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from learner.experience.collate import Correction, collate
from learner.experience.mixing import Mix

SPEC = UnrollSpec(3, EnvironmentSpec("probe", {"x": VectorSpec((2,))}, DiscreteActions(2)), {"logits": ArraySpec((2,))})


def sample(probabilities):
    num = len(probabilities)
    fields = {name: np.zeros((num, *SPEC.shape(name)), item.array.dtype) for name, item in SPEC.fields.items()}
    unrolls = Unrolls(np.zeros(num, HEADER_DTYPE), fields)
    return Sample(unrolls, np.zeros(num, KEY_DTYPE), np.array(probabilities), 1000)


def weights(probabilities, exponent, num_online=2, relative=True):
    online = sample([1.0] * num_online) if num_online else None
    replayed = sample(probabilities) if probabilities else None
    correction = Correction(exponent, relative)
    (batch,) = collate([Mix(online, replayed)], SPEC, 0, 0.9, 0, correction)
    return batch.importance_weights.tolist()


def test_they_are_inverse_probabilities_over_the_largest():
    expected = [(1 / (1000 * p)) ** 0.5 for p in (0.004, 0.001, 0.0005)]
    expected = [weight / max(expected) for weight in expected]
    assert weights([0.004, 0.001, 0.0005], 0.5) == pytest.approx([1.0, 1.0, *expected], rel=1e-6)


@pytest.mark.parametrize(
    ("probabilities", "exponent", "expected"),
    [
        ([0.437998, 0.220627, 0.030894, 0.310481], 0.4, [0.346227, 0.455497, 1.0, 0.397316]),
        ([0.466769, 0.204987, 0.019372, 0.308871], 0.4, [0.280048, 0.389209, 1.0, 0.330341]),
        ([0.359136, 0.207348, 0.179568, 0.253948], 0.5, [0.707107, 0.930605, 1.0, 0.840896]),
        ([0.406841, 0.188556, 0.154164, 0.250440], 0.5, [0.615572, 0.904214, 1.0, 0.784584]),
    ],
)
def test_known_weights(probabilities, exponent, expected):
    assert weights(probabilities, exponent) == pytest.approx([1.0, 1.0, *expected], rel=2e-5)


@pytest.mark.parametrize(("probabilities", "correction"), [([0.1, 0.2], 0.0), ([0.001, 0.001], 1.0), ([], 1.0)])
def test_they_are_exactly_one_where_nothing_is_to_be_corrected(probabilities, correction):
    assert weights(probabilities, correction) == [1.0] * (2 + len(probabilities))


def test_unless_they_are_relative_the_size_of_the_replay_counts():
    expected = [(1 / (1000 * p)) ** 0.4 for p in (0.004, 0.0005)]
    assert weights([0.004, 0.0005], 0.4, relative=False) == pytest.approx([1.0, 1.0, *expected], rel=1e-6)


def test_the_correction_goes_to_one_over_the_run():
    config = SamplingConfig(importance_exponent=0.4)
    assert [config.importance_at(progress) for progress in (0.0, 0.5, 1.0, 1.2)] == pytest.approx([0.4, 0.7, 1.0, 1.0])
    assert SamplingConfig(importance_exponent=0.4, importance_schedule="constant").importance_at(0.5) == 0.4
