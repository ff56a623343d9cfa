import threading

import pytest

from laser.foreign_threads import HungError, Phases, left_behind, run_in_phases


def test_results_and_errors_come_from_another_thread():
    assert run_in_phases(lambda phases: threading.current_thread().name, Phases(), "elsewhere") == "elsewhere"

    def fail(phases):
        raise SystemExit("out")

    with pytest.raises(SystemExit, match="out"):
        run_in_phases(fail, Phases(), "elsewhere")
    assert "elsewhere" not in left_behind()


@pytest.mark.parametrize("is_patient", [False, True])
def test_a_phase_that_takes_longer_than_its_deadline_is_named(is_patient):
    free = threading.Event()

    def work(phases):
        phases.enter("the first", 100.0)
        phases.enter("the second", 100.0 if is_patient else 0.01)
        assert free.wait(10.0)
        return 3

    if is_patient:
        threading.Timer(0.1, free.set).start()
        assert run_in_phases(work, Phases(), "elsewhere") == 3
        return
    with pytest.raises(HungError, match=r"^the second for 0\.01 s$"):
        run_in_phases(work, Phases(), "elsewhere")
    assert "elsewhere" in left_behind()
    free.set()
