"""Optional packages: what needs each of them, and the command that installs it.

`pip install laser-rl` installs all of them except those of its extras. `laser train --runtime local` works without any
of them. Version bounds are read from LASER's metadata and stand nowhere else.
"""

from __future__ import annotations

import importlib.util
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from laser.config import Problem


@dataclass(frozen=True)
class OptionalPackage:
    """A distribution that LASER imports only for some uses.

    Args:
        module: the module that LASER imports.
        use: the use that needs it.
        extra: LASER's extra that installs it; "": a plain installation does.
    """

    module: str
    use: str
    extra: str = ""


OPTIONAL = {
    "ray": OptionalPackage("ray", "--runtime ray"),
    "dash": OptionalPackage("dash", "laser dashboard"),
    "dash-ag-grid": OptionalPackage("dash_ag_grid", "laser dashboard"),
    "wandb": OptionalPackage("wandb", "--track wandb"),
    "imageio-ffmpeg": OptionalPackage("imageio_ffmpeg", "videos"),
    "pygame-ce": OptionalPackage("pygame", "laser play, and pictures of Gymnasium's classic control and Box2D"),
    "matplotlib": OptionalPackage("matplotlib", "laser report"),
    "tensorboard": OptionalPackage("tensorboard", "TensorBoard's event files"),
    "ale-py": OptionalPackage("ale_py", "ALE/... environments"),
    "mujoco": OptionalPackage("mujoco", "MuJoCo environments"),
    "dm-control": OptionalPackage("dm_control", "dm_control/... environments", "dm-control"),
    "minatar": OptionalPackage("minatar", "MinAtar/... environments", "minatar"),
    "minigrid": OptionalPackage("minigrid", "MiniGrid-... and BabyAI-... environments", "minigrid"),
    "huggingface-hub": OptionalPackage("huggingface_hub", "laser push and laser pull", "hub"),
    "minari": OptionalPackage("minari", "logs in and out: --offline, --init-replay, laser replay", "minari"),
    "h5py": OptionalPackage("h5py", "logs in and out: --offline, --init-replay, laser replay", "minari"),
    "onnx": OptionalPackage("onnx", "laser export --format onnx", "export"),
    "onnxscript": OptionalPackage("onnxscript", "laser export --format onnx", "export"),
    "scikit-learn": OptionalPackage("sklearn", "the importance of settings on a sweep's page", "analysis"),
    "nvidia-ml-py": OptionalPackage("pynvml", "how busy a GPU is, on a run's page", "gpu"),
    "optuna": OptionalPackage("optuna", "laser sweep --tuner optuna", "optuna"),
    "onnxruntime": OptionalPackage("onnxruntime", "laser export --format onnx", "export"),
}
"""Every optional package, by the name of its distribution."""

# Gymnasium's extra that installs a missing module of its own environments, by module.
_GYMNASIUM_EXTRAS = {
    "Box2D": "box2d",
    "jax": "jax",
    "jaxlib": "jax",
    "imageio": "mujoco",
    "pygame": "classic-control",
}

# Distributions with another name than their module.
_DISTRIBUTIONS = {
    "cv2": "opencv-python",
    "PIL": "pillow",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
    "yaml": "pyyaml",
}

_REQUIREMENT = re.compile(r"\s*([A-Za-z0-9][A-Za-z0-9._-]*)\s*(?:\[([^\]]*)\])?\s*([^;]*?)\s*(?:;.*)?")


def is_installed(name: str) -> bool:
    """Return whether an optional package can be imported, without importing it."""
    spec = importlib.util.find_spec(OPTIONAL[name].module)
    # A folder of that name, such as the `wandb` that runs leave behind, is not the package: it has no origin.
    return spec is not None and spec.origin is not None


def find_missing(key: str, names: Sequence[str], instead: str = "") -> Iterator[Problem]:
    """Yield a problem if any of these optional packages is not installed.

    Args:
        key: the setting that needs them.
        names: the packages it needs.
        instead: another remedy for the user.
    """
    missing = [name for name in names if not is_installed(name)]
    if missing:
        wrong = f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not installed"
        yield Problem(key, wrong, install_command(*missing) + (f", or {instead}" if instead else ""))


