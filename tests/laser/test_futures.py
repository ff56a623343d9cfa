from concurrent.futures import Future

import pytest

from laser.futures import claim, combine, done, fail, failed, forward, give, settle


def cancelled():
    future = Future()
    assert future.cancel()
    return future


def test_a_claimed_future_cannot_be_cancelled_and_may_be_claimed_again():
    future = Future()
    assert claim(future)
    assert claim(future)
    assert not future.cancel()
    assert not claim(cancelled())


def test_settling_gives_each_its_result_or_error():
    good, bad = Future(), Future()
    settle([(good, 3, None), (bad, None, KeyError("x"))])
    assert good.result(0) == 3
    assert isinstance(bad.exception(0), KeyError)


@pytest.mark.parametrize("is_claimed", [False, True])
def test_what_is_made_or_raised_is_given(is_claimed):
    made, raised, explained = Future(), Future(), Future()
    if is_claimed:
        assert all(map(claim, (made, raised, explained)))
    give(made, lambda: 3)
    give(raised, lambda: 1 // 0)
    give(explained, lambda: 1 // 0, lambda error: ValueError(f"made of {type(error).__name__}"))
    assert made.result(0) == 3
    assert isinstance(raised.exception(0), ZeroDivisionError)
    with pytest.raises(ValueError, match=r"^made of ZeroDivisionError$"):
        explained.result(0)


def test_nothing_is_made_for_a_cancelled_future():
    made = []
    give(cancelled(), lambda: made.append(1))
    fail(cancelled(), KeyError())
    forward(cancelled(), done(3), made.append)
    assert not made


def test_results_and_errors_are_forwarded_as_converted_and_explained():
    plain, converted, broken, explained = Future(), Future(), Future(), Future()
    forward(plain, done(3))
    forward(converted, done(3), lambda value: value + 1, explain=lambda error: KeyError())
    forward(broken, done(0), lambda value: 1 // value)
    forward(explained, failed(KeyError("x")), explain=lambda error: ValueError(*error.args))
    assert plain.result(0) == 3
    assert converted.result(0) == 4
    assert isinstance(broken.exception(0), ZeroDivisionError)
    assert isinstance(explained.exception(0), ValueError)


def test_parts_are_merged_in_their_order_once_the_last_is_there():
    parts = [Future() for _ in range(3)]
    whole = combine(parts, lambda results: results)
    for index in (2, 0, 1):
        assert not whole.done()
        parts[index].set_result(index)
    assert whole.result(0) == [0, 1, 2]


def test_the_first_part_that_failed_fails_the_whole():
    whole = combine([done(1), failed(KeyError("first")), failed(ValueError("second"))], sum)
    with pytest.raises(KeyError, match="first"):
        whole.result(0)
