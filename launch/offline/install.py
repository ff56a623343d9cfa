"""Installation of LASER from a bundle of wheels on top of a Python that has torch, without a network.

    python3 launch/offline/install.py BUNDLE ENVIRONMENT

Run the script with the interpreter that has torch. ENVIRONMENT becomes a virtual environment with every package of that
interpreter, plus packages that are missing there or outside LASER's version bounds, plus this checkout. Nothing outside
ENVIRONMENT is changed. An existing environment from the same bundle, interpreter and checkout is kept as it is.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import subprocess
import sys
import sysconfig
import time
import venv
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]
_RECORD = "laser-offline.json"
_OTHER_PYTHON = "run this script with it; gpu_check.sh takes PYTHON=/path/to/it"


class InstallError(Exception):
    """Obstacle to the installation; its text is the message to the user."""


def main() -> int:
    """Make or keep the environment and print its place; return 1 after a one-line error if that fails."""
    begun = time.monotonic()
    try:
        if len(sys.argv) != 3:
            raise InstallError("usage: python3 launch/offline/install.py BUNDLE ENVIRONMENT")
        bundle, environment = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).absolute()
        made = make_environment(bundle, environment)
    except InstallError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    took = f"made in {time.monotonic() - begun:.1f} s" if made else "kept as it was"
    print(f"environment {environment}: {took}; its command is {environment / 'bin' / 'laser'}")
    return 0


def make_environment(bundle: Path, environment: Path) -> bool:
    """Install LASER into a virtual environment; return False if the same installation was there already.

    Raises:
        InstallError: the installation failed.
    """
    version, requirements = _read_listing(bundle)
    _check_interpreter(version)
    record = json.dumps(
        {
            "wheels": sorted(os.listdir(bundle)),
            "requirements": requirements,
            "interpreter": sys.executable,
            "checkout": str(CHECKOUT),
            "metadata": hashlib.sha256((CHECKOUT / "pyproject.toml").read_bytes()).hexdigest(),
        }
    )
    python, kept = environment / "bin" / "python", environment / _RECORD
    _check_place(environment)
    if python.exists() and kept.is_file() and kept.read_text(encoding="utf-8") == record:
        return False
    try:
        venv.create(environment, clear=True, symlinks=True)
        _show_packages_of_this_interpreter(environment)
    except OSError as error:
        wrong = f"{environment} cannot be made: {error.strerror}"
        raise InstallError(f"ENVIRONMENT: {wrong}; name another place") from error
    _bring_pip(python)
    pip = [str(python), "-m", "pip", "--isolated", "--quiet", "--disable-pip-version-check", "--no-input"]
    pip += ["install", "--no-index", "--no-cache-dir", "--no-compile", "--no-warn-script-location"]
    _run([*pip, "--find-links", str(bundle), *requirements], "collect the bundle anew: make gpu-bundle")
    in_place = ["--no-deps", "--no-build-isolation", "--editable", str(CHECKOUT)]
    _run([*pip, *in_place], "take the whole checkout along, with its pyproject.toml")
    kept.write_text(record, encoding="utf-8")
    return True


def _read_listing(bundle: Path) -> tuple[str, list[str]]:
    """Return the bundle's version of Python and its requirements."""
    try:
        listing = json.loads((bundle / "bundle.json").read_text(encoding="utf-8"))
        return listing["python"], listing["requirements"]
    except (OSError, ValueError, KeyError) as error:
        raise InstallError(f"BUNDLE: {bundle} holds no readable bundle.json; make one with make gpu-bundle") from error


def _check_interpreter(wanted: str) -> None:
    found = "{}.{}".format(*sys.version_info)
    if found != wanted:
        remedy = f"use Python {wanted} ({_OTHER_PYTHON}), or collect anew: make gpu-bundle BUNDLE_PYTHON={found}"
        raise InstallError(f"PYTHON: {sys.executable} is Python {found} and the bundle is for {wanted}; {remedy}")
    if importlib.util.find_spec("torch") is None:
        raise InstallError(f"PYTHON: {sys.executable} has no torch; use an interpreter that has ({_OTHER_PYTHON})")


def _check_place(environment: Path) -> None:
    """Refuse a place whose contents must not be cleared."""
    if not os.path.lexists(environment):
        return
    if environment.lstat().st_uid != os.getuid():
        raise InstallError(f"ENVIRONMENT: {environment} belongs to somebody else; name another place")
    if not environment.is_dir() or (any(environment.iterdir()) and not (environment / "pyvenv.cfg").is_file()):
        raise InstallError(f"ENVIRONMENT: {environment} is neither empty nor a virtual environment; name another place")


def _show_packages_of_this_interpreter(environment: Path) -> None:
    """Add this interpreter's package folders to the environment by a .pth file.

    If this interpreter belongs to a virtual environment itself, `system_site_packages` would add the packages of that
    environment's base interpreter instead of this one's.
    """
    standard = {os.path.realpath(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")}
    folders = [
        folder
        for folder in sys.path[1:]  # the first is this script's folder
        if os.path.isdir(folder) and os.path.realpath(folder) not in standard and not folder.endswith("lib-dynload")
    ]
    places = {"base": str(environment), "platbase": str(environment)}
    inner = Path(sysconfig.get_path("purelib", "venv", places))
    (inner / "packages-of-the-machine.pth").write_text("\n".join([*folders, ""]), encoding="utf-8")


def _bring_pip(python: Path) -> None:
    """Install pip into the environment, unless this interpreter has pip, which the environment then sees."""
    if importlib.util.find_spec("pip") is not None:
        return
    if importlib.util.find_spec("ensurepip") is None:
        raise InstallError(f"PYTHON: {sys.executable} has neither pip nor ensurepip; install python3-pip there")
    _run([str(python), "-m", "ensurepip"], "install python3-pip there")


def _run(command: list[str], remedy: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "PYTHONHOME"))}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if run.returncode != 0:
        lines = [line for line in run.stderr.splitlines() if line.strip()] or [f"exit code {run.returncode}"]
        reasons = [line.partition("ERROR: ")[2] for line in lines if line.lstrip().startswith("ERROR: ")] or lines
        raise InstallError(f"pip: {reasons[-1]}; {remedy}")


if __name__ == "__main__":
    sys.exit(main())
