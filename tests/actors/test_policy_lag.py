import pytest

from actors import policy_lag
from actors.policy_lag import PolicyLag, PolicyLagLimit


@pytest.mark.parametrize("max_policy_lag", [0, 2])
def test_a_version_is_due_when_the_learner_had_unrolls_for_it(max_policy_lag):
    lag = PolicyLag(PolicyLagLimit(max_policy_lag, unrolls_per_round=6, unrolls_per_version=8))
    assert lag.allows(5)
    for rounds in range(1, 9):
        lag.shipped()
        due = 5 + rounds * 6 // 8 - max_policy_lag
        assert lag.allows(due)
        assert not lag.allows(due - 1)


def test_without_a_limit_nobody_waits():
    lag = PolicyLag(None)
    for _ in range(5):
        assert lag.allows(0)
        lag.shipped()


def test_waiting_in_vain_ends_and_is_counted(monkeypatch):
    monkeypatch.setattr(policy_lag, "PATIENCE_S", 0.0)
    lag = PolicyLag(PolicyLagLimit(0, 1, 1))
    assert lag.allows(0)
    lag.shipped()
    assert lag.allows(0)
    assert lag.num_given_up == 1
    assert lag.allows(0)  # pace begins anew
    assert lag.num_given_up == 1
