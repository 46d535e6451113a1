"""Change one operator, number or statement of a module at a time; print which tests notice.

    python -m bench.mutants [--sample N] [--seed N] [MODULE=TESTS[,TESTS] ...]
    python -m bench.mutants --total 250 [--sample 4] [--most-s 12] [--wall-s 3000]

The second form draws modules of `metrics` and `parsers/kineto` at random and takes the tests that
import them (`bench.mutant_tests`); modules whose tests take longer than ``--most-s`` are listed and
left out. It ends after so many mutants, or seconds.

A mutant that no test of its module notices survives: the value or the branch is not tested, or
the change makes no difference. Modules are changed in a copy of the tree. Each mutant is run in a
process that is forked after pytest and numpy are imported, which takes a third of the time of
mutmut or cosmic-ray; those also expect the package in one folder without links.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import copy
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy  # noqa: F401  (imported before the forks)
import pytest
from msgspec import Struct

from bench.mutant_tests import modules_of, tests_of

ROOT = Path(__file__).resolve().parents[1]
_READER = (
    "tests/parsers/kineto/test_kineto_damage.py,tests/parsers/kineto/test_kineto_layouts.py,"
    "tests/parsers/kineto/test_kineto_described.py,tests/parsers/kineto/test_collective_rows.py,"
    "tests/parsers/kineto/test_kineto_categories.py"
)
MODULES = {
    "metrics/arrays/intervals.py": "tests/metrics/arrays/test_intervals.py,"
    "tests/metrics/arrays/test_interval_arrays.py",
    "metrics/collectives/clocks/clock_estimate.py": (
        "tests/metrics/collectives/test_clock_estimate.py"
    ),
    "metrics/collectives/arrivals.py": "tests/metrics/collectives/test_arrivals.py",
    "metrics/collectives/matching/match.py": "tests/metrics/collectives/test_match.py",
    "parsers/text/json_text.py": f"{_READER},tests/parsers/kineto/test_decimal_times.py",
    "parsers/kineto/event_list.py": _READER,
    "parsers/kineto/kineto_reader.py": _READER,
    "parsers/kineto/collective_rows.py": _READER,
}
"""Modules with the tests that are theirs."""

_COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
_OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult,
    ast.Div: ast.Mult, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
    ast.LShift: ast.RShift, ast.RShift: ast.LShift,
}  # fmt: skip
_PROFILE = "few"
_CPU_S = 120
_WALL_S = 240.0


class Mutant(Struct, frozen=True):
    """A changed module, and what was changed in which line."""

    module: str
    line: int
    change: str
    source: str


def mutants(module: str, source: str) -> Iterator[Mutant]:
    """Yield a mutant for every place of a module that can be changed."""
    tree = ast.parse(source)
    skipped = {id(inner) for node in ast.walk(tree) for inner in _without_effect(node)}
    nodes = list(ast.walk(tree))
    for place, node in enumerate(nodes):
        if id(node) in skipped:
            continue
        for number in range(2):
            changed = copy.deepcopy(tree)
            target = list(ast.walk(changed))[place]
            text = _change(target, number)
            if text:
                line = getattr(node, "lineno", 0)
                yield Mutant(module, line, text, ast.unparse(ast.fix_missing_locations(changed)))


def _without_effect(node: ast.AST) -> Iterator[ast.AST]:
    """Yield what is below annotations, docstrings and the lists of imports for type checkers."""
    match node:
        case ast.AnnAssign(annotation=found) | ast.arg(annotation=ast.expr() as found):
            yield from ast.walk(found)
        case ast.FunctionDef(returns=ast.expr() as found):
            yield from ast.walk(found)
        case ast.Raise() | ast.JoinedStr() | ast.Expr(value=ast.Constant()):
            yield from ast.walk(node)
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            yield from ast.walk(node)


def _change(node: ast.AST, number: int) -> str:
    """Change a node in place; return what was changed, "" where nothing can be."""
    before = ast.unparse(node) if isinstance(node, ast.expr | ast.stmt) else ""
    if isinstance(node, ast.Compare) and number == 0 and type(node.ops[0]) in _COMPARISONS:
        node.ops[0] = _COMPARISONS[type(node.ops[0])]()
    elif isinstance(node, ast.BinOp | ast.AugAssign) and number == 0:
        if type(node.op) not in _OPERATORS:
            return ""
        node.op = _OPERATORS[type(node.op)]()
    elif isinstance(node, ast.BoolOp) and number == 0:
        node.op = ast.And() if isinstance(node.op, ast.Or) else ast.Or()
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and number == 0:
        node.op = ast.UAdd()
        node.operand = ast.Call(ast.Name("bool", ast.Load()), [node.operand], [])
    elif isinstance(node, ast.Constant) and isinstance(node.value, bool) and number == 0:
        node.value = not node.value
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        node.value += 1 - 2 * number
    elif isinstance(node, ast.If | ast.IfExp | ast.While) and number == 1:
        node.test = ast.Constant(isinstance(node, ast.If | ast.IfExp))
    elif isinstance(node, ast.Return) and node.value is not None and number == 0:
        if ast.unparse(node.value) == "None":
            return ""
        node.value = ast.Constant(None)
    elif isinstance(node, ast.Break | ast.Continue) and number == 0:
        return ""
    else:
        return ""
    return f"{_short(before)} -> {_short(ast.unparse(node))}"


def _short(text: str) -> str:
    first = text.splitlines()[0]
    return first if len(first) <= 60 else first[:57] + "..."


def is_noticed(mutant: Mutant | None, tests: str, tree: Path, *, wall_s: float = _WALL_S) -> bool:
    """Run tests on a mutant, or on the module as it is; whether one fails, or takes too long."""
    path = None if mutant is None else tree / mutant.module
    original = "" if path is None else path.read_text("utf-8")
    if mutant is not None and path is not None:
        path.write_text(mutant.source, "utf-8")
    child = os.fork()
    if child == 0:
        _run_tests(tests, tree, silent=mutant is not None or wall_s < _WALL_S)
    end = time.monotonic() + wall_s
    try:
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                return status != 0
            if time.monotonic() > end:
                os.killpg(child, signal.SIGKILL)
                os.waitpid(child, 0)
                return True
            time.sleep(0.02)
    finally:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
        if path is not None:
            path.write_text(original, "utf-8")


def _run_tests(tests: str, tree: Path, *, silent: bool) -> None:
    """Run pytest in this process, which ends with it."""
    code = 1
    try:
        os.setpgid(0, 0)
        resource.setrlimit(resource.RLIMIT_CPU, (_CPU_S, _CPU_S))
        if silent:
            output = os.open(os.devnull, os.O_WRONLY)
            os.dup2(output, 1)
            os.dup2(output, 2)
        os.chdir(tree)
        sys.path.insert(0, str(tree))
        os.environ["PYTHONPATH"] = str(tree)
        options = [
            "-x",
            "-q",
            "--assert=plain",
            f"--hypothesis-profile={_PROFILE}",
            "-p",
            "no:cacheprovider",
            "-p",
            "no:xdist",
        ]
        code = int(pytest.main([*options, *tests.split(",")]))
    finally:
        sys.stdout.flush()
        os._exit(code)


def copied(target: Path) -> Path:
    """Copy the tree, compiled modules included."""
    ignored = shutil.ignore_patterns("__pycache__", "*.c", ".hypothesis")
    for name in ("parsers", "metrics", "ccltui", "tests", "bench"):
        shutil.copytree(ROOT / name, target / name, symlinks=True, ignore=ignored)
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, target / name)
    return target


class Score(Struct):
    """How many mutants were noticed, of how many; printed module by module."""

    noticed: int = 0
    tried: int = 0

    def sample(self, module: str, tests: str, tree: Path, size: int, seed: int) -> None:
        """Try a random sample of the mutants of a module."""
        every = list(mutants(module, (tree / module).read_text("utf-8")))
        dice = random.Random(f"{seed} {module}")
        sample = dice.sample(every, min(size, len(every)))
        survivors = [one for one in sample if not is_noticed(one, tests, tree)]
        noticed = len(sample) - len(survivors)
        print(f"{module}: {noticed} of {len(sample)} noticed ({len(every)} places)", flush=True)
        for one in sorted(survivors, key=lambda one: one.line):
            print(f"    line {one.line}: {one.change}", flush=True)
        self.noticed += noticed
        self.tried += len(sample)


def sample_packages(score: Score, tree: Path, options: argparse.Namespace) -> None:
    """Try mutants of modules drawn at random, until there are enough or the time is over."""
    end = time.monotonic() + options.wall_s
    modules = modules_of(tree)
    tests = tests_of(tree, modules)
    random.Random(options.seed).shuffle(modules)
    for module in modules:
        if score.tried >= options.total or time.monotonic() > end:
            return
        chosen = ",".join(tests[module])
        begun = time.monotonic()
        if not chosen:
            print(f"{module}: left out, no test imports it or what imports it", flush=True)
        elif is_noticed(None, chosen, tree, wall_s=options.most_s):
            print(f"{module}: left out, its tests fail or take too long", flush=True)
        else:
            score.sample(module, chosen, tree, options.sample, options.seed)
            print(f"    {time.monotonic() - begun:.0f} s, {score.tried} so far", flush=True)


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("modules", nargs="*", help="module=tests; all of a list without any")
    parser.add_argument("--sample", type=int, default=25, help="mutants of each module")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total", type=int, default=0, help="mutants of modules drawn at random")
    parser.add_argument("--most-s", type=float, default=12.0, help="longest tests of a module")
    parser.add_argument("--wall-s", type=float, default=3600.0, help="end after these seconds")
    options = parser.parse_args()
    chosen = dict(one.split("=", 1) for one in options.modules) or MODULES
    hypothesis.settings.register_profile(_PROFILE, deadline=None, max_examples=10)
    score = Score()
    with tempfile.TemporaryDirectory(prefix="mutants-") as folder:
        tree = copied(Path(folder))
        if options.total:
            sample_packages(score, tree, options)
            chosen = {}
        for module, tests in chosen.items():
            if is_noticed(None, tests, tree):
                print(f"{module}: its tests fail as it is")
                return 1
            score.sample(module, tests, tree, options.sample, options.seed)
    share = score.noticed / max(score.tried, 1)
    print(f"{score.noticed} of {score.tried} mutants noticed: {share:.1%}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
