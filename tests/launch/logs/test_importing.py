"""A log as the saved replay of a new run: nothing of it is lost, no step is made, and a run continues from it."""

import json
import shlex

import numpy as np
import pytest

from laser.environments import EnvironmentConfig, describe_environment
from laser.logs.minari_log import MinariLog
from launch.__main__ import main
from launch.logs.export import export_replay
from launch.logs.options import ReplayOptions
from launch.presets import load_preset
from launch.train import train
from learner.checkpoint import load_newest_checkpoint

LOG, BACK = "minari:tests/made-v0", "minari:tests/back-v0"


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """A data set of CartPole by an agent of LASER."""
    path = tmp_path_factory.mktemp("data")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MINARI_DATASETS_PATH", str(path))
        values = {"quiet": True, "run_dir": path / "run", "checkpoint_replay": True, "steps": 1500}
        train(load_preset("cartpole", {**values, "replay.min_steps": 128}))
        yield export_replay(path / "run", LOG, ReplayOptions())


def contents(name):
    """Return the bytes of each episode of a log: observations, actions, rewards, its end, mu."""
    log = MinariLog(name, describe_environment("CartPole-v1", EnvironmentConfig()))
    return sorted(
        b"".join(
            np.ascontiguousarray(array).tobytes()
            for array in (*each.observations.values(), each.actions, each.rewards, each.terminated, *each.mu.values())
        )
        for each in map(log.episode, range(len(log)))
    )


def test_what_is_imported_is_exported_again_and_a_run_continues_from_it(tmp_path, data, capsys):
    run = tmp_path / "run"
    assert main(["replay", "import", LOG, "--run-dir", str(run)]) == 0
    printed = capsys.readouterr()
    assert f"{run}: {data.env_steps:,} env steps of {LOG}" in printed.out
    record = json.loads((run / "config.json").read_text())
    assert (record["config"]["env"], record["config"]["preset"]) == ("CartPole-v1", "cartpole")
    export_replay(run, BACK, ReplayOptions())
    assert contents(BACK) == contents(LOG)

    line = printed.out.splitlines()[-1]
    assert line.startswith("to learn from them: ")
    words = shlex.split(line.partition(": ")[2])[1:]
    assert main([*words, "--steps", "300", "--json", "--quiet"]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert 300 <= result["env_steps"] < 600, "the import made no env step"
    assert "starts empty" not in (run / "log.txt").read_text()
    ledger = result["ledger"]
    assert ledger["stages"]["sampled"] > 0, "the preset's warm-up alone is longer"
    assert set(ledger["imbalance"].values()) == {0}
    assert ledger["stages"]["made"] == ledger["stages"]["received"]


def test_what_was_read_is_printed_as_json_also_by_several_shards(tmp_path, data, capsys):
    words = ["--run-dir", str(tmp_path / "run"), "--json", "--replay.num-shards", "2", "--num-actors", "2"]
    assert main(["replay", "import", LOG, "dqn_cartpole", *words]) == 0
    result = json.loads(capsys.readouterr().out.splitlines()[-1])
    config = json.loads((tmp_path / "run" / "config.json").read_text())["config"]
    assert result.pop("unrolls") * config["unroll_length"] >= data.env_steps
    assert result == {"run_dir": str(tmp_path / "run"), "name": LOG, "env_steps": data.env_steps}
    states = load_newest_checkpoint(tmp_path / "run" / "checkpoints")[0].state["tree"]["replay"]
    assert [state["ledger"]["inserted"] > 0 for state in states] == [True] * 2


@pytest.mark.parametrize(
    ("words", "wrong"),
    [
        ([], "name: must be minari:NAMESPACE/NAME-vN, got '--run-dir'; use laser replay import"),
        (["carts"], "name: must be minari:NAMESPACE/NAME-vN, got 'carts'; use laser replay import"),
        (["minari:tests/none-v0"], "init-replay: there is no data set tests/none-v0 on this machine"),
        (["minari:tests/none-v0", "cartpole"], "init-replay: there is no data set tests/none-v0 on this machine"),
        ([LOG, "--env", "Acrobot-v1"], "init-replay: tests/made-v0 has other "),
        ([LOG, "--offline", LOG], "init-replay: has no effect with offline"),
        ([LOG, "impala_cartpole"], "init-replay: impala draws nothing from a replay"),
        ([LOG, "--resume"], "resume: an import makes a new run; leave it out"),
        ([LOG, "--stepz", "3"], "stepz: unknown key; did you mean steps?"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(tmp_path, data, capsys, words, wrong):
    assert main(["replay", "import", *words, "--run-dir", str(tmp_path / "run")]) == 2
    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("error: ")]
    assert len(said) == 1, said
    assert said[0].startswith(f"error: {wrong}")
    assert not (tmp_path / "run").exists()


def test_a_directory_that_holds_a_run_is_left_alone(tmp_path, data, capsys):
    words = ["replay", "import", LOG, "--run-dir", str(tmp_path / "run"), "--quiet"]
    assert main(words) == 0
    before = files_of(tmp_path / "run")
    assert main(words) != 0
    assert "error: run-dir: " in capsys.readouterr().err
    assert files_of(tmp_path / "run") == before


def files_of(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
