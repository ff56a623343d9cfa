import json
import math

import numpy as np
import pytest

from laser.ports import EpisodeResult
from laser.scoring.scores import find_reference
from launch.recording.task_returns import TaskReturns, bucket_frames, task_metrics

POLES = ("CartPole-v1", "Acrobot-v1")
GAMES = ("ALE/Pong-v5", "ALE/Breakout-v5")


def episode(value, task=0):
    return EpisodeResult(float(value), 10, task)


def test_newest_returns_by_task():
    returns = TaskReturns(POLES, 1000)
    returns.add([episode(value) for value in range(30)], 100)
    assert returns.metrics() == {"tasks/CartPole-v1/mean_return": np.mean(range(10, 30))}
    returns.add([episode(-3, 1)], 110)
    assert returns.metrics()["tasks/Acrobot-v1/mean_return"] == -3


def test_fitness_is_the_mean_return_or_the_capped_score_once_there_are_twenty_episodes():
    alone = TaskReturns(POLES[:1], 1000)
    alone.add([episode(value) for value in range(19)], 10)
    assert alone.fitness() is None
    alone.add([episode(value) for value in range(19, 30)], 20)
    assert alone.fitness() == np.mean(range(10, 30))
    several = TaskReturns(GAMES, 1000)
    several.add([episode(1000.0)] * 20, 10)
    assert several.fitness() is None, "nothing is known of the other game"
    reference = find_reference(GAMES[1])
    several.add([episode((reference.random + reference.human) / 2, 1)], 20)
    assert several.fitness() == pytest.approx((1.0 + 0.5) / 2), "the first game counts 1 at most"


def test_normalised_scores_wait_for_every_task():
    returns = TaskReturns((*GAMES, "ALE/Freeway-v5"), 1000)
    returns.add([episode(14.6)], 10)
    assert set(returns.metrics()) == {"tasks/ALE/Pong-v5/mean_return"}
    assert returns.normalised_score() is None
    returns.add([episode(1.7 + 3 * 28.8, 1), episode(8 * 29.6, 2)], 20)
    found = returns.metrics()
    assert found["tasks/normalised_median"] == returns.normalised_score() == pytest.approx(3.0)
    assert found["tasks/normalised_mean"] == pytest.approx(4.0)
    assert found["tasks/normalised_mean_capped"] == pytest.approx(1.0)


def test_one_task_has_normalised_scores_too():
    returns = TaskReturns(("mini/Catch-v0",), 1000)
    returns.add([episode(0.2)], 10)
    assert returns.metrics() == {
        f"tasks/normalised_{name}": pytest.approx(0.5) for name in ("median", "mean", "mean_capped")
    }
    assert TaskReturns(("CartPole-v1",), 1000).metrics() == {}


def literal_means(at, values, width, num_buckets):
    """Means over the episodes that ended in (0, width], (width, 2 width], ...; an empty one repeats the one before."""
    means, newest = [], math.nan
    for bucket in range(num_buckets):
        inside = [
            value for when, value in zip(at, values, strict=True) if bucket * width < when <= (bucket + 1) * width
        ]
        newest = sum(inside) / len(inside) if inside else newest
        means.append(newest)
    return means


def literal_numbers(at, width, num_buckets):
    """Numbers of episodes that ended in (0, width], (width, 2 width], ...; an empty one repeats the one before."""
    numbers, newest = [], 0
    for bucket in range(num_buckets):
        newest = sum(bucket * width < when <= (bucket + 1) * width for when in at) or newest
        numbers.append(newest)
    return numbers


@pytest.mark.parametrize("resumed", [False, True])
def test_buckets_are_those_of_the_protocol(resumed):
    generator = np.random.default_rng(0)
    width, num_buckets = 100, 12
    at = np.sort(generator.integers(1, width * (num_buckets + 1), 60))  # few enough to leave buckets empty
    tasks = generator.integers(0, 2, 60)
    values = generator.normal(10, 5, 60)
    returns, found = TaskReturns(GAMES, width), {}
    for number, (frames, task, value) in enumerate(zip(at, tasks, values, strict=True)):
        if resumed and number == 30:
            state = json.loads(json.dumps(returns.state_dict()))
            returns = TaskReturns(GAMES, width)
            returns.load_state_dict(state)
        returns.add([episode(value, int(task))], int(frames))
        for end, metrics in returns.take_closed():
            if "buckets/ends_at" in metrics:
                assert metrics["buckets/ends_at"] == end
                found[end] = metrics
    returns.finish(width * num_buckets)
    found |= dict(returns.take_closed())
    wanted = [literal_means(at[tasks == task], values[tasks == task], width, num_buckets) for task in (0, 1)]
    numbers = [literal_numbers(at[tasks == task], width, num_buckets) for task in (0, 1)]
    known = [
        width * (bucket + 1) for bucket in range(num_buckets) if not math.isnan(wanted[0][bucket] + wanted[1][bucket])
    ]
    assert list(found) == known, "every bucket, empty ones and the last one too"
    assert len(found) > 5
    for end, metrics in found.items():
        bucket = end // width - 1
        for task, id in enumerate(GAMES):
            assert metrics[f"buckets/{id}/mean_return"] == pytest.approx(wanted[task][bucket])
        assert metrics["buckets/fewest_episodes"] == min(numbers[0][bucket], numbers[1][bucket])
        normalised = [find_reference(id).normalise(wanted[task][bucket]) for task, id in enumerate(GAMES)]
        assert metrics["buckets/normalised_median"] == pytest.approx(np.median(normalised))


