import torch

from laser.ops.taken import taken


def test_it_picks_the_number_of_each_action_whatever_the_shape_before():
    values = torch.arange(2 * 3 * 5).reshape(2, 3, 5)
    actions = torch.tensor([[0, 4, 2], [3, 3, 1]])
    expected = [[values[t, b, actions[t, b]].item() for b in range(3)] for t in range(2)]
    assert taken(values, actions).tolist() == expected
    assert taken(values[0], actions[0]).tolist() == expected[0]
    assert taken(values[0, 0], actions[0, 1]).item() == 4
