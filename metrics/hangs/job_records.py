"""Which files of a directory are records of one job."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.parsers.cluster import NCCL_LOG, NCCL_RAS
from ccltui.parsers.discovery.captures import is_rank_folder
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.runs import TRAINING_LOG, WATCHDOG_LOG
from ccltui.parsers.side.unread_files import LOG, TEXT

if TYPE_CHECKING:
    from ccltui.parsers.found_files import FoundFile

LOGS: Final = (WATCHDOG_LOG, TRAINING_LOG, NCCL_LOG, LOG, TEXT)
ATTEMPT: Final = re.compile(r"^attempt_(\d{1,6})$")
_RECORDS: Final = re.compile(
    r"(?:records?|torch|kineto|nsys|traces?|profil\w*|fr|flight[_-]?rec\w*|dumps?"
    r"|(?:comm|nccl)[_-](?:lib[_-])?traces?|ras|(?:nccl[_-])?inspector(?:[_-]\w+)*|watchdog|logs?"
    r"|outputs?|std(?:out|err))",
    re.IGNORECASE,
)
"""Names of folders that say what is recorded, and not of which job."""


class JobFiles(Struct, frozen=True):
    """Files of one job, by kind of record; ``where`` is its folder below the directory."""

    where: str
    dumps: tuple[FoundFile, ...]
    logs: tuple[FoundFile, ...]
    reports: tuple[FoundFile, ...]
    inspector: tuple[FoundFile, ...]


def jobs_of(files: Sequence[FoundFile]) -> list[JobFiles]:
    """Return the jobs that files are records of.

    A job is a folder, without what is named after a rank, an attempt or a kind of record. Folders
    that are named after records are of one job where no two hold the same kind, but for logs.
    """
    close: dict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        close[_joined(_folder(file.path))].append(file)
    jobs: dict[str, list[FoundFile]] = defaultdict(list)
    for where, held in close.items():
        several = _has_several(held)
        for file in held:
            jobs["/".join(_folder(file.path)) if several else where].append(file)
    return [_job(where, held) for where, held in jobs.items()]


def _job(where: str, files: Sequence[FoundFile]) -> JobFiles:
    return JobFiles(
        where,
        tuple(file for file in files if file.format is FLIGHT_RECORD),
        tuple(file for file in files if file.format in LOGS),
        tuple(file for file in files if file.format is NCCL_RAS),
        tuple(file for file in files if file.format is NCCL_INSPECTOR),
    )


def _has_several(files: Sequence[FoundFile]) -> bool:
    """Whether two folders hold the same kind of record: they may be of two jobs."""
    folders: dict[str, set[tuple[str, ...]]] = defaultdict(set)
    for file in files:
        if file.format not in LOGS:
            folders[file.kind].add(_folder(file.path))
    return any(len(places) > 1 for places in folders.values())


def _folder(path: str) -> tuple[str, ...]:
    """Return the folder of a file, without what is named after a rank or an attempt."""
    parts = list(PurePosixPath(path).parent.parts)
    while parts and _is_of_rank(parts[-1]):
        parts.pop()
    return tuple(parts)


def job_folder(path: str) -> str:
    """Return the folder of the job that a trace is of, without that of its iteration."""
    parts = _folder(path)
    while parts and _ITERATION.fullmatch(parts[-1]):
        parts = _folder("/".join(parts))
    return _joined(parts)


_ITERATION: Final = re.compile(r"iteration[_-]?\d{1,12}", re.IGNORECASE)


def _joined(parts: Sequence[str]) -> str:
    kept = list(parts)
    while kept and _RECORDS.fullmatch(kept[-1]):
        kept.pop()
    return "/".join(kept)


def _is_of_rank(folder: str) -> bool:
    return folder.isdecimal() or is_rank_folder(folder) or ATTEMPT.match(folder) is not None
