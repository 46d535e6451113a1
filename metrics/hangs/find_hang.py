"""Find the hangs that the dumps and logs of a directory tell of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import structs

from ccltui.parsers.cluster import NCCL_LOG, NCCL_RAS
from ccltui.parsers.discovery.captures import is_rank_folder, rank_in_name
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.runs import TRAINING_LOG, WATCHDOG_LOG
from ccltui.parsers.side.unread_files import LOG, TEXT

if TYPE_CHECKING:
    from ccltui.metrics.hangs.hang import Hang
    from ccltui.parsers.cluster.nccl_log import RasReport
    from ccltui.parsers.found_files import Discovery, FoundFile

_LOGS: Final = (WATCHDOG_LOG, TRAINING_LOG, NCCL_LOG, LOG, TEXT)
_MOST_LOGS: Final = 4096
_MOST_BYTES: Final = 1 << 31
"""Logs beyond it are left out, the largest first: those of many ranks repeat each other."""
_ATTEMPT: Final = re.compile(r"^attempt_(\d{1,6})$")
_SURE: Final = ("high", "medium", "low")


def hang_of(discovery: Discovery) -> Hang | None:
    """Return the surest hang below a directory, None where no dump or log tells of one."""
    found = hangs_of(discovery)
    return found[0] if found else None


def hangs_of(discovery: Discovery) -> tuple[Hang, ...]:
    """Return what each kind of record tells of every job below a directory, the surest first."""
    files = [file for file in discovery.files if file.duplicate_of is None and file.problem is None]
    logs = tuple(file for file in files if file.format in _LOGS)
    reports = tuple(file for file in files if file.format is NCCL_RAS)
    dumps = tuple(file for file in files if file.format is FLIGHT_RECORD)
    return _found(logs, reports, dumps) if logs or reports or dumps else ()


def hang_of_run(files: Sequence[FoundFile]) -> Hang | None:
    """Return the hang that the logs of one run tell of."""
    logs = tuple(file for file in files if file.format in _LOGS and file.problem is None)
    found = [one for one in _found(logs, (), ()) if one.kind != "nothing"] if logs else []
    return found[0] if found else None


@lru_cache(maxsize=64)
def _found(
    logs: tuple[FoundFile, ...], reports: tuple[FoundFile, ...], dumps: tuple[FoundFile, ...]
) -> tuple[Hang, ...]:
    """Return all hangs; of equally sure ones those of dumps first, which hold every call."""
    judges = ((dumps, _of_dumps, "flight recorder"), (logs, _of_logs, "watchdog"),
              (reports, _of_reports, "ras"))  # fmt: skip
    found = [
        structs.replace(hang, where=job)
        for files, judge, record in judges
        for job, held in _jobs(files).items()
        if (hang := _judged(judge, held, record)) is not None
    ]
    return tuple(sorted(found, key=lambda one: (one.kind in _LAST, _SURE.index(one.sure))))


_LAST: Final = ("nothing", "abstained", "late")


def _judged(
    judge: Callable[[Sequence[FoundFile]], Hang | None], files: Sequence[FoundFile], record: str
) -> Hang | None:
    """Return what a judge says; an error that nobody foresaw is one line, not the end of all."""
    from ccltui.metrics.hangs.hang import Hang, sentence  # noqa: PLC0415

    paths = tuple(file.path for file in files)
    try:
        with contained(paths[0]):
            return judge(files)
    except TraceError as error:
        text = sentence(f"the records of this job could not be judged: {error}")
        return Hang("abstained", text, sure="low", record=record, files=paths)


def _jobs(files: Sequence[FoundFile]) -> dict[str, list[FoundFile]]:
    """Return files by job: by their folder, without what is named after a rank or an attempt."""
    jobs: dict[str, list[FoundFile]] = defaultdict(list)
    for file in files:
        parts = list(PurePosixPath(file.path).parent.parts)
        while parts and _is_of_rank(parts[-1]):
            parts.pop()
        jobs["/".join(parts)].append(file)
    return jobs


def _is_of_rank(folder: str) -> bool:
    return folder.isdecimal() or is_rank_folder(folder) or _ATTEMPT.match(folder) is not None


def _of_logs(files: Sequence[FoundFile]) -> Hang | None:
    from ccltui.metrics.hangs.watchdog_hang import watchdog_hang  # noqa: PLC0415
    from ccltui.parsers.runs.watchdog_lines import read_watchdog_lines  # noqa: PLC0415

    chosen = _of_last_attempt(_within_limits(files))
    read = []
    for file in chosen:
        try:
            with contained(file.path):
                one = (Path(file.real_path), file.path, rank_in_name(file.path))
                if read_watchdog_lines([one]).attempts:
                    read.append(one)
        except TraceError:
            continue  # doctor lists what cannot be read
    if not read:
        return None
    return watchdog_hang(read_watchdog_lines(read), tuple(shown for _, shown, _ in read))


def _within_limits(files: Sequence[FoundFile]) -> list[FoundFile]:
    held = 0
    kept: list[FoundFile] = []
    for file in sorted(files, key=lambda one: (one.format is not WATCHDOG_LOG, one.size_bytes)):
        held += file.size_bytes
        if held <= _MOST_BYTES and len(kept) < _MOST_LOGS:
            kept.append(file)
    return [file for file in files if file in kept]


def _of_last_attempt(files: Sequence[FoundFile]) -> list[FoundFile]:
    """Return the files of the last attempt: torchrun writes each into a folder of its own."""
    attempts = {
        file: int(match[1])
        for file in files
        for part in PurePosixPath(file.path).parts
        if (match := _ATTEMPT.match(part)) is not None
    }
    last = max(attempts.values(), default=None)
    return [file for file in files if attempts.get(file, last) == last]


def _of_dumps(files: Sequence[FoundFile]) -> Hang | None:
    from ccltui.metrics.hangs.flight_hang import flight_hang  # noqa: PLC0415
    from ccltui.parsers.flight_recorder.read_dump import read_flight_dump  # noqa: PLC0415

    dumps, refused = [], []
    for file in files:
        try:
            with contained(file.path):
                path = Path(file.real_path)
                dumps.append(read_flight_dump(path, shown=file.path, rank=file.rank))
        except TraceError as error:
            refused.append(str(error))
    return flight_hang(dumps, refused=refused, files=[file.path for file in files])


def _of_reports(files: Sequence[FoundFile]) -> Hang | None:
    from ccltui.metrics.hangs.ras_hang import ras_hang  # noqa: PLC0415
    from ccltui.parsers.cluster.ras_json import read_ras  # noqa: PLC0415

    reports: list[RasReport] = []
    for file in files:
        try:
            with contained(file.path):
                reports += read_ras(Path(file.real_path), shown=file.path)
        except TraceError:
            continue
    # Reports in text state no time, and keep the order of their files.
    reports.sort(key=lambda one: one.timestamp)
    return ras_hang(reports, tuple(file.path for file in files))
