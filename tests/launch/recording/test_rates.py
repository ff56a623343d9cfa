import pytest

from launch.recording.rates import rates


def test_rates_are_growth_over_the_span():
    growth = {"env_steps": 100.0, "steps_learned/online": 50.0, "steps_learned/replayed": 150.0, "time/inference": 5.0}
    assert rates(growth, 10.0) == pytest.approx(
        {"throughput/acting": 10.0, "throughput/learning": 20.0, "busy/inference": 0.5, "replay/fraction": 0.75}
    )


def test_nothing_learned_has_no_fraction_and_no_time_no_rate():
    assert "replay/fraction" not in rates({"env_steps": 1.0}, 1.0)
    assert rates({"env_steps": 1.0}, 0.0) == {}
