"""`laser doctor`: a report of what is installed and what is missing, with the command that fixes it."""

from __future__ import annotations

import importlib.util
import os
import platform
import re
import shutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path
from typing import Literal, TextIO

from laser.packages import OPTIONAL, install_command, is_installed, pip_install
from launch.gpu_errors import explain_error
from launch.shadowing import find_shadowed

_GB = 2**30
_COMPILER_MODULE = "_inductor/compile_fx.py"  # of torch; imported by every process that compiles
_EXTRA = re.compile(r'extra == "([^"]+)"')


@dataclass(frozen=True)
class Finding:
    """One line of the report.

    Args:
        state: "ok"; "note" for what is optional or slow; "missing" for what LASER cannot run without.
        subject: the package, tool or resource that was checked.
        text: the result of the check.
        remedy: the command, or the step, that fixes it.
    """

    state: Literal["ok", "note", "missing"]
    subject: str
    text: str
    remedy: str = ""


def examine(stream: TextIO) -> bool:
    """Print each finding as soon as its check ends, and return whether LASER is usable on this machine."""
    usable = True
    for check in CHECKS:
        for finding in check():
            usable &= finding.state != "missing"
            remedy = f"\n         -> {finding.remedy}" if finding.remedy else ""
            print(f"{finding.state:<8} {finding.subject}: {finding.text}{remedy}", file=stream, flush=True)
    print("\nLASER can run here." if usable else "\nLASER cannot run here; see what is missing above.", file=stream)
    return usable


def check_python() -> Iterator[Finding]:
    """Yield Python's version and path."""
    yield Finding("ok", "python", f"{platform.python_version()} at {sys.executable}")


def check_own_packages() -> Iterator[Finding]:
    """Yield each LASER package in whose place Python would import another one."""
    shadowed = list(find_shadowed())
    for name, place in shadowed:
        yield Finding(
            "missing", name, f"Python finds {place or 'nothing'} in its place", "rename it, or reinstall LASER"
        )
    if not shadowed:
        yield Finding("ok", "packages", "laser, actors, learner, replay_server and launch are in one place")


def check_requirements() -> Iterator[Finding]:
    """Yield each required package with its version, and each extra's package that is missing or out of bounds.

    The bounds come from LASER's own metadata.
    """
    from packaging.requirements import Requirement

    try:
        lines = requires("laser-rl") or []
    except PackageNotFoundError:
        yield Finding("missing", "laser-rl", "is not installed", f"{pip_install()} -e .")
        return
    seen = set()
    for requirement in map(Requirement, lines):
        if requirement.name in seen:  # `laser-rl[all]` names the other extras' packages again
            continue
        seen.add(requirement.name)
        found_extra = _EXTRA.search(str(requirement.marker))
        extra = found_extra.group(1) if found_extra else None
        bounds = str(requirement.specifier)
        parts = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
        remedy = f"{pip_install()} '{f'laser-rl[{extra}]' if extra else requirement.name + parts + bounds}'"
        optional = OPTIONAL.get(requirement.name)
        use = optional.use if optional else f"laser-rl[{extra}]" if extra else ""
        try:
            found = version(requirement.name)
        except PackageNotFoundError:
            if not use:
                yield Finding("missing", requirement.name, f"is not installed, {bounds} is needed", remedy)
            elif extra != "dev":
                command = install_command(requirement.name) if optional else remedy
                yield Finding("note", requirement.name, f"is not installed (needed only for {use})", command)
            continue
        if not requirement.specifier.contains(found, prereleases=True):
            state: Literal["note", "missing"] = "note" if use else "missing"
            yield Finding(state, requirement.name, f"{found} is installed, {bounds} is known to work", remedy)
        elif extra is None:
            yield Finding("ok", requirement.name, found)


