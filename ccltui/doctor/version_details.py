"""Lines of ``--version --verbose``: what a report of a mistake needs, in one screen.

Nothing is imported to find a version: only metadata and names of files are read, so that this
works where packages are missing or broken. ``ccltui doctor --environment`` imports them, and says
what to do.
"""

from __future__ import annotations

import importlib.machinery
import platform
import sys
from pathlib import Path

from ccltui import slow_path
from ccltui.config import default_path
from ccltui.doctor.environment_checks import OPTIONAL, REQUIRED, is_required, version_of
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.system.machine_limits import wants_compiled_code
from ccltui.report.crash_report import crash_reports

_ROOT = Path(__file__).resolve().parents[1]


def version_details() -> list[str]:
    """Return one line for each fact: its name, padded, and the fact."""
    required = [name for name in REQUIRED if is_required(name)]
    libc = " ".join(platform.libc_ver()).strip() or "libc unknown"
    facts = {
        "installed in": str(_ROOT),
        "python": f"{platform.python_version()} ({platform.python_implementation()}), "
        f"{sys.executable}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}, {libc}",
        "packages": _versions(required),
        "optional": _versions(list(OPTIONAL)),
        "compiled": _compiled(),
        "store": str(default_cache_dir()),
        "settings": _with_presence(default_path()),
        "crash reports": f"{len(crash_reports())} in the store's folder",
        "to report": "ccltui doctor --bundle FILE.zip writes a file to attach",
    }
    return [f"{name:<14} {fact}" for name, fact in facts.items()]


def _versions(names: list[str]) -> str:
    found = ((name, version_of(name)) for name in names)
    return ", ".join(f"{name} {version or 'not installed'}" for name, version in found)


def _compiled() -> str:
    """Which compiled modules have a file that this Python would load."""
    absent = [name for name in slow_path.EVERY if not _is_built(name)]
    count = f"{len(slow_path.EVERY) - len(absent)} of {len(slow_path.EVERY)} modules"
    names = ", ".join(name.removeprefix("ccltui.") for name in absent)
    text = f"{count}; not built: {names}" if absent else count
    return text if wants_compiled_code() else f"{text}; turned off by CCLTUI_ACCEL=0"


def _is_built(name: str) -> bool:
    stem = _ROOT.joinpath(*name.split(".")[1:])
    suffixes = importlib.machinery.EXTENSION_SUFFIXES
    return any(stem.with_name(stem.name + suffix).is_file() for suffix in suffixes)


def _with_presence(path: Path) -> str:
    return str(path) if path.is_file() else f"{path} (absent)"
