"""Run directories of strangers: what they name is neither imported nor called before the user allows it."""

import dataclasses
import json
import os
import sys
import types

import gymnasium
import pytest

import laser
from launch.__main__ import main
from launch.dashboard.player import play
from launch.errors import LaunchError, NothingToResumeError, UntrustedError
from launch.export.export import export
from launch.export.options import ExportOptions
from launch.presets import load_preset
from launch.records import trust
from launch.records.run_directory import open_run
from launch.records.run_record import read_record, saved_config
from launch.records.trust import check_trusted, remember, trust_run
from launch.report.options import ReportOptions
from launch.report.report import report
from launch.settings.json_form import config_to_json
from launch.sharing.options import PushOptions
from launch.sharing.sharing import write_shared

CODE = """
import dataclasses, gymnasium
from gymnasium.envs.classic_control import CartPoleEnv
from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig
from replay_server.samplers.uniform_unrolls import UniformUnrolls

class World(CartPoleEnv): ...
class Wrap(gymnasium.Wrapper): ...
class Fresh(UniformUnrolls): ...

@dataclasses.dataclass(frozen=True)
class Mine(LaserConfig): ...
@dataclasses.dataclass(frozen=True)
class Wide(NetworkConfig): ...

gymnasium.register("World-v0", World)
"""


def forget_process():
    """Forgets what this process knows, as another process would not know it."""
    trust._named.clear()


@pytest.fixture(autouse=True)
def stranger(tmp_path, monkeypatch):
    """A folder with somebody's module, and a user who has named nothing yet."""
    folder = tmp_path / "stranger"
    folder.mkdir()
    (folder / "odd_world.py").write_text(CODE)
    monkeypatch.chdir(folder)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(trust, "_named", {})
    yield folder
    sys.modules.pop("odd_world", None)
    gymnasium.registry.pop("World-v0", None)
    sys.path[:] = [path for path in sys.path if path != str(folder)]


def config_with(**changes):
    """Returns the record of a preset with values put in by path, `a__b` for `a.b`."""
    config = config_to_json(load_preset("cartpole"))
    for path, value in changes.items():
        *sections, last = path.split("__")
        place = config
        for section in sections:
            place = place[section]
        place[last] = value
    return config


@pytest.fixture
def stranger_run(make_run):
    return make_run("theirs", config=config_with(env="odd_world:World"))


NAMED = [
    {"env": "odd_world:World"},
    {"env": "odd_world:World-v0"},
    {"env": "CartPole-v1, odd_world:World"},
    {"environment__wrappers": "gymnasium.wrappers:NormalizeReward,odd_world:Wrap(x=1)"},
    {"environment__kwargs": {"inner": {"of": ["odd_world:World"]}}},
    {"algorithm__class": "odd_world:Mine"},
    {"network": {"class": "odd_world:Wide"}},
    {"network": {"class": "odd_world"}},
    {"replay__sampler": "odd_world:Fresh"},
]


@pytest.mark.parametrize("named", NAMED, ids=str)
def test_what_the_user_has_never_named_is_not_imported(make_run, stranger, named):
    run = make_run("theirs", config=config_with(**named))
    with pytest.raises(UntrustedError, match=r"odd_world.* from .*odd_world\.py.*--trust") as caught:
        saved_config(run)
    assert str(stranger / "odd_world.py") in str(caught.value)
    assert str(run) in str(caught.value)
    assert "odd_world" not in sys.modules


@pytest.mark.parametrize("flag", ["grid", "zip", "space"])
def test_a_sweep_names_code_in_its_lists_too(make_run, flag):
    lists = {"replay.sampler": ["uniform", "odd_world:Fresh"], "env": ["odd_world:World"]}
    texts = {"env": "{CartPole-v1,odd_world:World}"}
    sweep = {"grid": {}, "options": {}, "pbt": {}}
    record = read_record(make_run("theirs", facts={"sweep": sweep | {flag: texts if flag == "space" else lists}}))
    with pytest.raises(UntrustedError, match="odd_world:World from"):
        check_trusted(record, "theirs")


