import dataclasses
import json
import sys

import pytest

from laser.algorithms.laser import LaserConfig
from laser.config import ConfigError
from laser.networks.config import NetworkConfig
from laser.user_classes import class_path, find_class, find_code
from launch.presets import load_preset
from launch.settings.json_form import config_from_json, config_to_json

MODULE = """
import dataclasses
from laser.algorithms.laser import LaserConfig
from laser.networks.config import NetworkConfig

@dataclasses.dataclass(frozen=True)
class Wide(NetworkConfig):
    factor: int = 2

@dataclasses.dataclass(frozen=True)
class Mine(LaserConfig):
    patience: float = 0.5

class Other: ...
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "my_classes.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield __import__("my_classes")
    sys.modules.pop("my_classes", None)


def test_classes_of_the_users_own_come_back_with_their_values(mine):
    config = dataclasses.replace(load_preset("cartpole"), algorithm=mine.Mine(patience=0.25), network=mine.Wide())
    value = json.loads(json.dumps(config_to_json(config), allow_nan=False))
    assert value["algorithm"]["class"] == "my_classes:Mine"
    assert value["network"]["class"] == "my_classes:Wide"
    back = config_from_json(value)
    assert back == config
    assert type(back.algorithm) is mine.Mine


def test_lasers_own_classes_carry_no_place():
    value = config_to_json(load_preset("cartpole"))
    assert "class" not in value["algorithm"]
    assert "class" not in value["network"]


@pytest.mark.parametrize(
    ("place", "words"),
    [
        ("no_such_module:Mine", "run from the folder that holds no_such_module.py"),
        ("my_classes:Nothing", "is no NetworkConfig"),
        ("my_classes:Other", "is no NetworkConfig"),
        ("my_classes:Mine", "is no NetworkConfig"),
        ("os:system", "is no NetworkConfig"),
        ("", "cannot be imported"),
    ],
)
def test_what_is_not_found_is_one_problem(mine, place, words):
    value = config_to_json(load_preset("cartpole"))
    value["network"]["class"] = place
    with pytest.raises(ConfigError, match=words) as caught:
        config_from_json(value)
    assert [problem.key for problem in caught.value.problems] == ["network.class"]


def test_a_module_that_fails_while_imported_is_named(tmp_path, monkeypatch):
    (tmp_path / "my_broken.py").write_text("1 / 0")
    (tmp_path / "my_needy.py").write_text("import not_installed_anywhere")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ValueError, match=r"ZeroDivisionError.*mend my_broken"):
        find_class("my_broken:X", NetworkConfig)
    with pytest.raises(ValueError, match="pip install not_installed_anywhere"):
        find_class("my_needy:X", NetworkConfig)


def test_a_class_inside_a_function_is_refused_before_anything_starts():
    @dataclasses.dataclass(frozen=True)
    class Hidden(LaserConfig):
        pass

    with pytest.raises(ConfigError, match="algorithm: must be defined at the top level of a module"):
        dataclasses.replace(load_preset("cartpole"), algorithm=Hidden()).check()


def test_a_class_of_the_running_script_is_found_without_running_it_twice(mine, monkeypatch):
    monkeypatch.setattr(mine.Wide, "__module__", "__main__")
    monkeypatch.setitem(sys.modules, "__main__", mine)
    monkeypatch.setattr(mine, "__spec__", None)
    assert class_path(mine.Wide) == "my_classes:Wide"
    monkeypatch.delitem(sys.modules, "my_classes")
    assert find_class("my_classes:Wide", NetworkConfig) is mine.Wide
    assert "my_classes" not in sys.modules


@pytest.mark.parametrize("sees_folder", [True, False])
def test_the_code_of_a_module_is_found_without_running_it_and_without_changing_the_path(
    tmp_path, monkeypatch, sees_folder
):
    (tmp_path / "my_file.py").write_text("1 / 0")
    (tmp_path / "my_package").mkdir()
    (tmp_path / "my_package" / "__init__.py").write_text("1 / 0")
    (tmp_path / "my_folder").mkdir()
    (tmp_path / "elsewhere" / "my_folder").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    folders = [path for path in sys.path if path not in ("", str(tmp_path))] + [str(tmp_path / "elsewhere")]
    monkeypatch.setattr(sys, "path", [*folders, *([str(tmp_path)] if sees_folder else [])])
    before = list(sys.path)
    assert find_code("my_file") == (str(tmp_path / "my_file.py"),)
    assert find_code("my_package.part") == (str(tmp_path / "my_package" / "__init__.py"),)
    # A package without __init__.py has several folders, and an import may take its parts from each.
    assert set(find_code("my_folder.part")) == {str(tmp_path / "elsewhere" / "my_folder"), str(tmp_path / "my_folder")}
    assert find_code("my_nothing") == find_code("") == find_code(".my_file") == ()
    assert find_code("os") == ("frozen",)
    assert sys.path == before
    assert not {"my_file", "my_package", "my_folder"} & set(sys.modules)
