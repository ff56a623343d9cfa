"""Collection of the wheels, except torch, that LASER needs on a machine without internet: `make gpu-bundle`.

    python -m launch.offline.collect DIRECTORY [--python 3.12] [--with NAME ...] [--without NAME ...] [--limit-mb N]

DIRECTORY then holds the wheels and `bundle.json`, which `launch/offline/install.py` reads. The script needs only pip.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import tomllib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from laser.packages import OPTIONAL, required_lines, split_requirement

ROOT = Path(__file__).resolve().parents[2]
LISTING = "bundle.json"
_LEFT_TO_THE_MACHINE = "torch"
_TEST_TOOLS = ("pytest", "pytest-timeout", "hypothesis")
# Hatchling requires it to install a checkout in place.
_EDITABLE = "editables>=0.5"
_MB = 1_000_000
# Parts of wheels that nothing here runs: Ray's classes for Java are 32 MB of its 79.
_UNUSED = ("ray/jars/",)
# pip compares tags literally, and a wheel names its oldest C library. RHEL 8 and Debian 10 have 2.28.
_PLATFORMS = [f"manylinux_2_{minor}_x86_64" for minor in range(28, 4, -1)]
_PLATFORMS += [f"manylinux{name}_x86_64" for name in ("2014", "2010", "1")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Collect the wheels; after a one-line error return 1 if they cannot be downloaded or are too large."""
    parser = argparse.ArgumentParser(prog="make gpu-bundle", description="collect wheels for offline use")
    parser.add_argument("directory", type=Path)
    parser.add_argument("--python", default="3.12", help="the other machine's Python")
    parser.add_argument("--with", dest="extra", nargs="*", default=[], choices=[*OPTIONAL], help="optional packages")
    parser.add_argument("--without", nargs="*", default=[], help="packages that the other machine has")
    parser.add_argument("--limit-mb", type=float, default=52.0, help="largest total size of the wheels")
    options = parser.parse_args(arguments)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    requirements = bundle_requirements(project, options.extra)
    with tempfile.TemporaryDirectory() as folder:
        wheels = Path(folder)
        try:
            _download(requirements, options.python, wheels)
        except subprocess.CalledProcessError as error:
            reasons = [line[7:] for line in error.stderr.splitlines() if line.startswith("ERROR: ")] or ["pip failed"]
            print(f"error: gpu-bundle: {reasons[-1]}; check the network", file=sys.stderr)
            return 1
        for name in options.without:
            for wheel in wheels.glob(f"{name.replace('-', '_')}-*.whl"):
                wheel.unlink()
        for wheel in wheels.iterdir():
            squeeze(wheel)
        total = sum(wheel.stat().st_size for wheel in wheels.iterdir())
        for wheel in sorted(wheels.iterdir(), key=lambda wheel: -wheel.stat().st_size):
            print(f"{wheel.stat().st_size / _MB:8.2f} MB  {wheel.name}")
        print(f"{total / _MB:8.2f} MB  in all, {options.limit_mb:g} MB allowed")
        if total > options.limit_mb * _MB:
            remedy = "leave out packages of the other machine with BUNDLE_WITHOUT, or raise BUNDLE_LIMIT_MB"
            print(f"error: gpu-bundle: weighs {total / _MB:.1f} MB; {remedy}", file=sys.stderr)
            return 1
        listing = {"python": options.python, "requirements": requirements}
        (wheels / LISTING).write_text(json.dumps(listing, indent=1) + "\n", encoding="utf-8")
        shutil.rmtree(options.directory, ignore_errors=True)
        shutil.copytree(wheels, options.directory)
    return 0


def squeeze(wheel: Path) -> None:
    """Compress a wheel's files by LZMA if that makes the wheel smaller; pip unpacks it as before.

    Wheels are deflated. MuJoCo's, NumPy's and Pillow's together take 50 MB deflated, and 35 MB with LZMA. Files that
    nothing here runs are left out (`_UNUSED`), with their lines in the wheel's RECORD.
    """
    if wheel.stat().st_size < _MB:
        return
    print(f"compressing {wheel.name}", flush=True)
    smaller = wheel.with_suffix(".lzma")
    with zipfile.ZipFile(wheel) as given, zipfile.ZipFile(smaller, "w", zipfile.ZIP_LZMA) as written:
        for entry in given.infolist():
            if entry.filename.startswith(_UNUSED):
                continue
            content = given.read(entry)
            if entry.filename.endswith(".dist-info/RECORD"):
                lines = content.decode().splitlines(keepends=True)
                content = "".join(line for line in lines if not line.startswith(_UNUSED)).encode()
            entry.compress_type = zipfile.ZIP_LZMA
            written.writestr(entry, content)
    if smaller.stat().st_size < wheel.stat().st_size:
        smaller.replace(wheel)
    else:
        smaller.unlink()


def bundle_requirements(project: Mapping[str, Any], with_optional: Sequence[str] = ()) -> list[str]:
    """Return LASER's requirements besides torch: for training, quick tests, and installation from a checkout.

    Args:
        project: content of `pyproject.toml`.
        with_optional: optional packages to include.
    """
    table = project["project"]
    lines = required_lines(table["dependencies"], with_optional)
    lines = [line for line in lines if split_requirement(line)[0] != _LEFT_TO_THE_MACHINE]
    lines += [line for line in table["optional-dependencies"]["dev"] if split_requirement(line)[0] in _TEST_TOOLS]
    return [*lines, *project["build-system"]["requires"], _EDITABLE]


def _download(requirements: Sequence[str], python: str, directory: Path) -> None:
    version = python.replace(".", "")
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check"]
    command += ["--dest", str(directory), "--only-binary", ":all:", "--implementation", "cp"]
    command += ["--python-version", python, "--abi", f"cp{version}", "--abi", "abi3", "--abi", "none"]
    for platform in _PLATFORMS:
        command += ["--platform", platform]
    subprocess.run([*command, *requirements], check=True, stderr=subprocess.PIPE, text=True)


if __name__ == "__main__":
    sys.exit(main())
