"""Sharing of agents: what is pushed, to a folder and to a stand-in of the Hub, and that it plays again once pulled."""

import json
import re
import shutil
from pathlib import Path

import pytest

from laser.config import ConfigError
from launch.__main__ import main
from launch.errors import CannotCreateError, LaunchError, NothingToResumeError, UntrustedError
from launch.evaluation.evaluate import evaluate
from launch.sharing.options import PullOptions, PushOptions
from launch.sharing.sharing import pull, push


class StandIn:
    """The Hub's client, which keeps what is uploaded in a folder."""

    def __init__(self, place):
        self.place = place
        self.calls = []

    def create_repo(self, repo, private, exist_ok):
        self.calls.append((repo, private, exist_ok))
        return f"https://huggingface.co/{repo}"

    def upload_folder(self, repo_id, folder_path, commit_message):
        shutil.copytree(folder_path, self.place / repo_id)

    def download(self, repo, revision, local_dir):
        if not (self.place / repo).exists():
            raise FileNotFoundError(f"404: no repository {repo}")
        shutil.copytree(self.place / repo, local_dir)
        (Path(local_dir) / ".cache").mkdir()


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs") / "mine"
    line = ["train", "cartpole", "--steps", "600", "--run-dir", str(path), "--quiet", "--tag", "first"]
    assert main(line) == 0
    return path


SMALL = PushOptions(episodes=2, video=False, quiet=True)


def test_what_goes_to_a_folder_and_back_plays_the_same_episodes(run, tmp_path):
    folder = tmp_path / "shared"
    assert push(run, str(folder), SMALL) == str(folder)
    assert {path.name for path in folder.iterdir()} == {
        "README.md",
        "checkpoints",
        "config.json",
        "curve.png",
        "metrics.db",
        "results.json",
    }
    pulled = pull(str(folder), PullOptions(run_dir=tmp_path / "pulled"))
    before, after = (evaluate(path, 2, seed=5, quiet=True, checkpoint="best") for path in (run, pulled))
    assert before.tasks[0].returns == after.tasks[0].returns
    assert main(["train", "cartpole", "--resume", "--run-dir", str(pulled), "--steps", "700", "--quiet"]) == 0


def test_the_card_says_what_the_hub_reads_and_how_to_use_it(run, tmp_path):
    push(run, str(tmp_path / "shared"), SMALL)
    text = (tmp_path / "shared" / "README.md").read_text()
    from huggingface_hub import ModelCard

    card = ModelCard(text)
    assert card.data.library_name == "laser-rl"
    assert {"reinforcement-learning", "CartPole-v1", "laser", "first"} <= set(card.data.tags)
    (result,) = card.data.eval_results
    results = json.loads((tmp_path / "shared" / "results.json").read_text())
    assert result.metric_value.startswith(f"{results['mean_return']:.2f} ")
    assert "![mean return over training](curve.png)" in text
    assert "| steps | 100000 | 600 |" in text
    assert "replay.mp4" not in text


def test_the_hub_gets_the_folder_and_gives_it_back(run, tmp_path):
    client = StandIn(tmp_path / "hub")
    address = push(run, "me/cart", PushOptions(episodes=2, video=False, quiet=True, private=True), client)
    assert address == "https://huggingface.co/me/cart"
    assert client.calls == [("me/cart", True, True)]
    pulled = pull("me/cart", PullOptions(run_dir=tmp_path / "pulled"), client.download)
    assert not (pulled / ".cache").exists()
    assert evaluate(pulled, 1, quiet=True).tasks[0].returns


def test_refusals_are_one_line_and_leave_nothing(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    client = StandIn(tmp_path / "hub")
    with pytest.raises(LaunchError, match="you/none: 404: no repository you/none; check the name and the network"):
        pull("you/none", PullOptions(run_dir=Path("a")), client.download)
    with pytest.raises(ConfigError, match=r"repo: must be OWNER/NAME, or a folder such as \./NAME, got 'x y'"):
        push(run, "x y", SMALL)
    with pytest.raises(NothingToResumeError, match="is not a folder"):
        pull("./none", PullOptions(run_dir=Path("a")))
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("no run")
    with pytest.raises(NothingToResumeError):
        pull("./other", PullOptions(run_dir=Path("a")))
    with pytest.raises(CannotCreateError, match="is no empty folder"):
        push(run, "./other", SMALL)
    with pytest.raises(CannotCreateError, match="exists"):
        pull("./other", PullOptions(run_dir=Path("other")))
    assert {path.name for path in tmp_path.iterdir()} == {"other"}


def test_code_that_a_pulled_run_names_waits_for_permission(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    push(run, str(tmp_path / "shared"), SMALL)
    record = json.loads((tmp_path / "shared" / "config.json").read_text())
    record["config"]["env"] = "somebodys_world:World"
    (tmp_path / "shared" / "config.json").write_text(json.dumps(record))
    (tmp_path / "somebodys_world.py").write_text("raise SystemExit('it has run')")
    pulled = pull(str(tmp_path / "shared"), PullOptions(run_dir=tmp_path / "pulled"))
    with pytest.raises(UntrustedError, match=r"somebodys_world:World from .*--trust"):
        evaluate(pulled, 1, quiet=True)


def test_a_damaged_checkpoint_is_not_pulled(run, tmp_path):
    folder = tmp_path / "shared"
    push(run, str(folder), SMALL)
    (networks,) = (folder / "checkpoints").glob("*/networks.safetensors")
    networks.write_bytes(networks.read_bytes()[:-1])
    with pytest.raises(NothingToResumeError, match=r"networks\.safetensors"):
        pull(str(folder), PullOptions(run_dir=tmp_path / "pulled"))
    assert not (tmp_path / "pulled").exists()


def test_a_folder_without_a_run_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mods").mkdir()
    with pytest.raises(NothingToResumeError, match=r"^pull: \./mods holds no run.*; name one that laser push made"):
        pull("./mods", PullOptions())
    assert not (tmp_path / "runs" / "mods").exists()


def test_links_to_other_files_are_neither_pushed_nor_pulled(run, tmp_path):
    (tmp_path / "secret").write_text("mine")
    folder = tmp_path / "shared"
    push(run, str(folder), SMALL)
    (folder / "notes.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(LaunchError, match=r"notes\.txt is a link out of the directory"):
        pull(str(folder), PullOptions(run_dir=tmp_path / "pulled"))
    stranger = tmp_path / "stranger"
    shutil.copytree(run, stranger)
    (checkpoint,) = (stranger / "checkpoints").iterdir()
    (checkpoint / "more.txt").symlink_to(tmp_path / "secret")
    with pytest.raises(LaunchError, match=r"more\.txt is a link out of the directory"):
        push(stranger, str(tmp_path / "again"), SMALL)
    assert not (tmp_path / "pulled").exists()
    assert not (tmp_path / "again").exists()


def test_the_commands(run, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(["push", str(run), "./shared", "--episodes", "1", "--no-video"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "shared"
    assert re.search(
        r"^\| CartPole-v1 \| 1 \| [\d.]+ \|  \|$", Path("shared/README.md").read_text(), re.M
    )  # no interval
    assert main(["pull", "./shared"]) == 0
    assert capsys.readouterr().out == "runs/shared\n"
    assert main(["push", str(run)]) == 2
    assert "repo: is missing" in capsys.readouterr().err