def check_bytecode() -> Iterator[Finding]:
    """Yield whether each process has to parse torch's Python files anew, as in images built without bytecode."""
    spec = importlib.util.find_spec("torch")
    if spec is None or not spec.submodule_search_locations:
        return  # `check_requirements` reports the missing package
    folder = Path(spec.submodule_search_locations[0])
    if Path(importlib.util.cache_from_source(str(folder / _COMPILER_MODULE))).exists():
        yield Finding("ok", "bytecode", "torch's is there")
        return
    is_writable = os.access(folder, os.W_OK) or sys.pycache_prefix is not None
    if not sys.dont_write_bytecode and is_writable:
        yield Finding("ok", "bytecode", "torch's will be written when it is first imported")
        return
    why = "PYTHONDONTWRITEBYTECODE is set" if sys.dont_write_bytecode else f"{folder} cannot be written"
    text = f"torch has none, and {why}: each process that compiles starts 5 to 15 s later"
    prefix = "" if is_writable else "export PYTHONPYCACHEPREFIX=$HOME/.cache/pycache && "
    yield Finding("note", "bytecode", text, f"{prefix}{sys.executable} -m compileall -q -j 0 {folder}")


def check_compiler() -> Iterator[Finding]:
    """Yield the C++ compiler that torch.compile needs on the CPU."""
    compiler = os.environ.get("CXX") or next(filter(None, map(shutil.which, ("g++", "clang++", "c++"))), None)
    if compiler:
        yield Finding("ok", "C++ compiler", f"{compiler} (torch.compile can be used)")
    else:
        remedy = "apt install g++, or train with --learner.compile off"
        yield Finding("note", "C++ compiler", "none, so torch.compile cannot be used and learning is slower", remedy)


def check_bfloat16() -> Iterator[Finding]:
    """Yield whether this processor has units for bfloat16."""
    from laser.compilation import cpu_has_bfloat16

    if cpu_has_bfloat16():
        yield Finding("ok", "bfloat16", "this processor has units for it: presets that ask for it use it")
    else:
        yield Finding("ok", "bfloat16", "this processor has no units for it: presets that ask for it use float32")


def check_atari() -> Iterator[Finding]:
    """Yield the number of Atari ROMs that came with ale-py."""
    spec = importlib.util.find_spec("ale_py")
    if spec is None or not spec.submodule_search_locations:
        return  # `check_requirements` reports the missing package
    roms = list((Path(spec.submodule_search_locations[0]) / "roms").glob("*.bin"))
    if roms:
        yield Finding("ok", "Atari ROMs", f"{len(roms)} games")
    else:
        remedy = install_command("ale-py", again=True)
        yield Finding("note", "Atari ROMs", "none were found", remedy)


def check_deepmind_lab() -> Iterator[Finding]:
    """Yield whether DeepMind Lab, which is optional, is installed for DMLab-30."""
    if importlib.util.find_spec("deepmind_lab") is not None:
        yield Finding("ok", "DeepMind Lab", "is installed")
        return
    from laser.environments.dmlab import HOW_TO_BUILD

    yield Finding("note", "DeepMind Lab", "is not installed (only dmlab/... environments need it)", HOW_TO_BUILD)


def check_rendering() -> Iterator[Finding]:
    """Yield MuJoCo's rendering backend, if MuJoCo is installed."""
    if not is_installed("mujoco"):
        return  # `check_requirements` reports the missing package
    choice = os.environ.get("MUJOCO_GL")
    if choice:
        yield Finding("ok", "MuJoCo rendering", f"MUJOCO_GL={choice}")
    elif sys.platform == "linux" and not os.environ.get("DISPLAY"):
        text = "no display; training needs none, but videos of MuJoCo do"
        yield Finding("note", "MuJoCo rendering", text, "export MUJOCO_GL=egl (or osmesa)")
    else:
        yield Finding("ok", "MuJoCo rendering", "on the display")


