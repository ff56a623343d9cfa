import numpy as np
import pytest
import torch
from literal_targets import literal_vtrace

from laser.ops.vtrace import vtrace_targets


def column(*numbers):
    return torch.tensor(numbers, dtype=torch.float64).unsqueeze(-1)


REWARDS, DISCOUNTS = column(1, 0, -1, 2), column(0.9, 0.9, 0.9, 0.9)
VALUES, RHOS = column(0.5, 1, -0.5, 0.25), column(0.5, 2, 1.5, 0.8)
BOOTSTRAP = torch.tensor([0.75], dtype=torch.float64)


def small_example(rhos=RHOS, discounts=DISCOUNTS, **options):
    vs, advantages = vtrace_targets(rhos.log(), REWARDS, discounts, VALUES, BOOTSTRAP, **options)
    return vs.squeeze(-1).tolist(), advantages.squeeze(-1).tolist()


@pytest.mark.parametrize(
    ("options", "vs", "advantages"),
    [
        ({}, [1.143255, 0.8739, 0.971, 2.19], [0.643255, -0.1261, 1.471, 1.94]),
        ({"rho_clip": 2.0}, [0.435068, -0.69985, 0.8335, 2.19], None),
        ({"pg_rho_clip": 5.0}, [1.143255, 0.8739, 0.971, 2.19], [0.643255, -0.2522, 2.2065, 1.94]),
        ({"discounts": column(0.9, 0, 0.9, 0.9)}, [0.75, 0, 0.971, 2.19], [0.25, -1, 1.471, 1.94]),
        ({"rhos": column(1, 1, 1, 1)}, [2.140075, 1.26675, 1.4075, 2.675], None),
        ({"accept": column(1, 1, 0, 1) > 0}, [0.5475, -0.45, -0.5, 2.19], [0.0475, -1.45, 0, 1.94]),
        ({"valid": column(1, 1, 0, 1) > 0}, [0.5475, -0.45, -0.5, 2.19], [0.0475, -1.45, 0, 1.94]),
    ],
    ids=["plain", "rho_clip", "pg_rho_clip", "terminal", "on_policy", "rejected", "invalid"],
)
def test_known_numbers(options, vs, advantages):
    got_vs, got_advantages = small_example(**options)
    assert got_vs == pytest.approx(vs, abs=1e-6)
    if advantages is not None:
        assert got_advantages == pytest.approx(advantages, abs=1e-6)


def test_a_truncation_inside_an_unroll_equals_two_unrolls():
    """Episode 1 is cut after two steps (its final observation is the invalid row); episode 2 follows."""
    rewards, values = column(1, 2, 0, -1, 0.5), column(0.5, 0.2, 0.7, 0.1, 0.4)
    rhos, valid = column(0.8, 1.3, 7, 1, 0.5), column(1, 1, 0, 1, 1) > 0
    discounts, bootstrap = torch.full_like(rewards, 0.9), torch.tensor([0.6], dtype=torch.float64)
    vs, advantages = vtrace_targets(rhos.log(), rewards, discounts, values, bootstrap, valid=valid)
    assert vs.squeeze(-1).tolist() == pytest.approx([2.7936, 2.63, 0.7, -0.352, 0.72], abs=1e-6)
    assert advantages.squeeze(-1).tolist() == pytest.approx([2.2936, 2.43, 0, -0.452, 0.32], abs=1e-6)
    for rows, after in ((slice(0, 2), values[2]), (slice(3, 5), bootstrap)):
        alone = vtrace_targets(rhos[rows].log(), rewards[rows], discounts[rows], values[rows], after)
        assert torch.equal(alone.vs, vs[rows])
        assert torch.equal(alone.pg_advantages, advantages[rows])


CLIPS = [
    {},
    {"rho_clip": 2.0},
    {"rho_clip": 3.0, "c_clip": 1.5, "pg_rho_clip": 0.7},
    {"rho_clip": float("inf"), "c_clip": 1.0, "pg_rho_clip": float("inf")},
    {"lambda_": 0.9},
    {"rho_clip": 0.5, "c_clip": 0.5, "lambda_": 0.0},
    {"lambda_": 0.7, "lambda_advantages": True},
    {"rho_clip": 3.0, "c_clip": 1.5, "pg_rho_clip": 0.7, "lambda_": 0.0, "lambda_advantages": True},
]


def random_inputs(seed=0, shape=(12, 6)):
    generator = np.random.default_rng(seed)
    log_rhos = generator.normal(size=shape)  # 0.1 to 10: crosses every clip from both sides
    rewards, values = generator.normal(size=shape), generator.normal(size=shape)
    discounts = 0.95 * (generator.random(shape) > 0.15)
    accept, valid = generator.random(shape) > 0.25, generator.random(shape) > 0.15
    return log_rhos, rewards, discounts, values, generator.normal(size=shape[1]), accept, valid


