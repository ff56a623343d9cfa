"""The command line as a user meets it; training itself is replaced by a stand-in that returns at once."""

import json
import math
import re
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest

from launch.__main__ import main
from launch.errors import OutputError, StoppedError
from launch.presets import find_presets
from launch.records.run_directory import open_run
from launch.standard_output import finite


class Result:
    def __init__(self, **values):
        self.values = values

    def to_json(self):
        return self.values


@pytest.fixture
def calls(monkeypatch, tmp_path):
    """Stand-ins for training and evaluation; the list holds what they were called with."""
    made = []

    def train(config):
        made.append(config)
        return Result(env_steps=5, mean_return=math.nan, run_dir="runs/x")

    def evaluate(run_dir, episodes, **options):
        made.append((run_dir, episodes, options))
        return Result(mean_return=1.0, returns=[math.inf, 1.0])

    monkeypatch.setitem(sys.modules, "launch.train", types.SimpleNamespace(train=train))
    monkeypatch.setitem(sys.modules, "launch.evaluation.evaluate", types.SimpleNamespace(evaluate=evaluate))
    monkeypatch.chdir(tmp_path)
    return made


def run(capsys, *arguments):
    code = main(arguments)
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def errors(capsys, *arguments):
    """Run a command that must fail with exit code 2; return its lines, all of which must have the promised form."""
    code, out, err = run(capsys, *arguments)
    assert code == 2
    assert out == ""
    lines = err.splitlines()
    assert lines
    for line in lines:
        assert re.fullmatch(r"error: \S+: [^;]+(; .+)?", line), line
    return lines


def test_train_gets_the_preset_with_file_and_flags_over_it(calls, capsys, tmp_path):
    (tmp_path / "f.toml").write_text(
        "steps = 7\nseed = 3\n[algorithm]\nlearning_rate = 0.5\n[learner]\ncompile = false\n"
    )
    code, out, _ = run(
        capsys,
        *[
            "train",
            "cartpole",
            "--config",
            "f.toml",
            "--seed",
            "4",
            "--env=Acrobot-v1",
            "--replay.capacity-steps",
            "1e5",
        ],
        *["--algorithm.trust-region-threshold", "inf", "--network.hidden-sizes", "32,32", "--json", "--run-dir", "x/y"],
    )
    assert code == 0
    (config,) = calls
    assert (config.preset, config.env, config.steps, config.seed) == ("cartpole", "Acrobot-v1", 7, 4)
    assert config.algorithm.learning_rate == 0.5
    assert config.algorithm.trust_region_threshold == math.inf
    assert config.replay.capacity_steps == 100_000
    assert config.network.hidden_sizes == (32, 32)
    assert config.learner.compile == "off"
    assert config.run_dir == Path("x/y")
    assert json.loads(out.splitlines()[-1]) == {"env_steps": 5, "mean_return": None, "run_dir": "runs/x"}


def test_the_documented_flags_are_there(calls, capsys):
    flags = (
        "--env X --steps 1e3 --seed 1 --device cpu --run-dir r --num-actors 2 --num-envs 4 --unroll-length 8 --quiet"
    )
    flags += " --algorithm.learning-rate 1e-3 --algorithm.entropy-cost 0 --algorithm.discount 0.9 --runtime lockstep"
    flags += " --algorithm.replay-fraction 0.5 --algorithm.trust-region-threshold 0.1 --replay.num-shards 2"
    assert run(capsys, "train", "pong", *flags.split(), "--replay.capacity-steps", "1e5")[0] == 0
    assert calls[0].num_actors == 2
    assert calls[0].unroll_length == 8
    assert calls[0].quiet


def test_all_mistakes_at_once_and_nothing_starts(calls, capsys, tmp_path):
    (tmp_path / "f.toml").write_text("stepz = 7\n[replay]\ncapacity_steps = 10.5\n")
    lines = errors(
        capsys,
        *["train", "cartpole", "--config", "f.toml", "--env", "--algorithm.learning-rat", "1", "--seed", "x"],
        *["--algorithm.discount", "2", "--algorithm.entropy-cost", "nan", "--replay", "3", "--preset", "pong"],
        *["--device", "gpu", "--run-dir", "", "surplus", "--runtime", "rai"],
    )
    keys = [line.split(": ")[1] for line in lines]
    assert sorted(keys) == sorted(
        [
            "env",
            "surplus",
            "stepz",
            "replay.capacity-steps",
            "algorithm.learning-rat",
            "seed",
            "replay",
            "preset",
            "algorithm.discount",
            "algorithm.entropy-cost",
            "device",
            "run-dir",
            "runtime",
        ]
    )
    assert "error: algorithm.learning-rat: unknown key; did you mean algorithm.learning-rate?" in lines
    assert "error: stepz: in f.toml: unknown key; did you mean steps?" in lines
    assert calls == []
    assert [path.name for path in tmp_path.iterdir()] == ["f.toml"]


