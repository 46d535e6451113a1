"""What a report of a mistake needs: lines of ``--version --verbose``, or a zip file to attach.

It holds no text of traces: files of a directory are counted by kind with their sizes, and paths of
the user's home are shortened. ``with_names`` adds the names of files and what is wrong with them.

Nothing is imported to find a version: only metadata and names of files are read, so that this
works where packages are missing or broken. ``ccltui doctor --environment`` imports them, and says
what to do.
"""

from __future__ import annotations

import importlib.machinery
import io
import json
import platform
import sys
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ccltui import slow_path
from ccltui.config import default_path
from ccltui.doctor.environment_checks import (
    OPTIONAL,
    REQUIRED,
    environment_findings,
    is_required,
    version_of,
)
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.system.machine_limits import wants_compiled_code
from ccltui.report.crash_report import crash_reports

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

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


_MOST_BYTES: Final = 1 << 20
"""Of one crash report; a longer one is none of ours."""


def bundle_bytes(job: Job | None, *, with_names: bool) -> tuple[bytes, list[str]]:
    """Return the zip file and the names of what is in it.

    Args:
        job: The job of a directory, discovered; None for this machine alone.
        with_names: Whether names of files, and problems that quote them, may be in it.
    """
    parts = {"environment.json": _json({"environment": _environment()})}
    if job is not None:
        parts["files.json"] = _json(_files(job, with_names=with_names))
    for path in crash_reports():
        try:
            if path.stat().st_size <= _MOST_BYTES:
                parts[path.name] = path.read_bytes()
        except OSError:
            continue
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in parts.items():
            archive.writestr(name, data)
    return target.getvalue(), list(parts)


def _json(document: object) -> bytes:
    return f"{json.dumps(document, indent=1)}\n".encode()


def _environment() -> list[dict[str, str]]:
    return [
        {"check": one.check, "state": one.state, "message": _without_home(one.message)}
        for one in environment_findings()
    ]


def _without_home(text: str) -> str:
    try:
        home = str(Path.home())
    except RuntimeError:  # no HOME and no entry in the password file
        return text
    return text.replace(home, "~") if len(home) > 1 else text


def _files(job: Job, *, with_names: bool) -> dict[str, Any]:
    files = []
    for found in job.discovery.files:
        entry: dict[str, Any] = {
            "kind": found.kind,
            "compression": found.compression,
            "size_bytes": found.size_bytes,
            "rank": found.rank,
            "rank_source": found.rank_source,
            "opened": found in job.capture.files,
            "repeats_another": found.duplicate_of is not None,
            "has_problem": found.problem is not None,
        }
        if with_names:
            entry |= {"path": found.path, "problem": found.problem}
        files.append(entry)
    notes: list[dict[str, Any]] = [{"code": note.code, "count": note.count} for note in job.notes]
    if with_names:
        notes = [
            {**entry, "message": note.message} for entry, note in zip(notes, job.notes, strict=True)
        ]
    return {"num_captures": len(job.discovery.captures), "files": files, "notes": notes}
