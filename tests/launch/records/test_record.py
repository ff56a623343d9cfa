import json
import os

import pytest

from launch.records.record import load_record


def test_a_record_is_read(tmp_path):
    path = tmp_path / "config.json"
    record = {"config": {"seed": 1}, "command": "laser train"}
    path.write_text(json.dumps(record))
    assert load_record(path) == record


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "Expecting property name"),
        ("[]", "not a run's record"),
        ('{"config": 3}', "not a run's record"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_what_is_no_record_is_said(tmp_path, text, says):
    path = tmp_path / "config.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=says):
        load_record(path)


def test_a_pipe_in_place_of_a_record_is_no_file(tmp_path):
    path = tmp_path / "config.json"
    os.mkfifo(path)
    with pytest.raises(OSError, match=f"Not a regular file: '{path}'"):
        load_record(path)


def test_a_missing_record_is_an_error_of_the_file_system(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_record(tmp_path / "config.json")