@pytest.mark.parametrize("command", [["train"], ["sweep", "--seeds", "2"]])
def test_what_is_not_there_is_named_among_other_mistakes(calls, capsys, command):
    wrong = ["--env", "CartPol-v1", "--algorithm.discount", "2", "--settings-schedule", "missing.json"]
    lines = errors(capsys, command[0], "cartpole", *command[1:], *wrong)
    assert [line.split(": ")[1] for line in lines] == ["algorithm.discount", "settings-schedule", "env"]
    assert "CartPole-v1" in lines[2]


def test_a_file_cannot_resume(calls, capsys, tmp_path):
    (tmp_path / "f.toml").write_text("resume = true\n")
    (line,) = errors(capsys, "train", "cartpole", "--config", "f.toml")
    assert line == "error: resume: in f.toml: is for the command line; use --resume"
    assert calls == []


def test_a_file_cannot_choose_the_preset(calls, capsys, tmp_path):
    (tmp_path / "f.toml").write_text('preset = "pong"\nsteps = 5\n')
    (line,) = errors(capsys, "train", "cartpole", "--config", "f.toml")
    assert line == "error: preset: in f.toml: is for the command line; leave it out, and put pong before --config"
    assert calls == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["train", "cartpol"], "error: preset: there is no preset 'cartpol'; did you mean cartpole?"),
        (["train", "xyz"], "error: preset: there is no preset 'xyz'; presets are acer,"),
        (["train"], "error: preset: is missing; name one, or an environment: --env ID; presets are acer,"),
        (["train", "--steps", "4"], "error: preset: is missing"),
        (["train", "--run-dir", "cartpole"], "error: preset: is missing"),
        (["train", "--env", "minigrid"], "error: env: minigrid is a preset and no environment; leave out --env"),
        (["sweep", "--env", "halfcheetah"], "error: env: halfcheetah is a preset and no environment; leave out --env"),
        (["train", "cartpol", "--run-dir", "cartpole"], "error: preset: there is no preset 'cartpol'; did you mean"),
        (["sweep", "cartpol", "--run-dir", "cartpole"], "error: preset: there is no preset 'cartpol'; did you mean"),
        (["train", "catpole", "cartpole"], "error: preset: there is no preset 'catpole'; did you mean cartpole?"),
        (["bench", "repla", "--preset", "replay"], "error: bench: there is no bench 'repla'; did you mean replay?"),
        (["train", "cartpole", "--config", "no.toml"], "error: config: no.toml cannot be read: No such file"),
        (["train", "cartpole", "--config"], "error: config: needs a value"),
        (["train", "cartpole", "--step"], "error: step: unknown key; did you mean steps?"),
        (["train", "cartpole", "--total_timesteps", "4"], "error: total-timesteps: unknown key; did you mean steps?"),
        (["sweep", "cartpole", "--grid"], "error: grid: needs a value"),
        (
            ["sweep", "cartpole", "--seeds", "2", "--share-replai"],
            "error: share-replai: unknown key; did you mean share-replay?",
        ),
        (["train", "cartpole", "--capacity-steps", "4"], "error: capacity-steps: unknown key; did you mean replay.cap"),
        (["train", "cartpole", "--replay.capacity-steps", "100"], "error: replay.capacity-steps: must hold a batch"),
        (
            ["train", "cartpole", "--learner.torch-threads", "1e10"],
            "error: learner.torch-threads: must be in [0, 1024]",
        ),
        (["train", "cartpole", "--network.hidden-sizes", "1e18"], "error: network.hidden-sizes: must be in [1, 65536]"),
        (
            ["train", "cartpole", "--environment.deadline-s", "1e10"],
            "error: environment.deadline-s: must be above 0 and",
        ),
        (["train", "cartpole", "--steps", "9" * 30], f"error: steps: must be in [1, 1e+15], got {'9' * 30}"),
        (["train", "cartpole", "--replay.min-steps", "1e9"], "error: replay.min-steps: must be at most"),
        (["trian"], "error: command: there is no command 'trian'; did you mean laser train?"),
        (["dashbord"], "error: command: there is no command 'dashbord'; did you mean laser dashboard?"),
        (["report"], "error: run-dir: is missing"),
        (["report", "x", "--episodes", "-1"], "error: episodes: must be at least 0"),
        (["eval"], "error: run-dir: is missing"),
        (["eval", "x", "--episodes", "0"], "error: episodes: must be at least 1, got 0"),
        (["eval", "x", "--device", "banana"], "error: device: must be cpu, cuda or cuda:N, got 'banana'"),
        (["eval", "x", "--device", "auto"], "error: device: must be cpu, cuda or cuda:N, got 'auto'"),
        (["eval", "x", "--epsodes", "3"], "error: epsodes: unknown key; did you mean episodes?"),
        (["eval", "x", "--vide"], "error: vide: unknown key; did you mean video?"),
        (["doctor", "--x", "1"], "error: x: unknown key"),
        (["doctor", "--x"], "error: x: unknown key"),
    ],
)
def test_one_mistake_is_one_line(calls, capsys, arguments, line):
    (found,) = errors(capsys, *arguments)
    assert found.startswith(line)
    assert calls == []


