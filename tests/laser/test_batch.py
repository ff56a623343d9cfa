"""Columns of a batch."""

import torch
from random_batches import ACTIONS, make_batch

from laser.batch import take_columns


def test_columns_are_taken_along_the_right_axis():
    batch = make_batch(ACTIONS["discrete"], num_rows=4, num_columns=6)
    taken = take_columns(batch, torch.tensor([4, 1]))
    torch.testing.assert_close(taken.rewards, batch.rewards[:, [4, 1]], rtol=0, atol=0)
    torch.testing.assert_close(taken.importance_weights, batch.importance_weights[[4, 1]], rtol=0, atol=0)
    torch.testing.assert_close(taken.last_reward, batch.last_reward[[4, 1]], rtol=0, atol=0)
    for name, value in batch.observations.items():
        torch.testing.assert_close(taken.observations[name], value[:, [4, 1]], rtol=0, atol=0)
