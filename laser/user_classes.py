"""Classes and functions of the user: their paths, `module:Name`, and their import by path."""

from __future__ import annotations

import importlib
import importlib.machinery
import importlib.util
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from laser.packages import install_module

NO_FILE = "this process"


def class_path(cls: Any) -> str:
    """Return the path of a class or function, e.g. "my_agent:MyConfig".

    A class of the script that runs is recorded under the script's own name, so that another process can import it.

    Raises:
        ValueError: the class is defined inside a function, so that it cannot be imported.
    """
    if "<locals>" in cls.__qualname__:
        raise ValueError(f"must be defined at the top level of a module, got {cls.__module__}.{cls.__qualname__}")
    module = _name_of_main() if cls.__module__ == "__main__" else cls.__module__
    return f"{module}:{cls.__qualname__}"


def find_class(path: str, parent: type, remedy: str = "run with the code it was trained with") -> type:
    """Return the class at "module:Name", importing its module, which runs that module's code.

    A run directory from somebody else can name any module: `launch.records.trust` checks its names first.

    Args:
        path: path from `class_path`.
        parent: class of which it must be a subclass.
        remedy: what the user can do if the module holds no such class.

    Raises:
        ValueError: the module cannot be imported, or holds no such class; the message gives the remedy.
    """
    found = import_object(path)
    if not isinstance(found, type) or not issubclass(found, parent):
        raise ValueError(f"{path} is no {parent.__name__}; {remedy}")
    return found


def import_object(path: str) -> Any:
    """Return what stands at "module:Name", importing its module; None if the module holds no such name.

    Raises:
        ValueError: the module cannot be imported; the message gives the remedy.
    """
    module_name, _, name = path.partition(":")
    if is_running_script(module_name):
        # Importing the running script under its own name would run it a second time.
        found: Any = sys.modules["__main__"]
    else:
        found = import_module(module_name)
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def is_running_script(module: str) -> bool:
    """Return whether a module's name is that of the script that runs."""
    return module in ("__main__", _name_of_main())


def import_module(module: str) -> ModuleType:
    """Return a module of the user's, from the current folder too.

    Raises:
        ValueError: the module cannot be imported; what the user can do follows the last semicolon.
    """
    if not _sees_current_folder():
        # A console script does not import from the current folder, where a user's own file lies.
        sys.path.append(os.getcwd())
    try:
        return importlib.import_module(module)
    except (Exception, SystemExit) as error:
        missing = error.name if isinstance(error, ModuleNotFoundError) else None
        if missing is None:
            remedy = f"mend {module}"
        elif f"{module}.".startswith(f"{missing}."):
            remedy = f"run from the folder that holds {module.partition('.')[0]}.py, or install the package"
        else:
            remedy = install_module(missing.partition(".")[0])
        raise ValueError(f"module {module!r} cannot be imported: {type(error).__name__}: {error}; {remedy}") from error


def find_code(module: str) -> tuple[str, ...]:
    """Return the files or folders whose code an import of a module would run first, without running it.

    Several are the folders of one package without an `__init__.py`; none: there is no such module; `NO_FILE`: what a
    notebook or an interactive session defined.
    """
    main = sys.modules["__main__"]
    if is_running_script(module) and getattr(main, "__spec__", None) is None:
        file = getattr(main, "__file__", None)
        return (os.path.realpath(file) if file else NO_FILE,)
    package = module.partition(".")[0]
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError, AttributeError):  # no name of a module, or one that was made by hand
        made = getattr(sys.modules.get(package), "__file__", None)
        return (os.path.realpath(made),) if made else ()
    if spec is not None and spec.origin is not None:
        return (os.path.realpath(spec.origin) if spec.has_location else spec.origin,)
    folders = list((spec and spec.submodule_search_locations) or ())
    if not _sees_current_folder():  # which `import_module` adds, and nothing may before that
        here = importlib.machinery.PathFinder.find_spec(package, [os.getcwd()])
        if spec is None and here is not None and here.origin is not None:
            return (os.path.realpath(here.origin),)
        folders += (here and here.submodule_search_locations) or ()
    return tuple(map(os.path.realpath, folders))


def _sees_current_folder() -> bool:
    return os.getcwd() in sys.path or "" in sys.path


def _name_of_main() -> str:
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    if spec is not None:  # python -m package.module
        return str(spec.name)
    return Path(file).stem if file else "__main__"
