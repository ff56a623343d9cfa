import pytest

from launch.recording.bottleneck import name_bottleneck


def seconds(**parts):
    return {f"time/{name}": value for name, value in parts.items()}


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"learner_step": 9.5, "learner_wait": 0.5, "environment": 2, "insert_wait": 8}, "learner (95% of its time"),
        ({"learner_step": 3, "publish": 6, "learner_wait": 0.5}, "publishing"),
        ({"learner_step": 3, "learner_wait": 7, "environment": 7, "inference": 3}, "environment (70% of the actors'"),
        ({"learner_step": 3, "learner_wait": 7, "environment": 2, "inference": 8}, "inference (80% of the actors'"),
        ({"learner_step": 3, "learner_wait": 7, "environment": 1, "insert_wait": 9}, "replay (actors spend 90%"),
        ({"learner_step": 3, "learner_wait": 7, "environment": 5, "decode": 9}, "transfer (decoding takes 90%"),
        ({"learner_wait": 10}, "actors (nothing has arrived yet)"),
        ({"environment": 6, "inference": 4}, "environment (60%"),
        ({}, ""),
        ({"environment": 0.0}, ""),
    ],
)
def test_the_part_that_limits_is_named(parts, says):
    result = name_bottleneck(seconds(**parts), 10.0)
    assert result.startswith(says)
    assert bool(result) == bool(says)


def test_a_restarted_source_or_an_empty_span_is_no_reason_to_guess():
    assert name_bottleneck(seconds(environment=-5.0), 10.0) == ""
    assert name_bottleneck(seconds(environment=5.0), 0.0) == ""


@pytest.mark.parametrize(
    ("parts", "says"),
    [
        ({"learner_step": 6, "learner_wait": 1, "inference": 2, "environment": 1}, "learner (60% of the time at work)"),
        ({"learner_step": 2, "learner_wait": 4, "inference": 1, "decode": 4}, "drawing batches (57%"),
        ({"learner_step": 2, "learner_wait": 1, "inference": 3, "environment": 4}, "environment (40%"),
        ({"learner_step": 0.0}, ""),
        ({}, ""),
    ],
)
def test_where_all_take_turns_what_takes_longest_limits(parts, says):
    result = name_bottleneck(seconds(**parts), 10.0, in_turns=True)
    assert result.startswith(says)
    assert bool(result) == bool(says)
