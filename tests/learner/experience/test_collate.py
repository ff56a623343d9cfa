"""Batches collated together, beside the same ones by one."""

import dataclasses

import numpy as np
import pytest
import torch

from laser.messages import take_sample
from laser.ports import KEY_DTYPE, Sample
from laser.specs import ArraySpec, ContinuousActions, EnvironmentSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from learner.experience.collate import Correction, collate, example_batch
from learner.experience.mixing import Mix

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


@pytest.mark.parametrize("correction", [Correction(), Correction(0.4), Correction(0.4, relative=False)])
def test_drawn_together_as_one_by_one(correction):
    drawn = make_sample(np.random.default_rng(0), 20, True)
    mixes = [Mix(None, take_sample(drawn, slice(k, None, 4)), drawn) for k in range(4)]
    arguments = SPEC, 1, 0.9, 10, correction
    together = collate(mixes, *arguments)
    apart = [batch for mix in mixes for batch in collate([mix], *arguments)]
    assert len(together) == 4
    example = example_batch(SPEC, 5, ["rho"], "steps")
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
        assert batch.discounts[0].tolist() == mix.replayed.discounts[:, 0].tolist()
    assert not together[0].online.any()


def test_fresh_columns_come_first():
    rng = np.random.default_rng(0)
    mix = Mix(make_sample(rng, 2, False), make_sample(rng, 5, True))
    (batch,) = collate([mix], SPEC, 1, 0.9, 10, Correction(0.4))
    assert torch.equal(batch.online[0], torch.arange(7) < 2)
    assert batch.discounts[0, 2:].tolist() == mix.replayed.discounts[:, 0].tolist()
    terminated = mix.online.unrolls.fields["terminated"][:, 0]
    assert batch.discounts[0, :2].tolist() == np.where(terminated, np.float32(0), np.float32(0.9)).tolist()
    assert batch.columns["rho"][0].tolist() == [0.0, 0.0, *mix.replayed.columns["rho"][:, 0].tolist()]
    assert batch.importance_weights[:2].tolist() == [1.0, 1.0]
    assert batch.importance_weights[2:].max() == 1.0
