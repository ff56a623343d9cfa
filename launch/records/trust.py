"""Code that a run directory names, and whether this user has named it himself.

A run's config names its user's own environments, wrappers, networks, algorithms and samplers as `module:Name`. Reading
the config imports them, and the environment is called with arguments from the same file: a directory from somebody else
could run anything. A name is trusted if

* it is a class of LASER or of an installed package whose environments LASER knows, or an environment registered there;
* or this user has trained or evaluated with this name, from the same file, on this machine. `remember` keeps such names
  in `$XDG_STATE_HOME/laser/named.json` (`~/.local/state/laser`);
* or it is defined in the script that runs.

`config_from_record` asks `check_trusted` before it reads a config. Nothing else reads configs of run directories.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
import site
import sysconfig
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import laser
from laser.user_classes import NO_FILE, find_code, import_object, is_running_script
from launch.errors import UntrustedError
from launch.records.record import load_record

_LASER = ("actors", "laser", "launch", "learner", "replay_server")
_KNOWN = ("ale_py", "dm_control", "gymnasium", "minatar", "minigrid")
_SEPARATORS = r"\s,;(){}\[\]\"'="

TrustFlag = Annotated[bool, "allow the code of somebody else's run, which is then remembered as named by you"]
"""The type of the option `--trust` in the configs of commands."""

# Names of this process, with the files they came from. It goes on where the file cannot be written.
_named: dict[str, set[str]] = {}


class Name(NamedTuple):
    """A name in a config: `module:thing`."""

    module: str
    thing: str

    def __str__(self) -> str:
        """Return it as the config has it."""
        return f"{self.module}:{self.thing}" if self.thing else self.module


def check_trusted(record: Mapping[str, Any], run_dir: Path) -> None:
    """Raise `UntrustedError` if a record from `read_record` names code that this user has not named before."""
    found = {name: code for name, code in _names_with_code(_parts(record)).items() if not _is_trusted(name, code)}
    if not found:
        return
    named = ", ".join(f"{name} from {_place(code)}" for name, code in found.items())
    it = "it" if len(found) == 1 else "them"
    raise UntrustedError(
        "run-dir",
        f"{run_dir} would run {named}, and you have not named {it} on this machine before",
        f"if you trust that code, add --trust (in Python: trust=True), and {it} will be remembered",
    )


def trust_run(run_dir: Path) -> None:
    """Remember everything that a run directory names, and the members of a sweep's, as named by this user."""
    for path in (run_dir / "config.json", *run_dir.glob("members/*/config.json")):
        try:
            record = load_record(path)
        except (OSError, ValueError):
            continue  # reading the run's config says what is wrong with it
        remember(_parts(record))


def remember(values: Any) -> None:
    """Keep all names in a user's config as ones that he named himself.

    Args:
        values: JSON values.

    Warns:
        RuntimeWarning: the file of names cannot be written, so that other processes will not know them.
    """
    new = {name: code for name, code in _names_with_code(values).items() if not _is_known(name, code)}
    if not new:
        return
    for name, code in new.items():
        _named.setdefault(str(name), set()).update(code)
    lasting = {name: code for name, code in new.items() if NO_FILE not in code}
    try:
        if lasting:
            _add_to_file(lasting)
    except (OSError, RuntimeError) as error:  # RuntimeError: there is no home directory
        reason = getattr(error, "strerror", None) or error
        names = ", ".join(map(str, lasting))
        warnings.warn(
            f"{names} cannot be remembered as yours ({reason}); eval and --resume will need --trust",
            RuntimeWarning,
            stacklevel=2,
        )


def _parts(record: Mapping[str, Any]) -> list[Any]:
    return [record.get("config"), record.get("sweep")]


def _names_with_code(values: Any) -> dict[Name, tuple[str, ...]]:
    """Return every name in JSON values whose module is there, with the files an import would run first."""
    found = {name: find_code(name.module) for name in sorted(_names_in(values))}
    return {name: code for name, code in found.items() if code}


def _names_in(values: Any) -> set[Name]:
    names: set[Name] = set()
    waiting: list[tuple[str, Any]] = [("", values)]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, Mapping):
            waiting += value.items()
        elif isinstance(value, list | tuple):
            waiting += [(key, item) for item in value]
        elif isinstance(value, str):
            names |= set(_names_in_text(value))
            if key == "class" and ":" not in value:
                names.add(Name(value, ""))
    return names


