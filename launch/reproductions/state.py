"""The record of a reproduction, with which a stopped one goes on: its settings, its commands, and which are done."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from launch.errors import CannotCreateError
from launch.records.atomic_files import replace_file
from launch.records.run_lock import locked
from launch.records.run_record import read_record
from launch.reproductions.figure import Figure
from launch.reproductions.options import ReproduceOptions
from launch.reproductions.plan import Run

_RECORD = "reproduction.json"
_SETTINGS = ("preset", "scale", "small", "games", "env", "arms", "seeds")
_PARTS = {"figure": str, "settings": dict, "commands": dict, "rules": dict}


class Reproduction:
    """The directory of a figure's runs.

    Args:
        path: the directory.
        option: of the command, which names the directory.
        elsewhere: what the user does to have another directory; "": names one with the option.
    """

    def __init__(self, path: Path, option: str = "out", elsewhere: str = ""):
        self.path = path
        self._option = option
        self._elsewhere = elsewhere or f"choose another --{option}"

    def begin(self, figure: Figure, options: ReproduceOptions, runs: Sequence[Run]) -> None:
        """Write the record, or check that the directory's is of the same settings and commands.

        Raises:
            CannotCreateError: it is of other settings or commands, or of no reproduction at all.
            OutputError: the directory cannot be written.
        """
        now = {
            "figure": figure.owner,
            "settings": {key: getattr(options, key) for key in _SETTINGS},
            "commands": {run.name: list(run.words) for run in runs},
            "rules": {figure.name: [str(rule) for rule in figure.rules]},
        }
        record = self.path / _RECORD
        if record.exists():
            then = self._read(record)
            self._check(then, now)
            if figure.name not in then["rules"]:  # another figure with the same runs
                replace_file(record, json.dumps({**then, "rules": then["rules"] | now["rules"]}, indent=1).encode())
            return
        if self.path.exists() and not self.path.is_dir():
            raise self._refusal(f"{self.path} is a file")
        if self.path.exists() and any(self.path.iterdir()):
            raise self._refusal(f"{self.path} holds other files")
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise self._refusal(f"{self.path}: {error.strerror}") from error
        replace_file(record, json.dumps(now, indent=1).encode())

    def held(self) -> AbstractContextManager[Any]:
        """Return a block during which no other process runs anything in the directory.

        Raises:
            RunInUseError: another process does.
        """
        return locked(self.path, "the same command tries again", self._option)

    def run_dir(self, run: Run) -> Path:
        """Return the directory of a run."""
        return self.path / "runs" / run.name

    def is_done(self, run: Run) -> bool:
        """Whether a run has ended well, and its record is still there."""
        return self._mark(run).exists() and (self.run_dir(run) / "config.json").exists()

    def set_done(self, run: Run, seconds: float) -> None:
        """Note that a run has ended well."""
        self._mark(run).parent.mkdir(exist_ok=True)
        replace_file(self._mark(run), json.dumps({"seconds": round(seconds, 1), "command": str(run)}).encode())

    def seconds(self, runs: Sequence[Run]) -> float:
        """Return how long the finished runs took, one after the other; of resumed ones the last part."""
        marks = [self._mark(run) for run in runs if self.is_done(run)]
        return float(sum(json.loads(mark.read_text(encoding="utf-8"))["seconds"] for mark in marks))

    def commits(self, runs: Sequence[Run]) -> list[str]:
        """Return the commits of the sources that the finished runs ran."""
        found = [read_record(self.run_dir(run)).get("commit") for run in runs if self.is_done(run)]
        return list(dict.fromkeys(filter(None, found)))

    def resume_or_clear(self, run: Run) -> bool:
        """Return whether a run has a checkpoint to continue from; remove one that has none, so that it starts again.

        Raises:
            RunInUseError: it still trains, since an earlier command was killed.
        """
        place = self.run_dir(run)
        if any(place.glob("checkpoints/[0-9]*")) or any(place.glob("members/*/checkpoints/[0-9]*")):
            return True
        if place.exists():
            with locked(place, "the same command tries again", self._option):
                shutil.rmtree(place)
        return False

    def places(self, runs: Sequence[Run]) -> dict[str, Path]:
        """Return the directories of the runs that have ended well, by name."""
        return {run.name: self.run_dir(run) for run in runs if self.is_done(run)}

    def _mark(self, run: Run) -> Path:
        return self.path / "done" / f"{run.name}.json"

    def _read(self, record: Path) -> dict[str, Any]:
        try:
            then = json.loads(record.read_text(encoding="utf-8"))
            if not all(isinstance(then.get(key), kind) for key, kind in _PARTS.items()):
                raise ValueError("it lacks a part")
        except (OSError, ValueError, AttributeError) as error:
            raise self._refusal(f"{record} cannot be read: {error}") from error
        return dict(then)

    def _refusal(self, wrong: str, first: str = "") -> CannotCreateError:
        """Return the error of a directory that cannot be used; `first` stands before the remedy, another directory."""
        return CannotCreateError(self._option, wrong, f"{first}{self._elsewhere}")

    def _check(self, then: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        first = "go on with the settings of before, or "
        if then["figure"] != now["figure"]:
            raise self._refusal(f"{self.path} holds runs of {then['figure']}, not of {now['figure']}", first)
        for key in _SETTINGS:
            after = now["settings"][key]
            before = then["settings"].get(key, after)  # older records lack some; their commands differ, too
            if before != after:
                if before == "":
                    begun = f"without a {key}, not with {after}"
                else:
                    begun = f"with {_amount(key, before)}, not " + (_amount("", after) if after != "" else "without")
                wrong = f"{self.path} was begun {begun}"
                raise CannotCreateError(key, wrong, f"{first}{self._elsewhere}")
        changed = [name for name, words in now["commands"].items() if then["commands"].get(name) != words]
        if changed or len(then["commands"]) != len(now["commands"]):
            wrong = f"the commands of {self.path} have changed since it was begun"
            wrong += f", {changed[0]} among them" if changed else ""
            raise self._refusal(wrong)
        for name, rules in now["rules"].items():
            if then["rules"].get(name, rules) != rules:
                wrong = f"the rules of {name} have changed since {self.path} was begun"
                raise self._refusal(wrong, "a rule stands before the runs: ")


def _amount(key: str, value: Any) -> str:
    """Return a setting in words; a number of games or seeds that is 0 stands for all."""
    words = "all" if type(value) is int and value == 0 else str(value)
    return f"{key} {words}".strip()
