"""Flags of one environment and of a vector are read alike."""

import numpy as np
import pytest

from laser.environments.base import EnvironmentFailedError
from laser.environments.results import read_flag, read_flags


@pytest.mark.parametrize("flags", [[True, False], [1, 0], [1.0, 0.0], np.array([1, 0], np.uint8), np.array([1.0, 0.0])])
def test_bools_and_0_and_1_are_flags(flags):
    assert [read_flag("terminated", flag) for flag in flags] == [True, False]
    read = read_flags("terminated", flags, 2)
    assert read.dtype == bool
    assert read.tolist() == [True, False]
    assert not np.shares_memory(read, np.asarray(flags))


@pytest.mark.parametrize("wrong", [2, -1, 0.5, np.nan, "yes", None])
def test_anything_else_is_refused(wrong):
    with pytest.raises(EnvironmentFailedError, match="truncated must be True or False, got "):
        read_flag("truncated", wrong)
    with pytest.raises(EnvironmentFailedError, match="truncated must be True or False, got "):
        read_flags("truncated", [False, wrong], 2)


def test_a_vector_has_a_flag_for_each_environment():
    for wrong in (np.zeros(3, bool), np.zeros((2, 1), bool), False):
        with pytest.raises(EnvironmentFailedError, match=r"terminated must have shape \(2,\), got "):
            read_flags("terminated", wrong, 2)