def _names_in_text(text: str) -> Iterable[Name]:
    """Yield every `module:thing` that any reader of a setting could find in its text.

    Settings have lists of names, wrappers have arguments, and lists of sweeps have both. More is found here than is
    meant; only modules that exist count.
    """
    for colon in re.finditer(":", text):
        before, after = text[: colon.start()], text[colon.end() :]
        thing = re.match(f"[^{_SEPARATORS}]*", after)
        word = re.search(f"[^{_SEPARATORS}]*$", before)
        assert thing is not None
        assert word is not None
        item = before.rpartition(",")[2].strip().strip("(){}[] ")
        for module in {before, item, word[0]}:
            if module and not (module == "__main__" and "#" in thing[0]):  # kept for this process, never imported
                yield Name(module, thing[0])


def _is_trusted(name: Name, code: tuple[str, ...]) -> bool:
    return _is_known(name, code) or _is_of_the_script(name, code)


def _is_known(name: Name, code: tuple[str, ...]) -> bool:
    """Return whether a name is one of LASER or of Gymnasium, or one that this user has used before."""
    used = _named.get(str(name), set()) | set(_read_file().get(str(name), ()))
    if name.module.partition(".")[0] in (*_LASER, *_KNOWN) and _is_installed(code) and _is_plain(name):
        return True
    return used.issuperset(code)


def _is_of_the_script(name: Name, code: tuple[str, ...]) -> bool:
    """Return whether the running script defines what a name means, and is no command of an installed package."""
    if not is_running_script(name.module) or _is_installed(code):
        return False
    found = import_object(str(name))  # runs nothing: the script runs already
    return found is None or getattr(found, "__module__", None) == "__main__"


def _is_installed(code: tuple[str, ...]) -> bool:
    """Return whether files belong to LASER or to an installed package, and not to the current folder."""
    paths = sysconfig.get_paths()
    folders = [paths["purelib"], paths["platlib"], *site.getsitepackages(), site.getusersitepackages()]
    ours = [Path(laser.__file__).resolve().parents[1] / package for package in _LASER]
    allowed = [*ours, *(Path(os.path.realpath(folder)) for folder in folders)]
    return all(any(Path(place).is_relative_to(folder) for folder in allowed) for place in code)


def _is_plain(name: Name) -> bool:
    """Return whether a name in a trusted package is one that a config can mean.

    Their functions are not: some of them import what their arguments name.
    """
    import gymnasium

    from replay_server.samplers import Sampler

    try:
        found = import_object(str(name))
    except ValueError:
        return True  # it cannot be imported, and reading the config says why
    plain = (gymnasium.Env, gymnasium.Wrapper, gymnasium.vector.VectorEnv, Sampler)
    is_class = isinstance(found, type) and (issubclass(found, plain) or dataclasses.is_dataclass(found))
    return found is None or is_class or name.thing in gymnasium.registry


def _place(code: tuple[str, ...]) -> str:
    return " and ".join("Python itself" if place in ("built-in", "frozen") else place for place in code)


def _file() -> Path:
    given = os.environ.get("XDG_STATE_HOME", "")
    root = Path(given) if os.path.isabs(given) else Path.home() / ".local" / "state"
    return root / "laser" / "named.json"


def _read_file() -> dict[str, list[str]]:
    """Return names and the files that they came from; none where the file is missing or damaged."""
    try:
        value = json.loads(_file().read_text(encoding="utf-8"))
    except (OSError, ValueError, RuntimeError, RecursionError):
        return {}
    if not isinstance(value, dict):
        return {}
    return {name: code for name, code in value.items() if isinstance(code, list) and all(map(_is_text, code))}


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _add_to_file(names: Mapping[Name, tuple[str, ...]]) -> None:
    path, known = _file(), _read_file()
    for name, code in names.items():
        known[str(name)] = sorted({*known.get(str(name), ()), *code})
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Another process may write at the same time: its names or ours may be lost, and are asked for once more.
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        beside.write_text(json.dumps(known, indent=1, sort_keys=True), encoding="utf-8")
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)
