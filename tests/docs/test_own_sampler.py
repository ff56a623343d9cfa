import dataclasses
import importlib
import json
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch

import laser
from laser.config import ConfigError
from laser.ports import SampleRequest, wait
from laser.specs import ContinuousActions, DiscreteActions, EnvironmentSpec, VectorSpec
from laser.unroll import HEADER_DTYPE, Unrolls, UnrollSpec
from launch.command_line.arguments import parse_sweep, parse_train
from replay_server.config import ReplayConfig
from replay_server.member_settings import MemberSettings
from replay_server.serving.shard import Shard

SMALL_SAC = {"network.hidden-sizes": (8,), "algorithm.batch-size": 16, "learner.compile": "off", "actor.compile": "off"}


def test_the_example_trains_resumes_and_plays(examples, quick):
    result = importlib.import_module("own_sampler").main(**quick)
    assert result.learner_steps > 3
    recorded = json.loads((result.run_dir / "config.json").read_text("utf-8"))["config"]["replay"]
    assert recorded["sampler"] == "own_sampler:Recent"
    assert recorded["sampler_settings"] == {"class": "own_sampler:RecentSettings", "half_life": 500}
    words = ["cartpole", "--resume", "--run-dir", str(result.run_dir), "--steps", "1500"]
    config = parse_train(words)
    assert config.replay.sampler_settings.half_life == 500
    resumed = laser.train(config)
    assert resumed.learner_steps > result.learner_steps
    assert len(laser.evaluate(result.run_dir, episodes=1, num_envs=1, quiet=True).returns) == 1


def filled_shard(half_life):
    """A shard of 10 unrolls of 4 rows; an episode ends in the fifth, whose last row holds no step."""
    environment = EnvironmentSpec("Test-v0", {"observation": VectorSpec((1,))}, DiscreteActions(2))
    spec = UnrollSpec(4, environment, {}, {})
    settings = importlib.import_module("own_sampler").RecentSettings(half_life)
    config = ReplayConfig(capacity_steps=40, sampler="own_sampler:Recent", sampler_settings=settings)
    shard = Shard(spec, config, [MemberSettings(0)])
    for sequence in range(10):
        header = np.zeros(1, HEADER_DTYPE)
        header["sequence"] = sequence
        fields = {name: np.zeros((1, *spec.shape(name)), field.array.dtype) for name, field in spec.fields.items()}
        fields["valid"][0] = True
        fields["rewards"][0] = 4 * sequence + np.arange(4)
        fields["first"][0, 0] = sequence in (0, 5)
        if sequence == 4:
            fields["valid"][0, 3], fields["first"][0, 4] = False, True
        wait(shard.insert(Unrolls(header, fields, {})), 5, "insert")
    return shard


@pytest.mark.parametrize("view", ["unrolls", "steps"])
@pytest.mark.parametrize("half_life", [2, 50])
def test_the_example_draws_as_its_formula_says(examples, view, half_life):
    num_draws = 20_000
    sample = wait(filled_shard(half_life).sample(SampleRequest(0, num_draws, view=view)), 5, "sample")
    weights = {4 * unroll + row: 0.5 ** ((9 - unroll) / half_life) for unroll in range(10) for row in range(4)}
    del weights[19]  # the row that holds the last observation of an episode
    if view == "unrolls":
        weights = {number: weight for number, weight in weights.items() if number % 4 == 0}
    expected = {number: weight / sum(weights.values()) for number, weight in weights.items()}
    drawn = sample.unrolls.fields["rewards"][:, 0].astype(int).tolist()
    assert sample.num_stored == len(expected)
    np.testing.assert_allclose(sample.probabilities, [expected[number] for number in drawn], rtol=1e-12)
    counts = Counter(drawn)
    statistic = sum((counts[i] - num_draws * p) ** 2 / (num_draws * p) for i, p in expected.items())
    freedom = len(expected) - 1
    assert statistic < freedom + 3.1 * np.sqrt(2 * freedom) + 8  # alpha = 0.001


def test_flags_a_file_and_a_sweep_set_the_settings(examples, tmp_path):
    words = ["cartpole", "--replay.sampler", "own_sampler:Recent"]
    assert parse_train(words).replay.sampler_settings.half_life == 200
    set_to_7 = ["--replay.sampler-settings.half-life", "7"]
    assert parse_train([*words, *set_to_7]).replay.sampler_settings.half_life == 7
    file = tmp_path / "mine.toml"
    file.write_text("[replay.sampler-settings]\nhalf-life = 9\n")
    assert parse_train([*words, "--config", str(file)]).replay.sampler_settings.half_life == 9
    file.write_text("[replay]\nsampler = 'own_sampler:Recent'\n[replay.sampler-settings]\nhalf-life = 9\n")
    assert parse_train(["cartpole", "--config", str(file)]).replay.sampler_settings.half_life == 9
    assert parse_train(["cartpole", "--config", str(file), *set_to_7]).replay.sampler_settings.half_life == 7
    other = parse_train(["cartpole", "--config", str(file), "--replay.sampler", "own_prioritizer:Signed"])
    assert other.replay.sampler_settings == importlib.import_module("own_prioritizer").SignedSettings()
    grid = ["--no-share-replay", "--grid", "replay.sampler-settings.half-life=3,4"]
    sweep = parse_sweep([*words, *grid])
    assert [member.config.replay.sampler_settings.half_life for member in sweep.members()] == [3, 4]
    shared = parse_sweep([*words, *set_to_7, "--seeds", "2"])
    assert [member.config.replay.sampler_settings.half_life for member in shared.members()] == [7, 7]


