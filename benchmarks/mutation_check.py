"""Mutation check: small mistakes in losses, samplers and ledgers, and whether the tests notice each of them.

    python benchmarks/mutation_check.py [--mutants N] [--seed S] [--jobs J] [--quick] [FILE ...]

One mistake at a time is written into a copy of the checkout, in a temporary directory, and the tests of that file run
until one fails. A mutant is killed by a failing test, by a crash or by a test that takes too long; it survives when all
of them pass. The golden losses run last: they notice that numbers moved, not that numbers are wrong, so what only they
kill is counted by itself. The aim is that 95 % of the mutants are killed.

Mistakes are: + for -, * for /, & for |, `and` for `or` and the reverse; < for <= and other comparisons; a number one
too large; min for max; a sign, a `not` or a clamp left out; a condition reversed; the branches of `where`, True and
False exchanged.

Mutants that change nothing are not made (docstrings, type hints, errors' messages, asserts, `zip`'s strict), nor are
those of defaults in a config, which are choices. `EQUIVALENT` lists others that no test can kill, with the reason.

The exit status is 1 when fewer than `--share` percent are killed.
"""

from __future__ import annotations

import ast
import itertools
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np  # noqa: F401 - loaded once, before the forks
import pytest
import torch  # noqa: F401 - likewise
from measure import ROOT, parser
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Column, Table

SOURCES = (
    "laser/ops/*.py",
    "laser/algorithms/*.py",
    "replay_server/samplers/*.py",
    "replay_server/serving/high_water_marks.py",
    "replay_server/serving/ledger.py",
    "replay_server/store/rate_limiter.py",
)
# What else tests the files in a folder.
TESTS_OF_FOLDER = {
    "laser/ops": ("tests/laser/ops", "tests/laser/algorithms"),
    "laser/algorithms": ("tests/laser/algorithms", "tests/laser/networks", "tests/laser/test_user_classes.py"),
    "replay_server/samplers": (
        "tests/replay_server",
        "tests/laser/prioritization",
        "tests/contracts/test_shared_replay.py",
    ),
    "replay_server/serving": ("tests/replay_server", "tests/contracts/test_shared_replay.py"),
    "replay_server/store": ("tests/replay_server", "tests/contracts/test_shared_replay.py"),
}
# Tests of a file beside the mirrored one: `laser/ops/scan.py` has `tests/laser/ops/test_scan.py`.
TESTS_OF_FILE = {
    "laser/algorithms/actor_critic.py": ("tests/laser/algorithms/test_losses.py",),
    "laser/algorithms/base.py": (
        "tests/laser/algorithms/test_live_settings.py",
        "tests/laser/algorithms/test_acting.py",
    ),
    "laser/algorithms/ddpg.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "laser/algorithms/deterministic.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "laser/algorithms/gaussian_steps.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "laser/algorithms/impala.py": ("tests/laser/algorithms/test_losses.py", "tests/laser/algorithms/test_popart.py"),
    "laser/algorithms/laser.py": ("tests/laser/algorithms/test_losses.py",),
    "laser/algorithms/naf.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "laser/algorithms/normalization.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "laser/algorithms/racer.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "laser/algorithms/rainbow.py": ("tests/laser/algorithms/test_dqn.py",),
    "laser/algorithms/refer.py": ("tests/laser/algorithms/test_refer_losses.py",),
    "laser/algorithms/sac.py": ("tests/laser/algorithms/test_twin_critics.py",),
    "laser/algorithms/step_learning.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "laser/algorithms/td3.py": ("tests/laser/algorithms/test_twin_critics.py",),
    "laser/algorithms/v_racer.py": ("tests/laser/algorithms/test_step_algorithms.py",),
    "replay_server/samplers/ero.py": ("tests/replay_server/samplers/test_learned.py",),
    "replay_server/samplers/ners.py": ("tests/replay_server/samplers/test_learned.py",),
    "replay_server/serving/ledger.py": ("tests/replay_server/serving/test_shard.py",),
}
GOLDEN = ("tests/golden",)
# Compiling takes minutes and finds what the same losses, not compiled, show as well.
LEFT_OUT = ("tests/laser/algorithms/test_compiled.py",)
# By file, old line and new line: mutants that behave as the code does, and why.
EQUIVALENT: dict[tuple[str, str, str], str] = {
    (
        "laser/algorithms/acer.py",
        "projected = torch.where(batch.valid.unsqueeze(-1), projected, 0.0)",
        "projected = torch.where(batch.valid.unsqueeze(-1), projected, 1.0)",
    ): "rows without a transition have weight 0 in the loss; any finite number will do",
    (
        "laser/algorithms/acer.py",
        "moved = (projected != gradient).any(-1).float()",
        "moved = (projected != gradient).all(-1).float()",
    ): "the projection subtracts a multiple of average / pi, which is 0 for no action",
    (
        "laser/algorithms/metrics.py",
        "weights = torch.cat([values, values.new_ones(len(values), 1)], 1)[:, self._weight_of]",
        "weights = torch.cat([values, values.new_ones(len(values), 2)], 1)[:, self._weight_of]",
    ): "a second column of ones is read by nobody",
    (
        "laser/algorithms/impala.py",
        "kls = torch.where(batch.valid, self.distribution.kl(batch.mu, pi), 0.0)",
        "kls = torch.where(batch.valid, self.distribution.kl(batch.mu, pi), 1.0)",
    ): "rows without a transition have weight 0 in the loss and in the mean; any finite number will do",
    (
        "laser/algorithms/impala.py",
        "pg_advantages = torch.where(learned, pg_advantages - mean, 0.0)",
        "pg_advantages = torch.where(learned, pg_advantages - mean, 1.0)",
    ): "rows that are not learned from have weight 0 in the loss and in the scale",
    (
        "laser/algorithms/impala.py",
        "mean = torch.where(learned, pg_advantages, 0.0).sum() / learned.sum().clamp(min=1)",
        "mean = torch.where(learned, pg_advantages, 0.0).sum() / learned.sum()",
    ): "without a learned row the mean is subtracted from none",
    (
        "replay_server/samplers/sum_tree.py",
        "if len(nodes) > 4 * len(self._sums[level]):",
        "if (len(nodes) >= 4 * len(self._sums[level])):",
    ): "two ways to the same sums; the number decides which is the faster one",
    (
        "replay_server/samplers/sum_tree.py",
        "return float(self._sums[-1].sum())",
        "return float(self._sums[0].sum())",
    ): "every level of the tree has the same sum; the lowest is the longest",
    (
        "replay_server/samplers/sum_tree.py",
        "return float(self._maxima[-1].max())",
        "return float(self._maxima[0].max())",
    ): "every level of the tree has the same maximum",
}
TEST_TIMEOUT_S = 60
MUTANT_TIMEOUT_S = 600
GOLDEN_ALONE = 9  # the exit status of tests of which only the golden losses failed

