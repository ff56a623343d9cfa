"""Batches collated together, beside the same ones by one."""

import dataclasses

import numpy as np
import pytest
import torch

from laser.ports import KEY_DTYPE, Sample
from laser.specs import ArraySpec, ContinuousActions, EnvironmentSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from learner.collate import Correction, collate, example_batch
from learner.mixing import Mix

ACTIONS = ContinuousActions((-1.0, -1.0), (1.0, 1.0))
OBSERVATIONS = {"x": VectorSpec((3,)), "scalar": VectorSpec(())}
SPEC = UnrollSpec(1, EnvironmentSpec("probe", OBSERVATIONS, ACTIONS), {"mean": ArraySpec((2,))})


def make_sample(rng, num, replayed):
    fields = {}
    for name, item in SPEC.fields.items():
        numbers = rng.integers(0, 5, (num, *SPEC.shape(name)))
        fields[name] = numbers.astype(item.array.dtype)
    headers = np.zeros(num, HEADER_DTYPE)
    headers["member"], headers["parameter_version"] = rng.integers(0, 2, num), rng.integers(0, 9, num)
    return Sample(
        Unrolls(headers, fields),
        np.zeros(num, KEY_DTYPE),
        rng.uniform(0.001, 0.1, num),
        1000,
        {"rho": rng.random((num, 1), np.float32)} if replayed else {},
        rng.random((num, 1), np.float32) if replayed else None,
    )


@pytest.mark.parametrize("num_online", [0, 2])
@pytest.mark.parametrize("exponent", [0.0, 0.4])
def test_together_as_one_by_one(num_online, exponent):
    rng = np.random.default_rng(0)
    mixes = [
        Mix(make_sample(rng, num_online, False) if num_online else None, make_sample(rng, 5, True)) for _ in range(4)
    ]
    arguments = SPEC, 1, 0.9, 10, Correction(exponent)
    together = collate(mixes, *arguments)
    apart = [batch for mix in mixes for batch in collate([mix], *arguments)]
    assert len(together) == 4
    example = example_batch(SPEC, num_online + 5, ["rho"], "steps")
    for one, other in zip(together, apart, strict=True):
        for item in dataclasses.fields(one):
            got, wanted, layout = (getattr(batch, item.name) for batch in (one, other, example))
            names = list(wanted) if isinstance(wanted, dict) else [None]
            for name in names:
                parts = (got, wanted, layout) if name is None else (got[name], wanted[name], layout[name])
                torch.testing.assert_close(parts[0], parts[1], rtol=0, atol=0)
                assert parts[0].is_contiguous()
                assert (parts[0].shape, parts[0].dtype) == (parts[2].shape, parts[2].dtype)
    assert not torch.equal(together[0].rewards, together[1].rewards)
    for mix, batch in zip(mixes, together, strict=True):
        assert batch.discounts[0, num_online:].tolist() == mix.replayed.discounts[:, 0].tolist()
    assert torch.equal(together[0].online[0], torch.arange(num_online + 5) < num_online)