def test_a_cuda_device_that_is_not_there(calls, capsys, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for command in (
        ("train", "cartpole", "--device"),
        ("train", "cartpole", "--actor.device"),
        ("eval", "x", "--device"),
    ):
        (line,) = errors(capsys, *command, "cuda")
        key = command[-1].removeprefix("--")
        assert line.startswith(f"error: {key}: ")
        assert f"use --{key} cpu" in line
    assert calls == []


def test_a_switch_before_the_preset(calls, capsys):
    assert run(capsys, "train", "--network.separate-critic", "cartpole")[0] == 0
    assert calls[0].network.separate_critic


def test_an_unknown_switch_before_the_preset(calls, capsys):
    lines = errors(capsys, "train", "--quite", "cartpole")
    assert [line.split(": ", 1)[1].partition(";")[0] for line in lines] == ["preset: is missing", "quite: unknown key"]


def test_an_address_of_a_cluster_chooses_the_runtime(calls, capsys):
    assert run(capsys, "train", "cartpole", "--ray-address", "10.0.0.1:6379")[0] == 0
    assert calls[0].runtime == "ray"
    (line,) = errors(capsys, "train", "cartpole", "--ray-address", "10.0.0.1:6379", "--runtime", "lockstep")
    assert line.startswith("error: ray-address: a cluster needs runtime ray, got runtime lockstep")


def test_settings_without_effect_warn(calls, capsys):
    code, _, err = run(capsys, "train", "cartpole", "--replay.samples-per-insert", "4")
    assert code == 0
    assert err.startswith("warning: replay.samples-per-insert: has no effect")
    assert run(capsys, "train", "cartpole", "--replay.samples-per-insert", "4", "--quiet")[2] == ""


def test_resume_takes_the_runs_own_config(calls, capsys, tmp_path):
    run(capsys, "train", "cartpole", "--algorithm.learning-rate", "0.25", "--json", "--run-dir", "r", "--seed", "9")
    with open_run(calls[0], []):
        pass
    code, out, _ = run(capsys, "train", "cartpole", "--run-dir", "r", "--resume", "--steps", "12345")
    assert (code, out) == (0, "")
    resumed = calls[1]
    assert (resumed.algorithm.learning_rate, resumed.seed, resumed.steps) == (0.25, 9, 12345)
    assert resumed.resume
    assert resumed.run_dir == Path("r")
    code, out, _ = run(capsys, "train", "--run-dir", "r", "--resume", "--steps", "12345")  # its preset is known
    assert (code, out) == (0, "")
    assert calls[2] == resumed
    code, _, err = run(capsys, "train", "pong", "--run-dir", "r", "--resume")
    assert (code, err) == (66, "error: run-dir: r was trained with preset cartpole; use laser train cartpole\n")


def test_resume_without_a_run(calls, capsys):
    code, _, err = run(capsys, "train", "cartpole", "--resume")
    assert code == 66
    assert err.startswith("error: resume: no run of preset cartpole under runs; ")
    code, _, err = run(capsys, "train", "cartpole", "--resume", "--run-dir", "gone")
    assert code == 66
    assert err.startswith("error: run-dir: gone holds no run")


def test_resume_finds_the_newest_run(calls, capsys, tmp_path):
    run(capsys, "train", "cartpole", "--seed", "5")
    with open_run(calls[0], []) as made:
        pass
    assert run(capsys, "train", "cartpole", "--resume")[0] == 0
    assert calls[1].run_dir == made.path
    assert calls[1].seed == 5


def test_eval(calls, capsys):
    code, out, _ = run(capsys, "eval", "runs/x", "--episodes", "3", "--greedy", "--checkpoint", "best", "--json")
    assert code == 0
    options = {"checkpoint": "best", "greedy": True, "num_envs": 4, "seed": 0, "device": "cpu", "quiet": False}
    as_trained = dict.fromkeys(("max_noops", "sticky_actions", "max_episode_frames")) | {
        "env": "",
        "kwargs": {},
        "log": "",
        "starts": "",
        "curve": "median",
    }
    assert calls == [
        (Path("runs/x"), 3, options | as_trained | dict.fromkeys(("test_levels", "video", "trust"), False))
    ]
    assert json.loads(out.splitlines()[-1]) == {"mean_return": 1.0, "returns": [None, 1.0]}


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (OutputError("run-dir", "metrics.db: disk is full\nreally", "free some"), 74),
        (StoppedError("stopped", "by SIGTERM", "saved", exit_code=143), 143),
        (KeyboardInterrupt(), 130),
    ],
)
def test_exit_codes(calls, capsys, monkeypatch, error, code):
    def train(config):
        raise error

    monkeypatch.setitem(sys.modules, "launch.train", types.SimpleNamespace(train=train))
    found, _, err = run(capsys, "train", "cartpole")
    assert found == code
    assert len(err.splitlines()) == 1
    assert "Traceback" not in err


