"""Tests without their packages: left out where a person runs pytest, an error where all are wanted."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

CONFTEST = Path(__file__).with_name("conftest.py")


@pytest.fixture
def suite(tmp_path):
    """A folder of tests with this conftest, where some of them need a package that does not exist."""
    text = CONFTEST.read_text()
    begin, end = text.index("NEEDS = {"), text.index("\n}\n") + 3
    needs = {
        "whole/test_a.py": ("no_such_package",),
        "test_b.py::[needy": ("no_such_package", "sys"),
        "test_c.py": ("sys",),
    }
    (tmp_path / "conftest.py").write_text(f"{text[:begin]}NEEDS = {needs!r}\n{text[end:]}")
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = -ra -p no:dash -p no:cacheprovider\nmarkers = gpu\n")
    (tmp_path / "whole").mkdir()
    (tmp_path / "whole" / "test_a.py").write_text("import no_such_package\n")
    (tmp_path / "test_b.py").write_text(
        "import pytest\n@pytest.mark.parametrize('how', ['needy', 'alone'])\ndef test_it(how): assert how == 'alone'\n"
    )
    (tmp_path / "test_c.py").write_text(
        "import pytest\n@pytest.mark.gpu\ndef test_long(request):\n"
        "    assert request.node.get_closest_marker('timeout').args == (300,)\n"
        "@pytest.mark.gpu\n@pytest.mark.timeout(7)\ndef test_short(request):\n"
        "    assert request.node.get_closest_marker('timeout').args == (7,)\n"
        "def test_other(request):\n    assert request.node.get_closest_marker('timeout') is None\n"
    )

    def run(*options, **variables):
        environment = {name: value for name, value in os.environ.items() if name != "CI"} | variables
        command = [sys.executable, "-m", "pytest", *options]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)

    return run


def test_tests_without_their_packages_are_left_out_and_named(suite):
    ended = suite()
    assert ended.returncode == 0, ended.stdout
    assert "4 passed, 1 skipped" in ended.stdout
    assert "needs no_such_package, which is not installed" in ended.stdout
    assert "whole/test_a.py: needs no_such_package\n" in ended.stdout


@pytest.mark.parametrize(("options", "variables"), [(["--all-packages"], {}), ([], {"CI": "true"})])
def test_where_all_are_wanted_a_missing_package_is_an_error(suite, options, variables):
    ended = suite(*options, **variables)
    assert ended.returncode == pytest.ExitCode.USAGE_ERROR
    assert ended.stderr == "ERROR: tests need no_such_package, not installed here; pip install -e '.[dev]'\n\n"


def test_what_has_not_begun_when_time_is_over_is_skipped_by_name(suite):
    ended = suite("--begin-before", "0")
    assert ended.returncode == 0, ended.stdout
    assert "not run, since time was over: 5" in ended.stdout
    assert "\ntest_b.py::test_it[alone]\n" in ended.stdout
    assert "5 skipped" in ended.stdout
    assert "passed" not in ended.stdout
    assert "passed" in suite("--begin-before", "1e12").stdout


def test_no_test_lowers_the_priority_of_those_after_it():
    assert os.nice(1) == os.nice(0)