def install_command(*names: str, again: bool = False) -> str:
    """Return the command that installs packages in the versions that LASER works with, here.

    Args:
        names: of the packages.
        again: although they are installed.
    """
    options = " --force-reinstall" if again else ""
    lines = dict.fromkeys(line for name in names for line in _lines_for(name))
    return f"{pip_install()}{options} " + " ".join(f"'{line}'" for line in lines)


def pip_install() -> str:
    """Return how the command begins that installs something into the environment of this process.

    `pip install` where the shell's pip is that of this environment; else it names the interpreter. uv, and some
    distributions of Linux, make environments without pip.
    """
    python = shlex.quote(sys.executable or "python")
    # By its metadata: a search for its module makes setuptools warn of a `distutils` that something imported before.
    if any(metadata.distributions(name="pip")):
        shells = shutil.which("pip")
        is_ours = shells is not None and Path(shells).absolute().parent == Path(sys.executable).absolute().parent
        return "pip install" if is_ours else f"{python} -m pip install"
    if shutil.which("uv") is not None:
        return f"uv pip install --python {python}"
    return f"{python} -m ensurepip && {python} -m pip install"


def install_module(module: str) -> str:
    """Return the command that installs the distribution of a module."""
    return f"{pip_install()} {_DISTRIBUTIONS.get(module, module)}"


def install_missing(error: BaseException) -> str:
    """Return the command that installs the package whose absence an error, or a cause of it, reports."""
    cause: BaseException | None = error
    while cause is not None:
        missing = getattr(cause, "name", None)
        if isinstance(cause, ImportError) and isinstance(missing, str):
            module = missing.split(".")[0]
            if module == "mujoco":
                return install_command("mujoco")
            extra = _GYMNASIUM_EXTRAS.get(module)
            return install_gymnasium_with(extra) if extra else install_module(module)
        cause = cause.__cause__ or cause.__context__
    named = re.search(r"pip install [^`]+", str(error))
    return named.group(0) if named else "install the package that it names"


def install_gymnasium_with(part: str) -> str:
    """Return the command that installs Gymnasium with one of its extras."""
    bounds = [bounds for name, _, bounds in map(split_requirement, _own_requirements()) if name == "gymnasium"]
    return f"{pip_install()} '{_join('gymnasium', [part], bounds[0] if bounds else '')}'"


def required_lines(lines: Sequence[str], with_optional: Sequence[str] = ()) -> list[str]:
    """Return LASER's requirements without the optional packages, and without extras named after one.

    Args:
        lines: requirements in the form of `pyproject.toml` and the metadata; lines of LASER's extras are left out.
        with_optional: optional packages to keep.
    """
    dropped = OPTIONAL.keys() - set(with_optional)
    kept = []
    for line in lines:
        name, parts, bounds = split_requirement(line)
        if name not in dropped and "extra ==" not in line:
            kept.append(_join(name, [part for part in parts if part not in dropped], bounds))
    return kept


def split_requirement(line: str) -> tuple[str, list[str], str]:
    """Return a requirement's name, extras and bounds, without its environment marker."""
    match = _REQUIREMENT.fullmatch(line)
    if match is None:
        raise ValueError(f"a requirement must begin with a name, got {line!r}")
    name, parts, bounds = match.groups()
    return name, [part.strip() for part in (parts or "").split(",") if part.strip()], bounds


def _lines_for(name: str) -> list[str]:
    """Return the requirements that install a package in the form that LASER needs."""
    if name in OPTIONAL and OPTIONAL[name].extra:
        return [f"laser-rl[{OPTIONAL[name].extra}]"]
    parts = map(split_requirement, _own_requirements())
    return [_join(*each) for each in parts if name in (each[0], *each[1])] or [name]


def _join(name: str, parts: Sequence[str], bounds: str) -> str:
    return name + (f"[{','.join(parts)}]" if parts else "") + bounds


def _own_requirements() -> list[str]:
    from importlib.metadata import PackageNotFoundError, requires  # slower to import than this module

    try:
        return [line for line in requires("laser-rl") or [] if "extra ==" not in line]
    except PackageNotFoundError:  # a checkout that was never installed
        return []
