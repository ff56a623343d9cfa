import subprocess
import sys

import pytest

from launch.shadowing import find_shadowed, shadowing_error


def test_nothing_is_shadowed_here():
    assert list(find_shadowed()) == []
    assert shadowing_error() is None


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


def test_a_missing_package(monkeypatch):
    monkeypatch.setattr("launch.shadowing.importlib.util.find_spec", lambda name: None)
    assert shadowing_error() == "error: laser: the package laser is missing; reinstall LASER"
