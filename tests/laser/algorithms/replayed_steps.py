"""Single replayed steps for tests of losses and of samplers' rules."""

from __future__ import annotations

import dataclasses

import numpy as np
import torch
from random_batches import make_batch

from laser.ports import KEY_DTYPE, Sample
from laser.unroll import HEADER_DTYPE, Unrolls

NUM_ITEMS = 12
CPU = torch.device("cpu")


def sample_of(num_items=NUM_ITEMS, seed=0):
    rng = np.random.default_rng(seed)
    headers = np.zeros(num_items, HEADER_DTYPE)
    headers["step_in_episode"] = rng.integers(0, 200, num_items)
    keys = np.zeros(num_items, KEY_DTYPE)
    keys["page"] = np.arange(num_items)
    fields = {"valid": np.ones((num_items, 1), bool)}
    return Sample(Unrolls(headers, fields), keys, np.full(num_items, 1e-3), 1000)


def steps_batch(actions, columns=(), num_items=NUM_ITEMS, seed=0):
    batch = make_batch(actions, num_rows=1, num_columns=num_items, seed=seed)
    filled = {spec.name: torch.full((1, num_items), spec.initial) for spec in columns}
    return dataclasses.replace(batch, valid=torch.ones_like(batch.valid), columns=filled)
