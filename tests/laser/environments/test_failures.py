import pickle
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, EnvironmentFailedError, describe_environment, make_environment
from laser.environments.own import id_of
from laser.foreign_threads import left_behind

DEEDS = {
    "raise": ("raised", "KeyError: 'the door is locked'"),
    "nan": ("not_finite", "observation is not finite: nan at index [1] of environment 0"),
    "nan-reward": ("not_finite", "reward is not finite: nan of environment 0"),
    "huge-reward": ("not_finite", "reward is beyond +-1e+15, where sums of returns overflow: -1e+16 of environment 0"),
    "endless-reward": ("not_finite", "reward does not fit float32: 1e+300 of environment 0"),
    "shape": ("wrong_shape", "observation must have shape (3,), got (4,)"),
    "broadcastable-shape": ("wrong_shape", "observation must have shape (3,), got (1,)"),
    "dtype": ("wrong_shape", "observation must have a real dtype, got <U1"),
    "reward-shape": ("wrong_shape", "reward must be a number, got an array of shape (2,)"),
    "none-reward": ("wrong_shape", "reward must be a number, got None"),
    "exit": ("raised", "SystemExit: 3"),
    "interrupt": ("raised", "KeyboardInterrupt: "),
    "generator": ("raised", "GeneratorExit: "),
    "own": ("raised", "Panic: in Rust"),
    "mute": ("raised", "MuteError: its __str__ raised RuntimeError"),
    "word-flag": ("wrong_shape", "terminated must be True or False, got 'yes'"),
    "array-flag": ("wrong_shape", "terminated must be True or False, got an array of shape (2,)"),
}


def play(name, num_steps, **config):
    environment = make_environment(f"custom_environments:Bad-{name}-v0", 2, EnvironmentConfig(**config))
    try:
        environment.reset(0)
        for _ in range(num_steps):
            environment.send(np.zeros(2, np.int64))
            environment.recv()
    finally:
        environment.close()


def test_the_environment_is_fine_until_it_misbehaves():
    play("nothing", 5)
    play("raise", 2)


@pytest.mark.parametrize(("deed", "expected"), DEEDS.items())
def test_what_an_environment_does_wrong_is_named(deed, expected):
    # In a thread, as in a run: in the main thread a KeyboardInterrupt is the user's.
    with ThreadPoolExecutor(1) as thread, pytest.raises(EnvironmentFailedError) as caught:
        thread.submit(play, deed, 3).result()
    assert (caught.value.reason, str(caught.value)) == expected


def test_an_interrupt_in_the_main_thread_is_the_users():
    with pytest.raises(KeyboardInterrupt):
        play("interrupt", 3)


@pytest.mark.parametrize(("deed", "expected"), [(deed, DEEDS[deed]) for deed in ("raise", "nan", "shape")])
def test_a_reset_is_checked_too(deed, expected):
    with pytest.raises(EnvironmentFailedError) as caught:
        play(f"{deed}-at-reset", 0)
    assert (caught.value.reason, str(caught.value)) == expected


@pytest.mark.parametrize(
    "deed", ["raise", "nan", "broadcastable-shape", "exit", "interrupt", "generator", "own", "mute", "word-flag"]
)
def test_failures_cross_process_borders(deed):
    with pytest.raises(EnvironmentFailedError) as caught:
        play(deed, 3, vectorization="async")
    assert (caught.value.reason, str(caught.value)) == DEEDS[deed]


def test_the_environments_own_traceback_comes_along():
    with pytest.raises(EnvironmentFailedError) as caught:
        play("raise", 3, vectorization="async")
    assert "custom_environments.py" in caught.value.__notes__[0]


@pytest.mark.parametrize("name", ["hang", "hang-at-reset"])
def test_a_hung_process_is_named_and_ended(name):
    begun = time.monotonic()
    with pytest.raises(
        EnvironmentFailedError, match=r"environment 0(, 1)? did not finish a (step|reset) within 2 s"
    ) as caught:
        play(name, 3, vectorization="async", deadline_s=2.0)
    assert caught.value.reason == "hung"
    assert time.monotonic() - begun < 20


def test_a_reset_that_hangs_is_noticed_before_a_run_in_processes():
    config = EnvironmentConfig(vectorization="async", deadline_s=0.5)
    with pytest.raises(ConfigError, match=r"cannot be reset: environment 0 did not finish a reset within 0.5 s"):
        describe_environment("custom_environments:Bad-hang-at-reset-v0", config)


class Slow(CartPoleEnv):
    """Does not return from a method of its class for a while."""

    slow = ""

    def __init__(self, **arguments):
        super().__init__(**arguments)
        self._wait("constructor")

    def reset(self, **arguments):
        self._wait("reset")
        return super().reset(**arguments)

    def close(self):
        self._wait("close")

    def _wait(self, method):
        if method == Slow.slow:
            time.sleep(3.0)


@pytest.mark.parametrize(
    ("method", "words"),
    [
        ("constructor", r"its construction or first reset for 0\.2 s"),
        ("reset", r"its construction or first reset for 0\.2 s"),
        ("close", r"close\(\) for 0\.2 s"),
        ("", ""),
    ],
)
def test_an_environment_that_does_not_return_is_named_at_its_deadline(monkeypatch, method, words):
    monkeypatch.setattr(Slow, "slow", method)
    monkeypatch.setattr("laser.environments.config._CONSTRUCTION_DEADLINE_S", 0.2)
    config, id = EnvironmentConfig(deadline_s=0.2), id_of(Slow)
    if not method:
        assert describe_environment(id, config).id == id
        return
    with pytest.raises(ConfigError, match=f"Slow did not return from {words}; mend it, or raise environment.deadline"):
        describe_environment(id, config)
    assert f"first look at {id}" in left_behind()  # so that the process does not wait for it at its end


def test_a_process_that_ends_is_noticed():
    with pytest.raises(EnvironmentFailedError, match="a process ended") as caught:
        play("die", 3, vectorization="async")
    assert caught.value.reason == "raised"


@pytest.mark.parametrize("vectorization", ["sync", "async"])
def test_a_constructor_that_raises_is_the_users_mistake(vectorization):
    with pytest.raises(ConfigError, match=r"env: .* cannot be built: RuntimeError: no licence for the simulator"):
        play("construct", 0, vectorization=vectorization)


def test_the_error_keeps_its_reason_between_processes():
    error = pickle.loads(pickle.dumps(EnvironmentFailedError("hung", "too slow")))
    assert (error.reason, str(error)) == ("hung", "too slow")