def test_buckets_that_no_episode_ended_in_repeat_the_one_before():
    returns = TaskReturns(POLES[:1], 100)
    returns.add([episode(1.0)], 50)
    returns.add([episode(3.0)], 350)
    closed = [(end, metrics["buckets/mean_return"]) for end, metrics in returns.take_closed()]
    assert closed == [(100, 1.0), (200, 1.0), (300, 1.0)]
    assert returns.take_closed() == []
    assert returns.metrics()["buckets/fewest_episodes"] == 1


def test_a_run_begun_before_episodes_of_buckets_were_counted_has_their_number_once_every_task_is_counted():
    returns = TaskReturns(POLES[:1], 100)
    returns.add([episode(1.0)], 50)
    returns.add([episode(1.0)], 150)
    state = returns.state_dict()
    del state["numbers"]
    resumed = TaskReturns(POLES[:1], 100)
    resumed.load_state_dict(state)
    assert "buckets/fewest_episodes" not in resumed.metrics()
    resumed.add([episode(1.0)], 250)
    assert resumed.metrics()["buckets/fewest_episodes"] == 1


def test_a_run_that_goes_on_for_longer_keeps_the_width_of_its_buckets():
    returns = TaskReturns(POLES[:1], 1000)
    for frames in range(500, 10_500, 1000):
        returns.add([episode(frames)], frames)
    longer = TaskReturns(POLES[:1], 5000)
    longer.load_state_dict(json.loads(json.dumps(returns.state_dict())))
    for one in (returns, longer):
        one.add([episode(-1.0)], 10_500)
        one.add([episode(0.0)], 11_500)
    assert longer.metrics() == returns.metrics()
    assert longer.metrics()["buckets/ends_at"] == 11_000


@pytest.mark.parametrize(
    ("tasks", "total", "width"),
    [
        (("ALE/Pong-v5",), 200_000_000, 1_000_000),
        (("dmlab/rooms_watermaze", "dmlab/lasertag_one_opponent_small"), 10**10, 10_000_000),
        (("CartPole-v1",), 100_000, 5_000),
        (("CartPole-v1",), 3, 1),
    ],
)
def test_the_width_of_a_bucket(tasks, total, width):
    assert bucket_frames(tasks, total) == width


def test_names_begin_with_the_prefix():
    assert task_metrics(POLES, {1: 2.0}, "evaluation") == {"evaluation/Acrobot-v1/mean_return": 2.0}


def test_a_bucket_has_the_percentiles_of_its_own_episodes():
    values = np.random.default_rng(0).normal(size=(3, 40))
    returns = TaskReturns(("CartPole-v1",), 100)
    for bucket, row in enumerate(values):
        for place, value in enumerate(row.tolist()):
            returns.add([episode(value)], 100 * bucket + 2 * place + 1)
    returns.finish(300)
    closed = returns.take_closed()
    assert [end for end, _ in closed] == [100, 200, 300]
    for (_, metrics), row in zip(closed, values, strict=True):
        assert metrics["buckets/return_p20"] == pytest.approx(np.percentile(row, 20))
        assert metrics["buckets/return_p80"] == pytest.approx(np.percentile(row, 80))
    # A bucket in which no episode ends keeps what it had, like its mean.
    returns.finish(400)
    ((_, metrics),) = returns.take_closed()
    assert metrics["buckets/return_p20"] == pytest.approx(np.percentile(values[2], 20))
    several = TaskReturns(POLES, 100)
    several.add([episode(1), episode(2, 1)], 50)
    several.finish(100)
    assert not [name for name in several.take_closed()[0][1] if "return_p" in name]


def test_percentiles_go_on_and_states_of_before_begin_them_anew():
    whole, first = TaskReturns(POLES[:1], 100), TaskReturns(POLES[:1], 100)
    values = np.random.default_rng(0).normal(size=60).tolist()
    for returns in (whole, first):
        returns.add([episode(value) for value in values[:30]], 40)
    state = json.loads(json.dumps(first.state_dict()))
    resumed, older = TaskReturns(POLES[:1], 100), TaskReturns(POLES[:1], 100)
    resumed.load_state_dict(state)
    older.load_state_dict({key: value for key, value in state.items() if key not in ("returns", "percentiles")})
    for returns in (whole, resumed, older):
        returns.add([episode(value) for value in values[30:]], 60)
        returns.finish(100)
    ((_, expected),) = whole.take_closed()
    assert resumed.take_closed() == [(100, expected)]
    ((_, metrics),) = older.take_closed()
    assert metrics["buckets/mean_return"] == expected["buckets/mean_return"]
    assert metrics["buckets/return_p20"] == pytest.approx(np.percentile(values[30:], 20))
