"""Masks stand beside the observations they belong to, in every form of vector, and mistakes of theirs have names."""

import itertools

import numpy as np
import pytest
from gymnasium import spaces
from masked_worlds import Gates

from laser.config import ConfigError
from laser.environments import EnvironmentConfig, EnvironmentFailedError, describe_environment, make_environment
from laser.environments.own import id_of
from laser.environments.vector import GymnasiumVector
from laser.specs import ACTION_MASK, MaskSpec, VectorSpec, environment_spec_from_json

GATES = "masked_worlds:Gates"
FORMS = [(False, False), (True, False), (True, True)]
DEEDS = {
    "missing": ("wrong_mask", "info must hold 'action_mask' at every step, as at the first reset, got none"),
    "shape": ("wrong_shape", "action_mask must have shape (5,), got (4,)"),
    "dtype": ("wrong_shape", "action_mask must hold True or False, or 1 or 0, got dtype <U3"),
    "ragged": ("wrong_shape", "action_mask must have one shape for all, got setting an array element with a sequence."),
    "twos": ("wrong_mask", "action_mask must hold 1 where allowed, else 0, got 2"),
    "nothing": ("wrong_mask", "action_mask allows no action; allow one, or terminate the episode"),
}


def play(environment, num_steps, sizes):
    """Step with random allowed actions; yield every part with its observations checked against the masks."""
    rng = np.random.default_rng(0)
    observations = environment.reset(0)
    for _ in range(num_steps):
        masks = np.split(observations[ACTION_MASK], np.cumsum(sizes)[:-1], -1)
        actions = np.stack([(mask * rng.random(mask.shape)).argmax(-1) for mask in masks], -1)
        environment.send(actions if len(sizes) > 1 else actions[:, 0])
        for part in environment.recv():
            for name, value in part.observations.items():
                observations[name][part.environments] = value
            yield part


def check(part, sizes):
    mask = part.observations[ACTION_MASK]
    assert mask.dtype == bool
    assert mask.any(-1).all()
    seen = next(value for name, value in part.observations.items() if name != ACTION_MASK)
    first = mask[:, : sizes[0]] & ~part.terminated[:, None]
    np.testing.assert_allclose(seen[:, 1], first[:, :2].sum(-1) / 2)
    np.testing.assert_allclose(seen[:, 2], first.mean(-1), atol=1e-6)
    assert mask[part.terminated].all()


@pytest.mark.parametrize("vectorization", ["sync", "async", "NEXT_STEP", "SAME_STEP", "DISABLED"])
@pytest.mark.parametrize("place", ["info", "observation"])
@pytest.mark.parametrize(("several", "parts"), FORMS)
def test_every_row_has_its_own_mask(vectorization, place, several, parts):
    kwargs = {"place": place, "several": several, "parts": parts}
    if vectorization in ("sync", "async"):
        environment = make_environment(GATES, 3, EnvironmentConfig(vectorization=vectorization, kwargs=kwargs))
    else:
        name = f"masked_worlds:Gates-{vectorization}-{place}-{several}-{parts}-v0"
        environment = make_environment(name, 3, EnvironmentConfig())
        assert isinstance(environment, GymnasiumVector)
    sizes = (3, 4) if several else (5,)
    try:
        assert environment.spec.observations[ACTION_MASK] == MaskSpec(sizes)
        assert environment_spec_from_json(environment.spec.to_json()) == environment.spec
        seen = "seen" if place == "observation" else "observation"
        assert environment.spec.without_action_masks().observations == {seen: VectorSpec((3,))}
        ends = np.zeros(3, int)
        for part in play(environment, 60, sizes):
            check(part, sizes)
            ends += [part.terminated.sum(), (part.truncated & ~part.terminated).sum(), part.ignored.sum()]
        assert (ends > 0).all()
    finally:
        environment.close()


@pytest.mark.parametrize("vectorization", ["sync", "async"])
@pytest.mark.parametrize(("deed", "expected"), DEEDS.items())
def test_what_is_wrong_with_a_mask_is_named(vectorization, deed, expected):
    config = EnvironmentConfig(vectorization=vectorization, kwargs={"deed": deed, "length": 100})
    environment = make_environment(GATES, 1, config)
    with pytest.raises(EnvironmentFailedError) as caught:
        list(play(environment, 200, (5,)))
    environment.close()
    reason, words = expected
    assert caught.value.reason == reason
    assert str(caught.value).startswith(words)


