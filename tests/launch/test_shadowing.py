import os
import subprocess
import sys
from pathlib import Path

import pytest

from launch.shadowing import check_packages, find_shadowed, shadowing_error

ROOT = Path(__file__).parents[2]


def test_nothing_is_shadowed_here():
    assert list(find_shadowed()) == []
    assert shadowing_error() is None
    check_packages()


@pytest.mark.parametrize("name", ["actors", "learner", "replay_server", "laser"])
@pytest.mark.parametrize("form", ["package", "module"])
def test_a_package_of_the_same_name_is_one_line(tmp_path, name, form):
    place = tmp_path / name if form == "package" else tmp_path / f"{name}.py"
    file = place / "__init__.py" if form == "package" else place
    file.parent.mkdir(exist_ok=True)
    file.write_text("raise SystemExit('imported the wrong one')")
    script = "import launch, sys; sys.path.insert(0, sys.argv[1]); from launch.__main__ import main; sys.exit(main([]))"
    result = subprocess.run([sys.executable, "-c", script, str(tmp_path)], capture_output=True, text=True, check=False)
    assert result.returncode == 1
    assert result.stderr.startswith(f"error: {name}: Python finds {place} instead of LASER's package {name}; ")
    assert len(result.stderr.splitlines()) == 1


@pytest.mark.parametrize("name", ["actors", "learner", "replay_server", "launch"])
@pytest.mark.parametrize("use", ["import laser; laser.train", "from laser import load_preset"])
def test_in_a_script_it_is_an_import_error_that_names_the_file(tmp_path, name, use):
    place = tmp_path / f"{name}.py"
    place.touch()
    (tmp_path / "mine.py").write_text(use)
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    command = [sys.executable, "mine.py"]
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert result.returncode == 1
    expected = f"ImportError: Python finds {place} instead of LASER's package {name}; rename or move it"
    assert result.stderr.splitlines()[-1] == expected
    assert "During handling" not in result.stderr


def test_the_error_has_the_name_and_the_file(monkeypatch):
    monkeypatch.setattr("launch.shadowing.find_shadowed", lambda: iter([("actors", "/elsewhere/actors.py")]))
    with pytest.raises(ImportError, match="Python finds /elsewhere/actors") as caught:
        check_packages()
    assert (caught.value.name, caught.value.path) == ("actors", "/elsewhere/actors.py")


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr("launch.shadowing.importlib.util.find_spec", lambda name: None)
    assert shadowing_error() == "error: laser: the package laser is missing; reinstall LASER"
