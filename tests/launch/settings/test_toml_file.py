import pytest

from laser.config import ConfigError
from launch.settings.toml_file import read_config_file


def test_tables_become_paths(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text(
        'steps = 1_000\nenv = "X-v0"\n[algorithm]\nlearning-rate = 3e-4\n[network]\nhidden_sizes = [8, 8]\n'
    )
    assert read_config_file(path) == {
        "steps": 1000,
        "env": "X-v0",
        "algorithm.learning-rate": 3e-4,
        "network.hidden_sizes": [8, 8],
    }


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (None, "cannot be read: No such file"),
        (b"steps = ", "is not valid TOML"),
        (b"a = 1\na = 2", "is not valid TOML"),
        (b"\xff\xfe", "is not a text file"),
        (b"a = " + b"[" * 100_000 + b"]" * 100_000, "is nested too deeply"),
    ],
)
def test_unreadable_files_are_one_line(tmp_path, content, says):
    path = tmp_path / "c.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ConfigError, match=says) as caught:
        read_config_file(path)
    assert [problem.key for problem in caught.value.problems] == ["config"]


def test_a_directory_is_no_file(tmp_path):
    with pytest.raises(ConfigError, match="Is a directory"):
        read_config_file(tmp_path)
