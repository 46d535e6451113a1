"""Report missing compiled modules, and how to build them. Results are the same without them."""

from __future__ import annotations

import importlib
import shlex
import sys
from functools import cache
from pathlib import Path
from typing import Final

from ccltui.parsers.machine_limits import wants_compiled_code
from ccltui.report.output import print_message

MODULES: Final = (
    "ccltui.parsers.kineto.scanner._scanner",
    "ccltui.parsers.nsys.sqlite._btree",
    "ccltui.parsers.store._cut_files",
    "ccltui.metrics.arrays._intervals",
    "ccltui.metrics.arrays._passes",
)
EVERY: Final = (
    *MODULES,
    "ccltui.metrics.arrays._near_ends",
    "ccltui.parsers.inspector._line_scanner",
    "ccltui.parsers.pftrace._packet_scanner",
)
"""All compiled modules; commands warn where one of MODULES is missing, which most inputs need."""
_ROOT: Final = Path(__file__).resolve().parent.parent


@cache
def missing_modules() -> tuple[str, ...]:
    """Enabled compiled modules that cannot be imported: not built, or for another platform."""
    return tuple(name for name in MODULES if not _imported(name)) if wants_compiled_code() else ()


def summary() -> str:
    """Sentence about the slower path and its reason; "" where all compiled modules are in use."""
    if not missing_modules():
        return ""
    missing = sum(not _imported(name) for name in EVERY)
    count = f"{missing} of {len(EVERY)} compiled modules"
    return f"the slower path is used, with the same numbers, without {count}"


def remedy() -> str:
    """Sentence on how to get the compiled modules."""
    return f"install a C compiler, then run: {install_command()}"


@cache
def warn() -> None:
    """Print summary and remedy on standard error, once per command and not in child processes."""
    if not missing_modules():
        return
    import multiprocessing  # noqa: PLC0415  (5 ms, of no use where all modules are compiled)

    if multiprocessing.parent_process() is None:
        print_message(f"{summary()}; for the faster one {remedy()}")


def _imported(name: str) -> bool:
    try:
        importlib.import_module(name)
    except ImportError:
        return False
    return True


def install_command() -> str:
    """Command that compiles the modules on this machine.

    pip caches a wheel that it built without a compiler, and would install that one again.
    """
    python = shlex.quote(sys.executable)
    if (_ROOT / "setup.py").is_file():
        return f"{python} -m pip install --editable {shlex.quote(str(_ROOT))}"
    again = "--force-reinstall --no-deps --no-cache-dir --no-binary ccltui"
    return f"{python} -m pip install {again} ccltui (in a checkout: pip install .)"