@pytest.mark.parametrize(
    ("words", "line"),
    [
        (["no_such_module:Recent"], "replay.sampler: module 'no_such_module' cannot be imported"),
        (["own_sampler:Resent"], "replay.sampler: own_sampler:Resent is no Sampler; name a subclass of"),
        (["own_sampler:RecentSettings"], "replay.sampler: own_sampler:RecentSettings is no Sampler; name a"),
        (["replay_server.samplers:Sampler"], "replay.sampler: replay_server.samplers:Sampler lacks draw; define"),
        (["odd_samplers:Viewless"], "replay.sampler: odd_samplers:Viewless draws nothing; set its `views`"),
        (["odd_samplers:Strange"], "replay.sampler: odd_samplers:Strange has settings that are no SamplerSettings"),
        (["odd_samplers:Demanding"], "replay.sampler-settings: Needy of odd_samplers:Demanding must have a default"),
        (
            ["own_sampler:Recent", "--replay.sampler-settings.half-live", "3"],
            "replay.sampler-settings.half-live: unknown key; did you mean replay.sampler-settings.half-life?",
        ),
        (
            ["own_sampler:Recent", "--replay.sampler-settings.half-life", "0"],
            "replay.sampler-settings.half-life: must be at least 1, got 0",
        ),
        (
            ["uniform", "--replay.sampler-settings.relative-weights", "3"],
            "replay.sampler-settings.relative-weights: unknown key; replay.sampler decides which keys exist",
        ),
        (
            ["own_sampler:Recent", "--replay.sampler-settings.half-life"],
            "replay.sampler-settings.half-life: needs a value; write --replay.sampler-settings.half-life VALUE",
        ),
    ],
)
def test_what_is_wrong_with_it_is_one_line(examples, tmp_path, monkeypatch, words, line):
    (tmp_path / "odd_samplers.py").write_text(ODD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as caught:
        parse_train(["cartpole", "--replay.sampler", *words])
    assert str(caught.value).startswith(line)
    assert len(str(caught.value).splitlines()) == 1
    sys.modules.pop("odd_samplers", None)


ODD = """
from dataclasses import dataclass
from laser.prioritization.config import SamplerSettings
from own_sampler import Recent
from replay_server.samplers.prioritized import Prioritized

@dataclass(frozen=True)
class Needy(SamplerSettings):
    number: int

@dataclass(frozen=True)
class Switched(SamplerSettings):
    lit: bool = False
    dark: bool = True

class WithSwitches(Recent):
    settings_class = Switched

class Viewless(Recent):
    views = frozenset()

class Strange(Recent):
    settings_class = dict

class Demanding(Recent):
    settings_class = Needy

class OfSteps(Recent):
    views = frozenset({"steps"})

class Unfed(Prioritized):
    column = "nobody_writes_it"

class Misled(Prioritized):
    column = "nobody_writes_it"
    prioritizer = "own_sampler:Recent"
"""


@pytest.mark.parametrize(
    ("sampler", "line"),
    [
        ("OfSteps", "replay.sampler: odd_samplers:OfSteps does not draw unrolls, which laser learns from; use"),
        (
            "Unfed",
            "replay.sampler: odd_samplers:Unfed uses the column nobody_writes_it, which neither its rule",
        ),
        ("Misled", "replay.sampler: odd_samplers:Misled has no rule: own_sampler:Recent is no Prioritizer; name a"),
    ],
)
def test_what_does_not_fit_the_agent_is_one_line(examples, quick, tmp_path, monkeypatch, sampler, line):
    (tmp_path / "odd_samplers.py").write_text(ODD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as caught:
        laser.train(laser.load_preset("cartpole", {**quick, "replay.sampler": f"odd_samplers:{sampler}"}))
    assert str(caught.value).startswith(line)
    assert len(str(caught.value).splitlines()) == 1
    sys.modules.pop("odd_samplers", None)


def test_switches_among_the_settings_need_no_value(examples, tmp_path, monkeypatch):
    (tmp_path / "odd_samplers.py").write_text(ODD, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    flags = ["--replay.sampler-settings.lit", "--no-replay.sampler-settings.dark"]
    config = parse_train(["cartpole", *flags, "--replay.sampler", "odd_samplers:WithSwitches", "--quiet"])
    assert dataclasses.asdict(config.replay.sampler_settings) == {"lit": True, "dark": False}
    assert config.quiet
    sys.modules.pop("odd_samplers", None)


def test_settings_of_another_sampler_are_refused(examples):
    settings = importlib.import_module("own_sampler").RecentSettings()
    config = dataclasses.replace(
        laser.load_preset("cartpole"), replay=ReplayConfig(sampler="per", sampler_settings=settings)
    )
    line = r"^replay.sampler-settings: must be SamplerSettings for the sampler per, got RecentSettings"
    with pytest.raises(ConfigError, match=line):
        config.check()


def test_the_rule_weighs_errors_by_their_sign(examples):
    module = importlib.import_module("own_prioritizer")
    config = ReplayConfig(sampler="own_prioritizer:Signed", sampler_settings=module.SignedSettings(0.25))
    environment = EnvironmentSpec("Test-v0", {"observation": VectorSpec((1,))}, ContinuousActions((-1.0,), (1.0,)))
    rule = module.SignedRule(config, environment, torch.device("cpu"), 0)
    errors = torch.tensor([[2.0, -2.0, 0.0, torch.nan]])
    expected = torch.tensor([[2.0, 0.5, 0.0, 1.0]]) + 1e-6
    torch.testing.assert_close(rule.values(None, {"td_error": errors})["signed_priority"], expected)


def test_the_rule_feeds_its_sampler(examples, quick, monkeypatch):
    module = importlib.import_module("own_prioritizer")
    written = []

    def watched(self, replayed, per_step):
        written.append(self.settings.negative_weight)
        return values(self, replayed, per_step)

    values = module.SignedRule.values
    monkeypatch.setattr(module.SignedRule, "values", watched)
    weight = {"replay.sampler_settings.negative_weight": 0.5}
    result = module.main(**{**quick, "steps": 300, **SMALL_SAC, **weight})
    assert result.learner_steps > 10
    assert len(written) >= result.learner_steps
    assert set(written) == {0.5}


def test_a_shard_needs_no_torch_for_it(examples):
    code = (
        "import sys; from replay_server.config import ReplayConfig; from replay_server.samplers import samplers_called;"
        "print(samplers_called(ReplayConfig(sampler='own_sampler:Recent').sampler), 'torch' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], cwd=examples, capture_output=True, text=True, check=True)
    assert "own_sampler.Recent" in told.stdout
    assert told.stdout.endswith("False\n")


def test_the_same_file_among_lasers_own_is_found_by_its_name(examples, tmp_path):
    text = (examples / "own_sampler.py").read_text("utf-8")
    (tmp_path / "recent.py").write_text(text.replace("    views:", '    name = "recent"\n    views:'), "utf-8")
    told = subprocess.run([sys.executable, "-c", AMONG_OURS, str(tmp_path)], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["7", "replay_server.samplers.recent:RecentSettings", "True"]


AMONG_OURS = """
import sys
import replay_server.samplers
replay_server.samplers.__path__.append(sys.argv[1])
from launch.command_line.arguments import parse_train
from launch.settings.json_form import config_from_json, config_to_json
config = parse_train(["cartpole", "--replay.sampler", "recent", "--replay.sampler-settings.half-life", "7"])
record = config_to_json(config)
print(config.replay.sampler_settings.half_life, record["replay"]["sampler_settings"]["class"])
print(config_from_json(record) == config)
"""


def test_a_replay_saved_with_other_settings_is_refused(examples):
    saved = filled_shard(3).state_dict()
    filled_shard(3).load_state_dict(saved)
    with pytest.raises(ValueError, match=r"made for sampler settings RecentSettings\(half_life=3\), this one has"):
        filled_shard(4).load_state_dict(saved)


@pytest.mark.ray
@pytest.mark.timeout(180)
@pytest.mark.parametrize("by", ["command", pytest.param("script", marks=pytest.mark.long)])
def test_processes_of_ray_find_it(examples, tmp_path, by):
    run_dir = tmp_path / "run"
    values = {"runtime": "ray", "steps": 600, "num-envs": 2, "replay.min-steps": 64, "quiet": True}
    if by == "command":
        flags = [f"--{key}={value}" for key, value in {**values, "run-dir": run_dir}.items()]
        command = ["-m", "launch", "train", "cartpole", "--replay.sampler=own_sampler:Recent", *flags]
    else:
        script = tmp_path / "own_script.py"
        text = (examples / "own_sampler.py").read_text("utf-8").replace("own_sampler:", "own_script:")
        script.write_text(text.replace("    main()", f"    main(**{values!r}, run_dir={str(run_dir)!r})"), "utf-8")
        command = [str(script)]
    trained = subprocess.run(
        [sys.executable, *command], cwd=examples, capture_output=True, text=True, timeout=170, check=False
    )
    assert trained.returncode == 0, trained.stderr
    assert (run_dir / "checkpoints").exists()
