import re
import warnings

import gymnasium
import pytest
from gymnasium.envs.classic_control import PendulumEnv

from laser.environments import EnvironmentConfig, describe_environment
from laser.environments.own import id_of

OBSERVATION, REWARD = "gymnasium.wrappers:NormalizeObservation", "gymnasium.wrappers:NormalizeReward"


def normalised():
    return gymnasium.wrappers.NormalizeReward(PendulumEnv())


@pytest.mark.parametrize(
    ("wrappers", "names"),
    [
        (OBSERVATION, "NormalizeObservation of Pendulum-v1 keeps"),
        (f"{OBSERVATION},{REWARD}", "NormalizeReward and NormalizeObservation of Pendulum-v1 keep"),
        (f"{OBSERVATION},gymnasium.wrappers:ClipReward(-1,1)", "NormalizeObservation of Pendulum-v1 keeps"),
    ],
)
def test_wrappers_whose_statistics_are_lost_are_named_in_one_line(wrappers, names):
    with pytest.warns(UserWarning, match=f"^{re.escape(names)} .*no checkpoint: every actor, laser eval") as said:
        describe_environment("Pendulum-v1", EnvironmentConfig(wrappers=wrappers))
    assert len(said) == 1


def test_so_are_those_that_an_environment_brings_itself():
    with pytest.warns(UserWarning, match="^NormalizeReward of .*normalised"):
        describe_environment(id_of(normalised), EnvironmentConfig())


@pytest.mark.parametrize("wrappers", ["", "gymnasium.wrappers:RescaleObservation(-1,1)"])
def test_other_wrappers_are_not(wrappers):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        describe_environment("Pendulum-v1", EnvironmentConfig(wrappers=wrappers))