SWAPPED_OPERATORS: dict[type, type] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.And: ast.Or,
    ast.Or: ast.And,
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
SWAPPED_NAMES = {"min": "max", "minimum": "maximum", "amin": "amax", "argmin": "argmax", "any": "all"}
SWAPPED_NAMES |= {new: old for old, new in SWAPPED_NAMES.items()}
CLAMPS = ("clamp", "clamp_", "clip")
MODULES = ("torch", "np")


@dataclass(frozen=True)
class Mutant:
    """One mistake: a file's whole text with the mistake in it.

    Args:
        path: of the file, from the root of the checkout.
        line: where, from 1.
        old: that line, or the expression where that spans several lines.
        new: the same with the mistake.
        text: of the whole file.
    """

    path: str
    line: int
    old: str
    new: str
    text: str

    def __str__(self) -> str:
        """Say `file:line old -> new`."""
        return f"{self.path}:{self.line}\n    {self.old}\n -> {self.new}"


@dataclass
class Run:
    """A process that tests a mutant in a tree of its own."""

    mutant: Mutant
    tree: Path
    pid: int
    deadline: float


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its lines."""
    lines = source.splitlines(keepends=True)
    found = []
    for node, new in itertools.chain.from_iterable(map(_changes, _nodes_that_act(ast.parse(source)))):
        begin, end = _offset(lines, node.lineno, node.col_offset), _offset(lines, node.end_lineno, node.end_col_offset)
        text = source[:begin] + new + source[end:]
        if node.lineno == node.end_lineno:
            shown = lines[node.lineno - 1].strip(), text.splitlines()[node.lineno - 1].strip()
        else:
            shown = " ".join(source[begin:end].split()), " ".join(new.split())
        ast.parse(text)
        found.append(Mutant(path, node.lineno, *shown, text))
    return sorted(found, key=lambda mutant: (mutant.line, mutant.old, mutant.new))


def tests_of(path: str) -> list[list[str]]:
    """Return the tests that concern a file in three stages: those nearest to it, the others, the golden losses."""
    folder, _, name = path.rpartition("/")
    mirrored = f"tests/{folder}/test_{name}"
    near = [*([mirrored] if (ROOT / mirrored).exists() else []), *TESTS_OF_FILE.get(path, ())]
    others = [
        test for place in TESTS_OF_FOLDER[folder] for test in _test_files(place) if test not in (*near, *LEFT_OUT)
    ]
    return [near, others, list(GOLDEN) if path.startswith("laser/") else []]


def _test_files(place: str) -> list[str]:
    below = sorted(ROOT.glob(f"{place}/**/test_*.py")) if (ROOT / place).is_dir() else [ROOT / place]
    return [test.relative_to(ROOT).as_posix() for test in below]


def check(mutants: Sequence[Mutant], jobs: int, console: Console) -> dict[Mutant, str]:
    """Return what became of each mutant: `killed`, `golden` (by the golden losses alone) or `survived`."""
    outcomes: dict[Mutant, str] = {}
    with tempfile.TemporaryDirectory(prefix="mutants-") as place, _progress(console) as progress:
        trees = [_copy_of_checkout(Path(place) / str(job)) for job in range(jobs)]
        _see_that_tests_pass({mutant.path for mutant in mutants}, trees[0], progress)
        task = progress.add_task("mutants", total=len(mutants))
        waiting, running = list(reversed(mutants)), list[Run]()
        try:
            while waiting or running:
                while waiting and trees:
                    running.append(_start(waiting.pop(), trees.pop()))
                time.sleep(0.02)
                for run in tuple(running):
                    if (outcome := _finish(run)) is None:
                        continue
                    running.remove(run)
                    trees.append(run.tree)
                    outcomes[run.mutant] = outcome
                    if outcome == "survived":
                        progress.console.print(f"[bold]survived[/] {escape(str(run.mutant))}", soft_wrap=True)
                    progress.advance(task)
                    if not console.is_terminal and len(outcomes) % 10 == 0:
                        progress.console.print(f"{len(outcomes)} of {len(mutants)} mutants tested")
        finally:
            for run in running:
                _stop(run.pid)
    return outcomes


def main() -> int:
    """Seed, run, print."""
    options = parser(__doc__)
    options.add_argument("files", nargs="*", metavar="FILE", help="seed into these files alone")
    options.add_argument("--mutants", type=int, default=200, metavar="N", help="how many, drawn at random; 0: all")
    options.add_argument("--seed", type=int, default=0, metavar="S", help="of the draw")
    options.add_argument("--jobs", type=int, default=1, metavar="J", help="mutants tested at the same time")
    options.add_argument("--share", type=float, default=95.0, metavar="PERCENT", help="fail when fewer are killed")
    options.add_argument("--list", action="store_true", help="print the mutants drawn and test none")
    arguments = options.parse_args()
    paths = sorted(path.relative_to(ROOT).as_posix() for pattern in SOURCES for path in ROOT.glob(pattern))
    if unknown := sorted(set(arguments.files) - set(paths)):
        options.error(f"FILE must match one of {', '.join(SOURCES)}, got {', '.join(unknown)}")
    # A `kill` ends the tests under way and removes the copies, as Ctrl-C does.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("mutation check: stopped"))
    console = Console(width=None if sys.stdout.isatty() else 120)
    made = [m for path in paths for m in mutants_of(path, (ROOT / path).read_text(encoding="utf-8"))]
    for place in sorted(set(EQUIVALENT) - {(mutant.path, mutant.old, mutant.new) for mutant in made}):
        console.print("[yellow]EQUIVALENT names a mutant that is no longer made:[/]", " | ".join(place), soft_wrap=True)
    useful = [m for m in made if (m.path, m.old, m.new) not in EQUIVALENT and m.path in (arguments.files or paths)]
    count = 2 if arguments.quick else arguments.mutants
    drawn = random.Random(arguments.seed).sample(useful, min(count, len(useful))) if count else useful
    print(f"{len(drawn)} of {len(useful)} mutants, seed {arguments.seed}; {len(EQUIVALENT)} known equivalents left out")
    if arguments.list:
        print(*sorted(map(str, drawn)), sep="\n")
        return 0
    outcomes = check(drawn, arguments.jobs, console)
    return _report(outcomes, arguments.share, console)


def _nodes_that_act(tree: ast.AST) -> Iterator[ast.expr | ast.If | ast.While]:
    """Yield the nodes whose change can change what the code does."""
    unread = _unread_parts(tree)
    for child in ast.iter_child_nodes(tree):
        if isinstance(child, ast.Assert | ast.Raise | ast.JoinedStr) or child in unread:
            continue
        yield child
        if isinstance(child, ast.UnaryOp) and isinstance(child.operand, ast.Constant):
            continue  # -1 is one constant
        yield from _nodes_that_act(child)


def _unread_parts(node: ast.AST) -> list[ast.AST]:
    """Return the children of a node that are type hints, decorators or a config's defaults."""
    match node:
        case ast.FunctionDef(returns=returns, decorator_list=decorators):
            return [*([returns] if returns else []), *decorators]
        case ast.arg(annotation=annotation) | ast.AnnAssign(annotation=annotation) if annotation:
            return [annotation]
        case ast.ClassDef(body=body, decorator_list=decorators, bases=bases):
            return [*decorators, *bases, *(item for item in body if isinstance(item, ast.AnnAssign))]
        case ast.Module(body=body):
            return [item for item in body if isinstance(item, ast.AnnAssign)]
        case ast.Call(func=ast.Name(id="cast"), args=[hint, *_]):
            return [hint]
        case ast.Call(func=ast.Name(id="zip"), keywords=keywords):
            return list(keywords)
    return []


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr, str]]:
    """Yield expressions to replace and their replacements, for one node."""
    match node:
        case ast.BinOp(left=left, op=op, right=right) if type(op) in SWAPPED_OPERATORS and not _is_text(left, right):
            yield node, _text(ast.BinOp(left, SWAPPED_OPERATORS[type(op)](), right))
        case ast.BoolOp(op=op, values=values):
            yield node, _text(ast.BoolOp(SWAPPED_OPERATORS[type(op)](), values))
        case ast.Compare(left=left, ops=[op], comparators=comparators):
            yield node, _text(ast.Compare(left, [SWAPPED_OPERATORS[type(op)]()], comparators))
        case ast.Constant(value=bool(value)):
            yield node, str(not value)
        case ast.Constant(value=int(value) | float(value)):
            yield node, repr(value + 1)
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
            yield node, repr(1 - value)
        case ast.UnaryOp(op=ast.USub() | ast.Not() | ast.Invert(), operand=operand):
            yield node, _text(operand)
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=keywords) if name in SWAPPED_NAMES:
            yield node, ast.unparse(ast.Call(ast.Name(SWAPPED_NAMES[name]), arguments, keywords))
        case ast.Call(func=ast.Attribute(value=value, attr=name), args=arguments, keywords=keywords):
            of_module = isinstance(value, ast.Name) and value.id in MODULES
            if name in SWAPPED_NAMES:
                yield node, ast.unparse(ast.Call(ast.Attribute(value, SWAPPED_NAMES[name]), arguments, keywords))
            if name in CLAMPS:
                yield node, _text(arguments[0] if of_module else value)
            if name == "where" and of_module and len(arguments) == 3:
                condition, yes, no = arguments
                yield node, ast.unparse(ast.Call(node.func, [condition, no, yes], keywords))
    test = getattr(node, "test", None)
    if isinstance(node, ast.If | ast.IfExp | ast.While) and not isinstance(test, ast.Compare | ast.UnaryOp):
        yield test, _text(ast.UnaryOp(ast.Not(), test))


