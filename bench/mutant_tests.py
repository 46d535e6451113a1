"""Find the tests of a module by what they import, for `bench.mutants`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

PACKAGES = ("metrics", "parsers/kineto")
"""Folders whose modules are changed where none is named."""
_FAR = ("tui", "e2e", "faults", "fuzz", "golden", "real", "slurm", "install", "bench", "demo")
"""Folders of tests that start processes or read whole jobs: too slow for every mutant."""


def modules_of(root: Path, packages: Sequence[str] = PACKAGES) -> list[str]:
    """Return the paths of all modules of some packages, relative to ``root``, sorted."""
    found = (path for one in packages for path in (root / one).rglob("*.py"))
    return sorted(str(path.relative_to(root)) for path in found if path.name != "__init__.py")


def tests_of(root: Path, modules: Sequence[str]) -> dict[str, list[str]]:
    """Return the test files of each module.

    These are the files that import the module or have its name. Where there are none, those that
    import a module which imports this one; the list is empty where there are none either.
    """
    files = sorted((root / "tests").rglob("test_*.py"))
    near = [path for path in files if path.relative_to(root).parts[1] not in _FAR]
    tests = {str(path.relative_to(root)): path.read_text("utf-8") for path in near}
    sources = {one: (root / one).read_text("utf-8") for one in modules}
    direct = {one: _importers(one, tests, named=True) for one in modules}
    found = dict(direct)
    for one in modules:
        if not found[one]:
            users = _importers(one, sources, named=False)
            found[one] = sorted({test for user in users for test in direct[user]})
    return found


def _importers(module: str, texts: Mapping[str, str], *, named: bool) -> list[str]:
    dotted = "ccltui." + module.removesuffix(".py").replace("/", ".")
    package, _, name = dotted.rpartition(".")
    pattern = re.compile(
        rf"{re.escape(dotted)}\b|from {re.escape(package)} import [^\n]*\b{re.escape(name)}\b"
    )
    return [
        path
        for path, text in texts.items()
        if pattern.search(text) or (named and path.endswith(f"/test_{name}.py"))
    ]
