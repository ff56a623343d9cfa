"""Trees of tensors."""

import dataclasses

import torch

from laser.tensor_trees import map_tensors


@dataclasses.dataclass
class Tree:
    loss: torch.Tensor
    parts: dict


def test_a_function_is_applied_to_each_tensor_of_a_tree():
    tree = Tree(torch.tensor(1.0), {"x": torch.tensor([2.0, 3.0]), "more": {"y": torch.tensor(4.0)}})
    doubled = map_tensors(tree, lambda tensor: 2 * tensor)
    assert isinstance(doubled, Tree)
    assert doubled.loss == 2.0
    assert doubled.parts["x"].tolist() == [4.0, 6.0]
    assert doubled.parts["more"] == {"y": torch.tensor(8.0)}
    assert tree.loss == 1.0