@pytest.mark.parametrize("named", NAMED, ids=str)
def test_what_the_user_has_named_is_his(make_run, named):
    remember(config_with(**named))
    forget_process()
    check_trusted(read_record(make_run("his", config=config_with(**named))), "his")


def test_a_name_is_known_from_its_own_file_only(stranger, stranger_run, tmp_path, monkeypatch):
    other = tmp_path / "other"
    other.mkdir()
    (other / "odd_world.py").write_text(CODE)
    monkeypatch.chdir(other)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(stranger)])
    remember({"env": "odd_world:World"})
    assert saved_config(stranger_run).env == "odd_world:World"
    monkeypatch.chdir(stranger)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path != str(other)])
    with pytest.raises(UntrustedError, match=str(stranger)):
        saved_config(stranger_run)


def test_another_name_of_a_known_module_is_asked_for(stranger_run, make_run):
    remember({"env": "odd_world:World"})
    # Whatever a module has imported could be called with arguments of the stranger's choice.
    with pytest.raises(UntrustedError, match=r"odd_world:gymnasium\.make"):
        saved_config(make_run("next", config=config_with(env="odd_world:gymnasium.make")))


@pytest.mark.parametrize(
    "named",
    [
        {"env": "gymnasium:CartPole-v1"},
        {"env": "gymnasium.envs.classic_control:CartPoleEnv"},
        {"environment__wrappers": "gymnasium.wrappers:RescaleAction(min_action=-1,max_action=1)"},
        {"network": {"class": "laser.networks.config:NetworkConfig"}},
        {"env": "no_such_module:World"},
        {"device": "cuda:0", "ray_address": "localhost:6379"},
    ],
    ids=str,
)
def test_lasers_own_and_gymnasiums_are_not_asked_for(make_run, named):
    check_trusted({"config": config_with(**named)}, make_run("theirs"))


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "subprocess:Popen",
        "torch.hub:load",
        "gymnasium:make",
        "gymnasium.envs.registration:load_env_creator",
        "gymnasium.envs.registration:importlib.import_module",
        "laser.user_classes:import_object",
        "launch.__main__:main",
        "__main__:os.system",
    ],
)
def test_functions_that_would_run_anything_are_asked_for(make_run, monkeypatch, name):
    monkeypatch.setattr(sys.modules["__main__"], "os", os, raising=False)
    run = make_run("theirs", config=config_with(env=name))
    with pytest.raises(UntrustedError, match=name.replace(".", r"\.")):
        saved_config(run)


def test_a_file_with_the_name_of_a_known_package_is_somebodys(make_run, monkeypatch):
    monkeypatch.setattr(trust, "_KNOWN", ("odd_world",))
    with pytest.raises(UntrustedError, match=r"odd_world\.py"):
        saved_config(make_run("theirs", config=config_with(env="odd_world:World")))


def test_a_script_is_never_asked_for_its_own_and_is_remembered(stranger, make_run, monkeypatch):
    script = types.ModuleType("__main__")
    script.__file__ = str(stranger / "odd_world.py")
    script.__spec__ = None
    exec(CODE, script.__dict__)
    script.os = os
    monkeypatch.setitem(sys.modules, "__main__", script)
    run = make_run("own", config=config_with(env="odd_world:World"))
    assert saved_config(run).env == "odd_world:World"
    with pytest.raises(UntrustedError, match=r"odd_world:os\.system"):
        saved_config(make_run("theirs", config=config_with(env="odd_world:os.system")))
    remember({"env": "odd_world:World"})
    forget_process()
    monkeypatch.undo()
    monkeypatch.chdir(stranger)
    monkeypatch.setenv("XDG_STATE_HOME", str(stranger.parent / "state"))
    check_trusted(read_record(run), run)


