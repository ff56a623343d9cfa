"""Completion of commands, presets, flags and their values in bash, zsh and fish."""

from __future__ import annotations

import importlib
import types
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Literal, Union, get_args, get_origin

from launch.settings.values import Leaf, find_leaves

SHELLS = {
    "bash": """\
_laser() {
    local IFS=$'\\n'
    COMPREPLY=($(laser complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null))
}
complete -o default -F _laser laser""",
    "zsh": """\
#compdef laser
_laser() {
    local -a found
    found=("${(@f)$(laser complete "${(@)words[2,CURRENT]}" 2>/dev/null)}")
    [[ -n ${found[1]} ]] && compadd -a found || _files
}
compdef _laser laser""",
    "fish": """\
function _laser
    set -l words (commandline --tokenize --cut-at-cursor --current-process) (commandline --current-token)
    laser complete $words[2..] 2>/dev/null
end
complete --command laser --arguments '(_laser)'""",
}
"""For each shell, the commands that make it complete the words of `laser`."""

_OF_SWEEPS = ("grid", "zip", "space", "games", "repeats", "jobs")
_OPTIONS = {
    "eval": ("launch.evaluation.options", "EvalOptions"),
    "play": ("launch.evaluation.options", "PlayOptions"),
    "report": ("launch.report.options", "ReportOptions"),
    "export": ("launch.export.options", "ExportOptions"),
    "push": ("launch.sharing.options", "PushOptions"),
    "pull": ("launch.sharing.options", "PullOptions"),
    "reproduce": ("launch.reproductions.options", "ReproduceOptions"),
    "dashboard": ("launch.dashboard.options", "DashboardOptions"),
}
"""Module and class of the options of each command, none of which imports torch."""


def find_candidates(words: Sequence[str], commands: Sequence[str]) -> list[str]:
    """Return what the last word of a command line may become; [] where the shell should offer files.

    Args:
        words: the words after `laser`; the last one may be unfinished or "".
        commands: the names of all commands.
    """
    *before, word = words or [""]
    if not before:
        found: Iterable[str] = commands
    elif before[0] in ("train", "sweep"):
        found = _of_training(before[0], before[1:], word)
    else:
        found = _of_options(before[0], before[1:], word)
    return [candidate for candidate in found if candidate.startswith(word)]


def _of_training(command: str, before: Sequence[str], word: str) -> Iterator[str]:
    from launch.presets import find_presets, load_preset

    presets = find_presets()
    name = next((each for each in before if each in presets), "")
    last = before[-1] if before else ""
    if not word.startswith("--") and not last.startswith("--"):
        yield from () if name else presets
        return
    leaves = list(find_leaves(load_preset(name or next(iter(presets)))))
    if command == "sweep":
        from launch.sweeps.sweep_options import sweep_leaves

        leaves += sweep_leaves()
    further = _OF_SWEEPS if command == "sweep" else ()
    # Without a preset the keys of the algorithm are not known yet.
    known = [leaf for leaf in leaves if name or not leaf.key.startswith("algorithm.")]
    yield from _flags_or_values(known, ["config", *further], last, word)


def _of_options(command: str, before: Sequence[str], word: str) -> Iterator[str]:
    last = before[-1] if before else ""
    if command == "completion":
        yield from SHELLS
    elif command == "bench" and not before:
        from launch.bench import find_benches

        yield from find_benches()
    elif command == "reproduce" and not word.startswith("--") and not last.startswith("--"):
        from launch.reproductions.catalogue import find_names

        yield from ("list", "all", *find_names())
    elif command in _OPTIONS:
        module, name = _OPTIONS[command]
        options = getattr(importlib.import_module(module), name)()
        yield from _flags_or_values(list(find_leaves(options)), [], last, word)


def _flags_or_values(leaves: Sequence[Leaf], further: Sequence[str], last: str, word: str) -> Iterator[str]:
    """Yield flags where the word begins one, or else the values of the flag before it, if these are known."""
    if word.startswith("--"):
        yield from (f"--{key}" for key in (*(leaf.key for leaf in leaves if not leaf.is_table), *further))
        return
    for leaf in leaves:
        if last == f"--{leaf.key}":
            yield from _values(leaf.info.type)


def _values(type_: Any) -> Iterator[str]:
    if get_origin(type_) is Literal:
        yield from map(str, get_args(type_))
    elif get_origin(type_) in (Union, types.UnionType):
        words = [word for part in get_args(type_) for word in _values(part)]
        yield from (*words, "none") if words and type(None) in get_args(type_) else words