def check_machine() -> Iterator[Finding]:
    """Yield cores, memory, disk space, and the shared memory that Ray uses."""
    from launch.planning.memory import available_memory
    from launch.words import size

    yield Finding(
        "ok", "cores", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())
    )
    memory = available_memory()
    yield Finding(
        "ok" if memory > _GB else "note",
        "memory",
        f"{size(memory)} free",
        "" if memory > _GB else "lower --replay.capacity-steps and --num-actors",
    )
    disk = shutil.disk_usage(".").free
    enough = disk > _GB
    yield Finding("ok" if enough else "note", "disk", f"{size(disk)} free here", "" if enough else "free some space")
    if os.path.isdir("/dev/shm"):
        shared = shutil.disk_usage("/dev/shm").free
        text = f"{size(shared)} free"
        if shared > _GB:
            yield Finding("ok", "/dev/shm", text)
        else:
            yield Finding("note", "/dev/shm", f"{text}, too little for Ray", "in a container: docker run --shm-size=2g")
    yield _writable(Path("runs"))


def check_torch() -> Iterator[Finding]:
    """Yield the devices the learner could compute on. This check is the last: torch takes seconds to import."""
    try:
        import torch
    except ImportError as error:
        yield Finding("missing", "device", f"torch cannot be imported: {error}", install_command("torch"))
        return
    from launch.gpus import driver_cuda, find_lost_gpu, num_gpus, why_no_gpu

    driver = driver_cuda()
    if driver:
        built = f"is built for {torch.version.cuda}" if torch.version.cuda else "is built without CUDA"
        yield Finding("ok", "NVIDIA driver", f"runs CUDA up to {driver}; this torch {built}")
    if num_gpus() == 0:
        problem = why_no_gpu()
        # A machine without a GPU needs no remedy; one with a GPU that torch cannot use does.
        is_lost = bool(driver) or find_lost_gpu() is not None
        yield Finding("note" if is_lost else "ok", "device", f"cpu: {problem.wrong}", problem.remedy if is_lost else "")
    for index in range(num_gpus()):
        yield from _check_gpu(index)


def _check_gpu(index: int) -> Iterator[Finding]:
    """Yield name, compute capability, memory and bfloat16 support of one GPU."""
    import torch

    from launch.gpus import capability, find_old_gpu
    from launch.words import size

    subject, name = f"cuda:{index}", torch.cuda.get_device_name(index)
    try:
        major, minor = capability(index)
        free, total = torch.cuda.mem_get_info(index)
    except Exception as error:  # noqa: BLE001 - no error of one GPU may hide the other GPUs
        problem = explain_error(error)
        text, remedy = (problem.wrong, problem.remedy) if problem else (str(error), "nvidia-smi must work")
        yield Finding("note", subject, f"{name}: {' '.join(text.split())}", remedy)
        return
    # The same rule as in `laser.compilation.has_bfloat16`.
    precision = "bfloat16" if major >= 8 else "no units for bfloat16, so presets that ask for it use float32"
    text = f"{name}, compute capability {major}.{minor}, {size(free)} of {size(total)} free, {precision}"
    old = find_old_gpu(index)
    if old is not None:
        yield Finding("note", subject, f"{text}; {old.wrong}", old.remedy)
    elif free < _GB:
        yield Finding("note", subject, text, "end other programs on the GPU (nvidia-smi lists them)")
    else:
        yield Finding("ok", subject, text)


CHECKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    check_python,
    check_own_packages,
    check_requirements,
    check_bytecode,
    check_compiler,
    check_bfloat16,
    check_atari,
    check_deepmind_lab,
    check_rendering,
    check_machine,
    check_torch,
)


def _writable(runs: Path) -> Finding:
    place = runs if runs.exists() else Path(".")
    if os.access(place, os.W_OK):
        return Finding("ok", "run directory", f"{runs.resolve()} can be written")
    return Finding("note", "run directory", f"{place.resolve()} cannot be written", "give --run-dir another path")
