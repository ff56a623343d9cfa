import threading

import pytest

from laser.waiting import current_wait, waiting_for


def test_the_innermost_wait_of_each_thread_is_known():
    here = threading.get_ident()
    assert current_wait(here) is None
    with waiting_for("the whole"):
        with waiting_for(lambda: "a part"):
            wait = current_wait(here)
            assert wait is not None
            assert wait.what() == "a part"
            assert current_wait(here + 1) is None
        wait = current_wait(here)
        assert wait is not None
        assert wait.what() == "the whole"
    assert current_wait(here) is None


def test_a_wait_that_fails_is_over():
    with pytest.raises(KeyError), waiting_for("a key"):
        raise KeyError
    assert current_wait(threading.get_ident()) is None