def test_the_programs_own_mistakes_keep_their_traceback(calls, capsys, monkeypatch):
    def train(config):
        raise ZeroDivisionError

    monkeypatch.setitem(sys.modules, "launch.train", types.SimpleNamespace(train=train))
    with pytest.raises(ZeroDivisionError):
        main(["train", "cartpole"])


@pytest.mark.parametrize(
    "arguments",
    [["--help"], ["-h"], ["train", "--help"], ["eval", "--help"], ["doctor", "--help"], ["sweep", "--help"]],
)
def test_help(capsys, arguments):
    code, out, err = run(capsys, *arguments)
    assert (code, err) == (0, "")
    assert out.startswith("usage: laser")


def test_help_of_a_preset_lists_every_key(capsys):
    _, out, _ = run(capsys, "train", "cartpole", "--help")
    for key in ("--env", "--algorithm.trust-region-threshold", "--replay.num-shards", "--learner.compile", "--actor."):
        assert f"  {key}" in out
    assert "--preset" not in out


def test_help_of_an_import_is_about_imports(capsys):
    code, out, err = run(capsys, "replay", "import", "--help")
    assert (code, err) == (0, "")
    assert out.startswith("usage: laser replay import minari:")
    assert "laser replay export" not in out


def test_help_lists_the_keys_that_a_flag_brings_and_the_values_of_the_preset(capsys):
    code, out, err = run(capsys, "train", "cartpole", "--replay.sampler", "delayed", "--help")
    assert (code, err) == (0, "")
    assert "  --replay.sampler-settings.versions" in out
    assert "default uniform" in " ".join(out[out.index("--replay.sampler ") :].split())[:200]
    _, plain, _ = run(capsys, "train", "cartpole", "--help")
    assert "--replay.sampler-settings" not in plain


def test_help_of_an_environment_is_that_of_its_preset(capsys):
    code, out, err = run(capsys, "train", "--help", "--env", "CartPole-v1")
    assert (code, err) == (0, "")
    assert out.startswith("usage: laser train cartpole ")
    code, _, err = run(capsys, "train", "--env", "Nothing-v1", "--help")
    assert code == 2
    assert "Nothing-v1" in err


def test_help_of_a_preset_has_every_section_once(capsys):
    _, out, _ = run(capsys, "train", "sac", "--help")
    sections = [line for line in out.splitlines() if re.fullmatch(r"[a-z.]+:", line)]
    assert {"run:", "replay:", "replay.ners:"} <= set(sections)
    assert len(set(sections)) == len(sections)


@pytest.mark.parametrize("arguments", [["presets"], ["train", "--help"]])
def test_presets_are_listed_with_a_space_after_each_name(capsys, arguments):
    _, out, _ = run(capsys, *arguments)
    for name in find_presets():
        assert re.search(rf"^  {name} +\S", out, re.MULTILINE), name