ENTRANCES = {
    "eval": lambda run, trust: laser.evaluate(run, trust=trust),
    "policy": lambda run, trust: laser.load_policy(run, trust=trust),
    "export": lambda run, trust: export(run, ExportOptions(format="torch", trust=trust)),
    "report": lambda run, trust: report(run, ReportOptions(episodes=1, trust=trust)),
    "push": lambda run, trust: write_shared(run, run.parent, "me/it", PushOptions(video=False, trust=trust)),
    "dashboard": lambda run, trust: next(play(run, trust=trust)),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
def test_every_entrance_asks_once(stranger_run, entrance):
    enter = ENTRANCES[entrance]
    with pytest.raises(UntrustedError):
        enter(stranger_run, False)
    assert "odd_world" not in sys.modules
    for allowed in (True, False):
        forget_process()
        with pytest.raises(NothingToResumeError):  # it has no checkpoint
            enter(stranger_run, allowed)


@pytest.mark.parametrize(
    "command",
    [["train", "cartpole", "--resume", "--run-dir"], ["eval"], ["report"], ["export"]],
    ids=lambda command: command[0],
)
def test_the_command_line_says_it_in_one_line(stranger_run, capsys, command):
    assert main([*command, str(stranger_run)]) == 77
    said = capsys.readouterr().err
    assert said.startswith(f"error: run-dir: {stranger_run} would run odd_world:World from")
    assert said.count("\n") == 1
    assert main([*command, str(stranger_run), "--trust"]) != 77
    assert "would run" not in capsys.readouterr().err
    forget_process()
    assert main([*command, str(stranger_run)]) != 77


def test_a_sweep_and_its_members_are_allowed_together(make_run, capsys):
    sweep = {"grid": {"env": ["odd_world:World"]}, "options": {}, "pbt": {}}
    run = make_run("theirs", facts={"sweep": sweep})
    make_run("theirs/members/0", config=config_with(env="odd_world:World", network={"class": "odd_world:Wide"}))
    command = ["sweep", "cartpole", "--resume", "--run-dir", str(run)]
    assert main(command) == 77
    assert main([*command, "--trust"]) != 77
    assert saved_config(run / "members" / "0").env == "odd_world:World"


def test_trust_without_resume_is_a_mistake(capsys):
    assert main(["train", "cartpole", "--trust"]) == 2
    assert "trust: has no effect without --resume" in capsys.readouterr().err


def test_who_starts_a_run_has_named_what_it_consists_of(tmp_path):
    config = load_preset("cartpole", {"env": "odd_world:World", "run-dir": tmp_path / "own"})
    with open_run(config):
        pass
    forget_process()
    assert saved_config(tmp_path / "own").env == "odd_world:World"
    with open_run(dataclasses.replace(config, resume=True)):
        pass


def test_an_environment_to_evaluate_in_is_named_by_the_user(stranger_run, make_run):
    with pytest.raises(LaunchError):
        laser.evaluate(make_run("plain"), env="odd_world:World")
    saved_config(stranger_run)


def test_where_nothing_can_be_remembered_the_process_goes_on(stranger_run, tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.warns(RuntimeWarning, match="odd_world:World cannot be remembered.*--trust") as said:
        trust_run(stranger_run)
    assert len(said) == 1
    assert saved_config(stranger_run).env == "odd_world:World"
    forget_process()
    with pytest.raises(UntrustedError):
        saved_config(stranger_run)


@pytest.mark.parametrize("content", ["", "[", "[]", '{"odd_world:World": 3}', '{"odd_world:World": [3]}', "\udcff"])
def test_a_damaged_file_of_names_knows_nothing(stranger_run, tmp_path, content):
    names = tmp_path / "state" / "laser" / "named.json"
    names.parent.mkdir(parents=True)
    names.write_bytes(content.encode(errors="surrogateescape"))
    with pytest.raises(UntrustedError):
        saved_config(stranger_run)
    remember({"env": "odd_world:World"})
    assert list(json.loads(names.read_text())) == ["odd_world:World"]
    assert [path.name for path in names.parent.iterdir()] == ["named.json"]
