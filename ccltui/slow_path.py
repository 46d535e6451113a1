"""Say that compiled modules are absent, that the numbers are the same, and how to get them."""

from __future__ import annotations

import importlib
import multiprocessing
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Final

from ccltui.parsers.system.acceleration import wanted
from ccltui.report.output import say

MODULES: Final = (
    "ccltui.parsers.kineto.scanner._scanner",
    "ccltui.parsers.nsys.sqlite._btree",
    "ccltui.metrics.arrays._intervals",
    "ccltui.metrics.arrays._passes",
)
_ROOT: Final = Path(__file__).resolve().parent.parent


@cache
def absent() -> tuple[str, ...]:
    """Compiled modules that are wanted and cannot be imported: not built, or not for here."""
    return tuple(name for name in MODULES if not _imported(name)) if wanted() else ()


def what() -> str:
    """What is slower and why; empty where every compiled module is in use."""
    if not absent():
        return ""
    count = f"{len(absent())} of {len(MODULES)} compiled modules"
    return f"the slower path is used, with the same numbers: without {count}"


def remedy() -> str:
    """How to get the compiled modules."""
    return f"install a C compiler, then run: {_install()}"


@cache
def tell() -> None:
    """Say it on standard error, once in a command; processes that a command starts are silent."""
    if absent() and multiprocessing.parent_process() is None:
        say(f"{what()}; for the faster one {remedy()}")


def _imported(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def _install() -> str:
    """The command that compiles them here.

    pip keeps a wheel that it built without a compiler, and would install that one again.
    """
    python = shlex.quote(sys.executable)
    if (_ROOT / "setup.py").is_file():
        return f"{python} -m pip install --editable {shlex.quote(str(_ROOT))}"
    again = "--force-reinstall --no-deps --no-cache-dir --no-binary ccltui"
    return f"{python} -m pip install {again} ccltui (in a checkout: pip install .)"
