import math

import numpy as np
import pytest

from laser.evaluation.protocols import Episodes, bucket_means, sweep_curve
from laser.evaluation.scores import Reference

REFERENCES = {"a": Reference(0.0, 10.0), "b": Reference(20.0, 70.0), "c": Reference(-5.0, 5.0)}


def episodes(*pairs):
    ended_at, returns = zip(*pairs, strict=True)
    return Episodes(np.array(ended_at), np.array(returns, float))


def test_episodes_are_averaged_where_they_end():
    means = bucket_means(episodes((1, 10), (100, 20), (101, 7), (399, 1), (401, 99)), 100, 4)
    np.testing.assert_array_equal(means, [15, 7, 7, 1])


def test_before_the_first_episode_nothing_is_known():
    np.testing.assert_array_equal(bucket_means(episodes((250, 3)), 100, 4), [math.nan, math.nan, 3, 3])


def random_sweep(num_members=3):
    generator = np.random.default_rng(2)
    return [
        {
            task: Episodes(generator.integers(1, 1001, 200), generator.normal(20, 15, 200))
            for task in REFERENCES
        }
        for _ in range(num_members)
    ]  # fmt: skip


def literal_curve(members, width, num_buckets, downsampling, capped, order="paper"):
    """The protocol in loops; `order` tells wrong ones apart."""
    curves = []
    for tasks in members:
        points = []
        for bucket in range(num_buckets):
            scores = []
            for task, played in tasks.items():
                inside = [
                    value
                    for at, value in zip(played.ended_at, played.returns, strict=True)
                    if bucket * width < at <= (bucket + 1) * width
                ]
                reference = REFERENCES[task]
                score = (sum(inside) / len(inside) - reference.random) / (reference.human - reference.random)
                scores.append(min(1.0, score) if capped else score)
            points.append(sum(scores) / len(scores) if capped else sorted(scores)[len(scores) // 2])
        curves.append(points)
    if order == "best before downsampling":
        best = [max(curve[bucket] for curve in curves) for bucket in range(num_buckets)]
        return [sum(best[i : i + downsampling]) / downsampling for i in range(0, num_buckets, downsampling)]
    smooth = [
        [sum(curve[i : i + downsampling]) / downsampling for i in range(0, num_buckets, downsampling)]
        for curve in curves
    ]
    return [max(curve[point] for curve in smooth) for point in range(num_buckets // downsampling)]


@pytest.mark.parametrize("downsampling", [1, 2])
@pytest.mark.parametrize("capped", [False, True])
def test_the_curve_of_a_sweep_equals_literal_loops(downsampling, capped):
    members = random_sweep()
    over_tasks = "mean capped" if capped else "median"
    curve = sweep_curve(members, REFERENCES, 100, 10, downsampling, over_tasks)
    np.testing.assert_allclose(curve.best, literal_curve(members, 100, 10, downsampling, capped), atol=1e-12)
    np.testing.assert_array_equal(curve.ends, 100 * downsampling * np.arange(1, 10 // downsampling + 1))
    assert curve.members.shape == (3, 10 // downsampling)


def test_the_data_can_tell_a_best_taken_too_early():
    members = random_sweep()
    wrong = literal_curve(members, 100, 10, 2, False, "best before downsampling")
    assert not np.allclose(sweep_curve(members, REFERENCES, 100, 10, 2).best, wrong)


def test_two_tasks_capped():
    members = [{"a": episodes((1, 5)), "b": episodes((1, 120))}]
    assert sweep_curve(members, REFERENCES, 10, 1, over_tasks="mean capped").best == [0.75]
    assert sweep_curve(members, REFERENCES, 10, 1).best == [1.25]


def test_a_member_that_has_not_begun_does_not_hide_the_others():
    members = [{"a": episodes((1, 5), (11, 5))}, {"a": episodes((11, 8))}]
    curve = sweep_curve(members, REFERENCES, 10, 2)
    np.testing.assert_allclose(curve.best, [0.5, 0.8])
    assert math.isnan(curve.members[1, 0])
    nobody = sweep_curve([{"a": episodes((11, 8))}], REFERENCES, 10, 2)
    assert math.isnan(nobody.best[0])


def test_buckets_must_fill_the_points():
    with pytest.raises(ValueError, match=r"multiple of downsampling \(3\), got 10"):
        sweep_curve([], REFERENCES, 1, 10, 3)
