"""A zip file that a user can attach to a report: this machine, crash reports, and kinds of files.

It holds no text of traces: files of a directory are counted by kind with their sizes, and paths of
the user's home are shortened. ``with_names`` adds the names of files and what is wrong with them.
"""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ccltui.doctor.environment_checks import environment_findings
from ccltui.report.crash_report import crash_reports

if TYPE_CHECKING:
    from ccltui.parsers.job import Job

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
