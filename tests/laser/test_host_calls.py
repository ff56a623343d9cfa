"""Calls of a GPU from the host: the same answers, in memory of the caller's own."""

import pytest
import torch

from laser.host_calls import HostCalls

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@pytest.mark.parametrize("device", DEVICES)
def test_calls_from_the_host_return_memory_of_the_callers_own(device):
    device = torch.device(device)
    calls = HostCalls(lambda tree, factor: {"numbers": tree["numbers"] * factor, "sum": tree["x"].sum()}, device)
    trees = [{"numbers": torch.full((2, 3), float(n)), "x": torch.arange(n + 1)} for n in range(4)]
    results = [calls(tree, 10.0) for tree in trees]  # x has another shape each time
    again = calls(trees[1], 100.0)
    for n, result in enumerate(results):
        assert result["numbers"].device.type == "cpu"
        assert result["numbers"].tolist() == [[10.0 * n] * 3] * 2
        assert result["sum"] == n * (n + 1) // 2
    assert again["numbers"][0, 0] == 100.0