def test_no_command_prints_the_usage(capsys):
    code, out, _ = run(capsys)
    assert code == 2
    assert out.startswith("usage: laser")


def test_version(capsys):
    code, out, _ = run(capsys, "--version")
    assert code == 0
    assert re.fullmatch(r"laser \d+\.\d+\.\d+\n", out)


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["trian"], ["eval", "--help"]])
def test_light_commands_import_neither_torch_nor_ray(arguments):
    script = (
        "import sys; from launch.__main__ import main; main(sys.argv[1:]);"
        "heavy = {'torch', 'ray', 'numpy', 'gymnasium', 'tensorboard'} & set(sys.modules);"
        "sys.exit(str(heavy) if heavy else 0)"
    )
    start = time.monotonic()
    result = subprocess.run([sys.executable, "-c", script, *arguments], capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stderr
    assert time.monotonic() - start < 5.0  # 0.1 s on a quiet machine


def test_finite_replaces_what_json_cannot_hold():
    assert finite({"a": [math.nan, (1, -math.inf)], "b": {"c": 1.5}}) == {"a": [None, [1, None]], "b": {"c": 1.5}}


def test_an_environment_without_a_preset_takes_the_recommended_one_and_says_so(calls, capsys):
    code, _, err = run(capsys, "train", "--env", "MinAtar/Asterix-v1", "--seed", "3")
    assert code == 0
    assert err.splitlines()[0] == (
        "preset: minatar, recommended for MinAtar/Asterix-v1: a MinAtar game; laser presets lists all"
    )
    assert (calls[0].preset, calls[0].env, calls[0].seed) == ("minatar", "MinAtar/Asterix-v1", 3)
    assert run(capsys, "train", "--quiet", "--env", "MinAtar/Asterix-v1")[2] == ""
    assert run(capsys, "train", "mini", "--env", "mini/DeepSea-v0")[2] == ""
    (line,) = errors(capsys, "train", "--env", "CartPol-v1")
    assert line.startswith("error: env: unknown environment 'CartPol-v1'; did you mean CartPole-v1")


SWITCHING = """
import gymnasium
import numpy as np


class Switching(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self, kind):
        self.action_space = gymnasium.spaces.Discrete(2) if kind == "buttons" else gymnasium.spaces.Box(-1.0, 1.0, (2,))

    def reset(self, *, seed=None, options=None):
        return np.zeros(2, np.float32), {}

    def step(self, action):
        return np.zeros(2, np.float32), 0.0, False, False, {}
"""


@pytest.fixture
def switching(tmp_path, monkeypatch):
    """The id of an environment whose actions depend on an argument that it needs."""
    (tmp_path / "switching.py").write_text(SWITCHING)
    monkeypatch.syspath_prepend(tmp_path)
    return "switching:Switching"


def test_the_recommended_preset_is_for_the_environment_as_it_is_built(calls, capsys, switching):
    words = ["train", "--env", switching, "--environment.kwargs.kind"]
    assert run(capsys, *words, "buttons")[2].startswith("preset: box2d, ")
    assert run(capsys, *words, "stick")[2].startswith("preset: mujoco, ")
    assert calls[-1].environment.kwargs == {"kind": "stick"}


def test_the_environment_may_stand_in_the_file(calls, capsys, tmp_path, switching):
    path = tmp_path / "a.toml"
    path.write_text(f'env = "{switching}"\n[environment.kwargs]\nkind = "stick"\n')
    assert run(capsys, "train", "--config", str(path))[2].startswith(f"preset: mujoco, recommended for {switching}")
    assert (calls[0].env, calls[0].environment.kwargs) == (switching, {"kind": "stick"})
    words = ["train", "cartpole", "--config", str(path), f"--config={path}"]
    assert errors(capsys, *words)[0] == "error: config: is given twice; put all settings into one file"


def test_a_runs_directory_in_place_of_a_preset_is_recognised(capsys, tmp_path):
    (tmp_path / "config.json").touch()
    assert errors(capsys, "train", "--resume", str(tmp_path)) == [
        f"error: preset: {tmp_path} is a run's directory, and no preset; to continue it: --resume --run-dir {tmp_path}"
    ]


def test_presets_are_listed_by_task(calls, capsys):
    code, out, _ = run(capsys, "presets")
    assert code == 0
    assert out.startswith("Atari:\n  atari_small ")
    assert "\nMinAtar, small pictures:\n  minatar " in out
    assert errors(capsys, "presets", "x") == ["error: x: is one argument too many; values follow their --key"]
