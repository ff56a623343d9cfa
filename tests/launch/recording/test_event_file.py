from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from tensorboard.plugins.hparams.plugin_data_pb2 import HParamsPluginData

from launch.errors import OutputError
from launch.recording.event_file import EventFile


def read(directory):
    accumulator = EventAccumulator(str(directory))
    accumulator.Reload()
    return {
        tag: [(event.step, event.value) for event in accumulator.Scalars(tag)] for tag in accumulator.Tags()["scalars"]
    }


def test_tensorboard_reads_what_is_written(tmp_path):
    with EventFile(tmp_path) as events:
        events.write(100, {"charts/SPS": 1.5, "losses/pg_loss": -2.0})
        events.write(2**40, {"charts/SPS": 2.5})
        assert read(tmp_path) == {"charts/SPS": [(100, 1.5), (2**40, 2.5)], "losses/pg_loss": [(100, -2.0)]}


def test_tensorboard_shows_settings_and_texts(tmp_path):
    settings = {"seed": 3, "algorithm.learning-rate": 0.5, "env": "CartPole-v1"}
    with EventFile(tmp_path, settings, {"command": "laser train"}) as events:
        events.write(1, {"charts/mean_return": 7.0})
    accumulator = EventAccumulator(str(tmp_path))
    accumulator.Reload()
    (text,) = accumulator.Tensors("command/text_summary")
    assert text.tensor_proto.string_val == [b"laser train"]
    contents = accumulator.PluginTagToContent("hparams")
    started = HParamsPluginData.FromString(contents["_hparams_/session_start_info"]).session_start_info
    shown = {key: value.WhichOneof("kind") for key, value in started.hparams.items()}
    assert shown == {
        "seed": "number_value",
        "algorithm.learning-rate": "number_value",
        "env": "string_value",
    }
    experiment = HParamsPluginData.FromString(contents["_hparams_/experiment"]).experiment
    assert [metric.name.tag for metric in experiment.metric_infos] == ["charts/mean_return", "evaluation/mean_return"]
    assert "_hparams_/session_end_info" not in contents


def test_a_resumed_run_replaces_the_points_beyond_its_checkpoint(tmp_path):
    with EventFile(tmp_path) as events:
        for step in (10, 20, 30):
            events.write(step, {"a": float(step)})
    with EventFile(tmp_path) as events:
        events.forget_after(21)
        events.write(25, {"a": 25.0})
    assert read(tmp_path) == {"a": [(10, 10.0), (20, 20.0), (25, 25.0)]}


def test_errors_reach_the_caller(tmp_path):
    with pytest.raises(OutputError, match="No such file"):
        EventFile(tmp_path / "gone")
    if not Path("/dev/full").exists():
        pytest.skip("no /dev/full here")
    with EventFile(tmp_path) as events, Path("/dev/full").open("wb", buffering=0) as full:
        events._records._writer = full
        with pytest.raises(OutputError, match="No space left on device"):
            events.write(1, {"a": 1.0})
