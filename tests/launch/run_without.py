"""Runs `laser` commands as if packages were not installed, and prints what LASER's own modules imported.

    python run_without.py MODULES STATEMENT COMMANDS

MODULES are names that cannot be imported, STATEMENT is executed first as if it stood in a module of LASER, and COMMANDS
are lists of arguments, as JSON. The last line of standard output is a JSON object: exit codes, and top-level modules.
"""

import builtins
import importlib.machinery
import json
import sys

OURS = ("laser", "actors", "learner", "replay_server", "launch")
find_on_path = importlib.machinery.PathFinder.find_spec
import_anything = builtins.__import__
absent = set(json.loads(sys.argv[1]))
imported = set()


def find_spec(name, path=None, target=None):
    return None if name.partition(".")[0] in absent else find_on_path(name, path, target)


def import_noting(name, globals=None, locals=None, fromlist=(), level=0):
    importer = (globals or {}).get("__name__", "").partition(".")[0]
    if level == 0 and importer in OURS:
        imported.add(name.partition(".")[0])
    return import_anything(name, globals, locals, fromlist, level)


importlib.machinery.PathFinder.find_spec = find_spec
builtins.__import__ = import_noting
exec(sys.argv[2], {"__name__": "learner.a_module"})
from launch.__main__ import main  # noqa: E402

exit_codes = [main(command) for command in json.loads(sys.argv[3])]
print(json.dumps({"exit_codes": exit_codes, "imported": sorted(imported - sys.stdlib_module_names - set(OURS))}))