def _is_text(*parts: ast.expr) -> bool:
    return any(isinstance(part, ast.JoinedStr) or isinstance(getattr(part, "value", None), str) for part in parts)


def _text(expression: ast.expr) -> str:
    """Return an expression in parentheses, so that it binds where it is put as it did."""
    simple = isinstance(expression, ast.Name | ast.Call | ast.Attribute | ast.Subscript | ast.Constant)
    return ast.unparse(expression) if simple else f"({ast.unparse(expression)})"


def _offset(lines: list[str], line: int, column: int) -> int:
    """Return where in the text a node's line (from 1) and column (in bytes) are."""
    return sum(map(len, lines[: line - 1])) + len(lines[line - 1].encode()[:column].decode())


def _copy_of_checkout(tree: Path) -> Path:
    """Copy what the tests need: packages, tests, settings of pytest, and no caches."""
    tree.mkdir()
    for name in ("actors", "docs", "laser", "launch", "learner", "replay_server", "tests"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__", "results", "pictures"))
    shutil.copy(ROOT / "pyproject.toml", tree)
    return tree


def _see_that_tests_pass(paths: set[str], tree: Path, progress: Progress) -> None:
    """Run the tests of all files as the code is: a test that fails anyway kills every mutant."""
    task = progress.add_task("tests of the code as it is", total=None)
    tests = dict.fromkeys(test for path in sorted(paths) for stage in tests_of(path) for test in stage)
    pid = _fork(tree, [list(tests)])
    while (status := _status(pid)) is None:
        time.sleep(0.1)
    if status:
        said = (tree / "output").read_text(encoding="utf-8").strip().splitlines()[-30:]
        raise SystemExit("\n".join([*said, "mutation check: these tests fail without a mutant; mend them first"]))
    progress.remove_task(task)


def _start(mutant: Mutant, tree: Path) -> Run:
    _write(tree / mutant.path, mutant.text)
    pid = _fork(tree, tests_of(mutant.path))
    return Run(mutant, tree, pid, time.monotonic() + MUTANT_TIMEOUT_S)


def _finish(run: Run) -> str | None:
    """Return what became of a mutant, with its tree as it was, or None while tests run."""
    status = _status(run.pid)
    if status is None:
        if time.monotonic() < run.deadline:
            return None
        _stop(run.pid)
        status = 1
    _write(run.tree / run.mutant.path, (ROOT / run.mutant.path).read_text(encoding="utf-8"))
    return {0: "survived", GOLDEN_ALONE: "golden"}.get(status, "killed")


def _write(source: Path, text: str) -> None:
    source.write_text(text, encoding="utf-8")
    # Python trusts a .pyc whose source has the same size and second of change.
    for cached in source.parent.glob(f"__pycache__/{source.stem}.*"):
        cached.unlink()


def _fork(tree: Path, stages: list[list[str]]) -> int:
    """Start tests in a process of its own; its status is 0, 1, or GOLDEN_ALONE when the first two stages passed.

    A fork starts with torch and pytest imported, which take longer than most tests.
    """
    sys.stdout.flush()
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.setsid()
        os.chdir(tree)
        output = os.open("output", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(output, 1)
        os.dup2(output, 2)
        sys.path[:] = [str(tree), *(place for place in sys.path if Path(place or ".").resolve() != ROOT)]
        status = _run_tests(tree, stages)
    finally:
        os._exit(status)


def _run_tests(tree: Path, stages: list[list[str]]) -> int:
    options = ["-x", "-q", "-p", "no:cacheprovider", "--timeout", str(TEST_TIMEOUT_S), "--hypothesis-seed", "0"]
    for stage, tests in enumerate(stages):
        if tests and pytest.main([*options, *tests]):
            return GOLDEN_ALONE if stage == 2 else 1
        assert Path(sys.modules["laser"].__file__).is_relative_to(tree), "the tests import another checkout"
    return 0


def _status(pid: int) -> int | None:
    """Return the exit status of a process, or None while it runs."""
    ended, status = os.waitpid(pid, os.WNOHANG)
    return abs(os.waitstatus_to_exitcode(status)) if ended else None


def _stop(pid: int) -> None:
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TimeRemainingColumn(), console=console)


def _report(outcomes: dict[Mutant, str], share: float, console: Console) -> int:
    """Print the table of files, the survivors and the share; return the exit status."""
    files: dict[str, Counter[str]] = {}
    for mutant, outcome in outcomes.items():
        files.setdefault(mutant.path, Counter())[outcome] += 1
    total = sum(files.values(), Counter())
    killed = 100.0 * (total["killed"] + total["golden"]) / max(1, total.total())
    table = Table(
        "file", *(Column(name, justify="right") for name in ("mutants", "killed", "by golden alone", "survived"))
    )
    for path, counts in [*sorted(files.items()), ("all", total)]:
        numbers = counts.total(), counts["killed"] + counts["golden"], counts["golden"], counts["survived"]
        table.add_row(path, *map(str, numbers), end_section=path == max(files))
    console.print(table)
    for title, outcome in (("killed by the golden losses alone", "golden"), ("survived", "survived")):
        listed = sorted(str(mutant) for mutant, became in outcomes.items() if became == outcome)
        if listed:
            console.print(f"[bold]{title}[/]")
            console.print("\n".join(listed), soft_wrap=True, markup=False, highlight=False)
    console.print(f"{killed:.1f} % of {total.total()} mutants killed, aim {share:g} %")
    return int(killed < share)


if __name__ == "__main__":
    sys.exit(main())
