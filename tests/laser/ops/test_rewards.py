import math

import torch

from laser.ops.rewards import asymmetric_rewards, clip_rewards


def test_gains_and_losses_are_squashed_to_different_sizes():
    rewards = torch.tensor([-100.0, -2.0, 0.0, 0.1, 3.0, 100.0], dtype=torch.float64)
    expected = [5 * (0.3 if r < 0 else 1.0) * math.tanh(r / 5) for r in rewards.tolist()]
    torch.testing.assert_close(asymmetric_rewards(rewards), torch.tensor(expected, dtype=torch.float64))
    assert asymmetric_rewards(torch.tensor(-1e9)).item() == -1.5
    # As printed in the paper's caption it would be another function.
    assert abs(asymmetric_rewards(torch.tensor(1.0)).item() - 5 * math.tanh(1.0)) > 1.0


def test_clipping():
    assert clip_rewards(torch.tensor([-3.0, -0.5, 7.0])).tolist() == [-1.0, -0.5, 1.0]