def test_each_choice_must_allow_something():
    kwargs = {"several": True, "parts": True, "deed": "nothing", "length": 100}
    environment = make_environment(GATES, 1, EnvironmentConfig(kwargs=kwargs))
    with pytest.raises(EnvironmentFailedError, match="allows no action for choice 0; allow one"):
        list(itertools.islice(play(environment, 200, (3, 4)), 200))


@pytest.mark.parametrize(
    ("env", "kwargs", "words"),
    [
        (
            "RealGates",
            {},
            "has action masks, which need Discrete or MultiDiscrete .* use --environment.action-masks off",
        ),
        ("RealGates", {"place": "observation"}, "has action masks, which need Discrete or MultiDiscrete actions"),
        ("Sized", {}, r"has 5 actions, and its action_mask has the space MultiBinary\(4\)"),
        ("Blind", {}, "has nothing to see beside its action_mask"),
    ],
)
def test_masks_that_do_not_fit_are_refused_before_a_run(env, kwargs, words):
    with pytest.raises(ConfigError, match=rf"^env: .*{words}"):
        describe_environment(f"masked_worlds:{env}", EnvironmentConfig(kwargs=kwargs))


def test_masks_can_be_switched_off():
    off = EnvironmentConfig(action_masks="off", kwargs={"place": "observation"})
    assert describe_environment(GATES, off).observations == {ACTION_MASK: VectorSpec((5,)), "seen": VectorSpec((3,))}
    off = EnvironmentConfig(action_masks="off")
    assert describe_environment(GATES, off).observations == {"observation": VectorSpec((3,))}
    assert not describe_environment("masked_worlds:RealGates", off).has_action_masks


def test_a_mask_of_gymnasiums_own_is_found():
    spec = describe_environment("Taxi-v4", EnvironmentConfig())
    assert spec.observations[ACTION_MASK] == MaskSpec((6,))


def test_an_environment_without_masks_is_not_wrapped():
    environment = make_environment(GATES, 1, EnvironmentConfig(kwargs={"place": "nowhere"}))
    assert type(environment._environments[0].unwrapped).__name__ == "Gates"
    assert "Masked" not in str(environment._environments[0])
    environment.close()


@pytest.mark.parametrize("place", ["info", "observation"])
def test_a_restored_environment_has_its_masks_again(place):
    config = EnvironmentConfig(kwargs={"place": place})
    environment, other = make_environment(GATES, 2, config), make_environment(GATES, 2, config)
    for _ in play(environment, 7, (5,)):
        pass
    state = environment.state_dict()
    restored = other.load_state_dict(state)
    for _ in range(20):
        actions = restored[ACTION_MASK].argmax(-1)
        environment.send(actions)
        other.send(actions)
        (one,), (two,) = environment.recv(), other.recv()
        for name, value in one.observations.items():
            np.testing.assert_array_equal(value, two.observations[name])
        restored = two.observations


class Pairs(Gates):
    """Sees a pair, one part of which is nested."""

    def __init__(self, nonsense=False):
        super().__init__("info")
        real = spaces.Box(-1, 1, (3,), np.float32)
        self.observation_space = spaces.Tuple([real, spaces.Dict({"also": real})])
        self._nonsense = nonsense

    def _answer(self, terminated):
        seen, info = super()._answer(terminated)
        return 3 if self._nonsense and self._time else (seen, {"also": seen}), info


def test_parts_of_an_observation_keep_their_names():
    environment = make_environment(id_of(Pairs), 2, EnvironmentConfig())
    assert set(environment.spec.observations) == {"0", "1/also", ACTION_MASK}
    for part in play(environment, 20, (5,)):
        check(part, (5,))
    environment = make_environment(id_of(Pairs), 1, EnvironmentConfig(kwargs={"nonsense": True}))
    with pytest.raises(EnvironmentFailedError, match="observation must be a tuple, got int"):
        list(play(environment, 3, (5,)))