@pytest.mark.parametrize("clips", CLIPS)
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_it_is_the_papers_double_sum(clips, masked, dtype, tolerance):
    log_rhos, rewards, discounts, values, bootstrap, accept, valid = random_inputs()
    tensors = [torch.tensor(x, dtype=dtype) for x in (log_rhos, rewards, discounts, values, bootstrap)]
    masks = {"accept": torch.tensor(accept), "valid": torch.tensor(valid)} if masked else {}
    weight = accept & valid if masked else None
    expected = literal_vtrace(np.exp(log_rhos), rewards, discounts, values, bootstrap, **clips, weight=weight)
    got = vtrace_targets(*tensors, **clips, **masks)
    for ours, literal in zip(got, expected, strict=True):
        assert ours.dtype == dtype
        np.testing.assert_allclose(ours.numpy(), literal, rtol=tolerance, atol=10 * tolerance)


def test_advantages_over_lambda_are_gae_where_the_policy_is_the_behaviour():
    _, rewards, discounts, values, bootstrap, *_ = random_inputs()
    after = np.concatenate([values[1:], bootstrap[None]])
    errors, expected = rewards + discounts * after - values, np.zeros_like(rewards)
    for t in range(len(rewards)):
        weight = np.ones(rewards.shape[1])
        for k in range(t, len(rewards)):
            expected[t] += weight * errors[k]
            weight = weight * 0.8 * discounts[k]
    tensors = [torch.tensor(x) for x in (np.zeros_like(rewards), rewards, discounts, values, bootstrap)]
    got = vtrace_targets(*tensors, lambda_=0.8, lambda_advantages=True)
    np.testing.assert_allclose(got.pg_advantages.numpy(), expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose((got.vs - torch.tensor(values)).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_the_data_can_tell_the_mistakes():
    log_rhos, rewards, discounts, values, bootstrap, accept, valid = random_inputs()
    rhos = np.exp(log_rhos)
    right = literal_vtrace(rhos, rewards, discounts, values, bootstrap, 2.0, 1.5, 0.7, weight=accept & valid)

    def differs(*arguments, index=0, weight=accept & valid, **options):
        wrong = literal_vtrace(
            *arguments, **{"rho_clip": 2.0, "c_clip": 1.5, "pg_rho_clip": 0.7} | options, weight=weight
        )
        return not np.allclose(wrong[index], right[index], atol=1e-3)

    data = (rhos, rewards, discounts, values, bootstrap)
    assert differs(*data, rho_clip=1e9)
    assert differs(*data, c_clip=1e9)
    assert differs(*data, pg_rho_clip=1e9, index=1)
    assert differs(*data, weight=valid)
    assert differs(*data, weight=accept)
    assert differs(np.roll(rhos, -1, 0), *data[1:])  # Retrace's index in place of V-trace's
    assert differs(rhos, rewards, np.full_like(discounts, 0.95), values, bootstrap)
    # Carrying the trace through a rejected row instead of cutting it, as a sample mask does elsewhere.
    assert differs(np.where(accept & valid, rhos, 1.0), np.where(accept & valid, rewards, 0.0), *data[2:], weight=None)


def test_ratios_of_any_size_stay_finite():
    log_rhos = torch.tensor([[-1e30, 1e30, float("-inf"), float("inf"), 90.0, -90.0]])
    ones = torch.ones_like(log_rhos)
    for clips in ({}, {"rho_clip": float("inf"), "pg_rho_clip": float("inf")}):
        vs, advantages = vtrace_targets(log_rhos, ones, ones, ones, torch.ones(6), **clips)
        assert vs.isfinite().all()
        assert advantages.isfinite().all()


def test_unused_rows_may_hold_anything():
    nonsense = torch.tensor([[0.0], [float("nan")], [0.0]])
    ones, valid = torch.ones(3, 1), torch.tensor([[True], [False], [True]])
    vs, advantages = vtrace_targets(nonsense, ones, ones, ones, torch.ones(1), valid=valid)
    assert vs.isfinite().all()
    assert advantages[1] == 0


def test_everything_rejected_leaves_the_values():
    log_rhos, rewards, discounts, values, bootstrap, *_ = (torch.tensor(x) for x in random_inputs())
    nothing = torch.zeros_like(values, dtype=torch.bool)
    vs, advantages = vtrace_targets(log_rhos, rewards, discounts, values, bootstrap, accept=nothing)
    assert torch.equal(vs, values)
    assert not advantages.any()


def test_no_gradient_flows():
    inputs = [torch.rand(3, 2, requires_grad=True) for _ in range(4)]
    targets = vtrace_targets(*inputs, torch.rand(2, requires_grad=True))
    assert not targets.vs.requires_grad
    assert not targets.pg_advantages.requires_grad


@pytest.mark.parametrize("clips", [{"rho_clip": 0.5}, {"c_clip": 2.0}, {"rho_clip": float("nan")}])
def test_rho_clip_below_c_clip_is_refused(clips):
    with pytest.raises(ValueError, match="rho_clip must be at least c_clip"):
        small_example(**clips)
