"""Which settings are the chosen sampler's, and which of the others are named as unused."""

import pytest

from laser.config import find_problems
from laser.prioritization.config import SamplerSettings
from replay_server.config import ReplayConfig
from replay_server.samplers import find_samplers
from replay_server.samplers.ero import EroConfig
from replay_server.samplers.ners import NersConfig
from replay_server.samplers.uniform_steps import UniformSteps

NAMES = sorted({kind.name for kind in find_samplers()})


class Silent(UniformSteps):
    """Does not say which shared settings it reads."""

    reads = None


def keys(problems):
    return [problem.key for problem in problems]


@pytest.mark.parametrize("name", NAMES)
def test_a_sampler_alone_has_no_problems(name):
    config = ReplayConfig(sampler=name)
    assert not list(find_problems(config))
    assert not [*config.unused(), *config.sampler_warnings()]


def test_samplers_with_a_section_find_their_settings_there():
    config = ReplayConfig(sampler="ners", ners=NersConfig(batch_size=7), ero=EroConfig(batch_size=9))
    assert config.own_settings == config.learned == NersConfig(batch_size=7)
    assert type(config.sampler_settings) is SamplerSettings
    assert keys(config.unused()) == ["replay.ero.batch-size"]
    assert ReplayConfig(sampler="per").own_settings == SamplerSettings()
    assert ReplayConfig(sampler="per").learned is None


@pytest.mark.parametrize(
    ("name", "unused"),
    [
        ("per", set()),
        ("rank", set()),
        ("ners", {"priority-uniform"}),
        ("ero", {"priority-exponent", "priority-uniform", "importance-exponent", "importance-schedule"}),
        ("uniform", {"priority-exponent", "priority-uniform", "importance-exponent", "importance-schedule"}),
        (f"{__name__}:Silent", set()),
    ],
)
def test_shared_settings_that_nothing_reads_are_named(name, unused):
    changed = {"priority_exponent": 0.9, "priority_uniform": 0.3, "importance_exponent": 0.2}
    config = ReplayConfig(sampler=name, importance_schedule="constant", **changed)
    assert set(keys(config.unused())) == {f"replay.{key}" for key in unused}


def test_the_share_of_a_log_moves_in_proportion_to_the_run():
    falling = ReplayConfig(log_share=0.5, log_share_final=0.1)
    assert [falling.log_share_at(progress) for progress in (0.0, 0.5, 1.0, 1.5)] == pytest.approx([0.5, 0.3, 0.1, 0.1])
    assert [ReplayConfig(log_share=0.25).log_share_at(progress) for progress in (0.0, 1.0)] == [0.25, 0.25]
    assert ReplayConfig().log_share_at(0.5) is None
    (unused,) = ReplayConfig(log_share_final=0.1).unused()
    assert (unused.key, "items of a log are drawn like all others" in str(unused)) == ("replay.log-share-final", True)


@pytest.mark.parametrize("name", ["log_share", "log_share_final"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan"), float("inf")])
def test_a_share_of_a_log_outside_of_its_range_is_named(name, value):
    (problem,) = find_problems(ReplayConfig(**{"log_share": 0.5, name: value}))
    assert problem.key == name.replace("_", "-")


def test_who_reads_a_setting_is_the_remedy():
    (problem,) = ReplayConfig(priority_uniform=0.3).unused()
    assert str(problem) == (
        "replay.priority-uniform: has no effect: uniform draws without it; leave it out, or use per or rank"
    )


def test_drawing_like_another_leaves_the_rest():
    other = ReplayConfig(sampler="ners", priority_exponent=0.9, ners=NersConfig(batch_size=7), capacity_steps=5)
    mixed = ReplayConfig(capacity_steps=9).drawn_like(other)
    assert (mixed.sampler, mixed.priority_exponent, mixed.ners.batch_size) == ("ners", 0.9, 7)
    assert mixed.capacity_steps == 9


def test_an_exponent_of_zero_makes_learned_scores_useless():
    (problem,) = ReplayConfig(sampler="ners", priority_exponent=0.0).sampler_warnings()
    assert str(problem).startswith("replay.priority-exponent: 0 draws uniformly whatever ners learns")
    assert not list(ReplayConfig(sampler="ners", priority_exponent=1.0).sampler_warnings())
