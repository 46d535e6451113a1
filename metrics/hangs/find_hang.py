"""Find the hangs that the dumps, logs and reports of a directory tell of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

from msgspec import structs

from ccltui.metrics.hangs.job_records import ATTEMPT, LOGS, JobFiles, jobs_of
from ccltui.parsers.cluster import NCCL_RAS
from ccltui.parsers.discovery.captures import rank_in_name
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.flight_recorder import FLIGHT_RECORD
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.runs import WATCHDOG_LOG

if TYPE_CHECKING:
    from ccltui.metrics.hangs.hang import Hang
    from ccltui.parsers.cluster.nccl_log import RasReport
    from ccltui.parsers.found_files import Discovery, FoundFile

_MOST_LOGS: Final = 4096
_MOST_BYTES: Final = 1 << 31
"""Logs beyond it are left out, the largest first: those of many ranks repeat each other."""


def hang_of(discovery: Discovery, store: Path | None = None) -> Hang | None:
    """Return the surest hang below a directory, None where no dump or log tells of one."""
    found = hangs_of(discovery, store)
    return found[0] if found else None


def hangs_of(discovery: Discovery, store: Path | None = None) -> tuple[Hang, ...]:
    """Return what the records of every job below a directory tell, the surest first.

    ``store`` keeps what NCCL Inspector's records come to, which may be of days.
    """
    files = [file for file in discovery.files if file.duplicate_of is None and file.problem is None]
    kinds = (*LOGS, NCCL_RAS, FLIGHT_RECORD, NCCL_INSPECTOR)
    return _found(tuple(file for file in files if file.format in kinds), store)


def hang_of_run(files: Sequence[FoundFile]) -> Hang | None:
    """Return the hang that the logs of one run tell of."""
    logs = tuple(file for file in files if file.format in LOGS and file.problem is None)
    found = [one for one in _found(logs, None) if one.kind != "nothing"]
    return found[0] if found else None


@lru_cache(maxsize=64)
def _found(files: tuple[FoundFile, ...], store: Path | None) -> tuple[Hang, ...]:
    from ccltui.metrics.hangs.join_hang import by_surety  # noqa: PLC0415

    found = [hang for job in jobs_of(files) if (hang := _of_job(job, store)) is not None]
    return tuple(sorted(found, key=by_surety))


def _of_job(job: JobFiles, store: Path | None) -> Hang | None:
    """Return what all records of a job tell; of equally sure ones dumps count, then logs."""
    from ccltui.metrics.hangs.join_hang import joined  # noqa: PLC0415

    unread: list[str] = []
    groups: list[tuple[int, ...]] = []
    judges: tuple[tuple[Sequence[FoundFile], _Judge, str], ...] = (
        (job.dumps, lambda files: _of_dumps(files, groups), "flight recorder"),
        ((*job.logs, *job.reports), lambda files: _of_logs(files, unread), "watchdog"),
        (job.reports, lambda files: _of_reports(files, groups, unread), "ras"),
    )
    found = [
        hang
        for files, judge, record in judges
        if files and (hang := _judged(judge, files, record)) is not None
    ]
    if not found:
        return None
    hang = joined(found, _of_inspector(job.inspector, found, store))
    return structs.replace(hang, where=job.where, more=(*hang.more, *unread))


_Judge = Callable[[Sequence["FoundFile"]], "Hang | None"]


def _judged(judge: _Judge, files: Sequence[FoundFile], record: str) -> Hang | None:
    """Return what a judge says; an error that nobody foresaw is one line, not the end of all."""
    from ccltui.metrics.hangs.hang import Hang, sentence  # noqa: PLC0415

    paths = tuple(file.path for file in files)
    try:
        with contained(paths[0]):
            return judge(files)
    except TraceError as error:
        text = sentence(f"the records of this job could not be judged: {error}")
        return Hang("abstained", text, sure="low", record=record, files=paths)


def _of_logs(files: Sequence[FoundFile], unread: list[str]) -> Hang | None:
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
        except TraceError as error:
            unread.append(_not_read(error))
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
        if (match := ATTEMPT.match(part)) is not None
    }
    last = max(attempts.values(), default=None)
    return [file for file in files if attempts.get(file, last) == last]


def _of_dumps(files: Sequence[FoundFile], groups: list[tuple[int, ...]]) -> Hang | None:
    """Judge dumps; add the members of groups that they state to ``groups``."""
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
    stated = {group.ranks for dump in dumps for group in dump.groups if group.ranks}
    groups += sorted(stated)
    return flight_hang(dumps, refused=refused, files=[file.path for file in files])


def _of_reports(
    files: Sequence[FoundFile], groups: Sequence[tuple[int, ...]], unread: list[str]
) -> Hang | None:
    from ccltui.metrics.hangs.hang import Hang, sentence  # noqa: PLC0415
    from ccltui.metrics.hangs.ras_hang import ras_hang  # noqa: PLC0415
    from ccltui.parsers.cluster.ras_json import read_ras  # noqa: PLC0415

    reports: list[RasReport] = []
    refused: list[str] = []
    for file in files:
        try:
            with contained(file.path):
                reports += read_ras(Path(file.real_path), shown=file.path)
        except TraceError as error:
            refused.append(_not_read(error))
    paths = tuple(file.path for file in files)
    if not reports and refused:
        text = sentence(f"no report of RAS can be read, of {len(files)}")
        return Hang("abstained", text, tuple(refused), sure="low", record="ras", files=paths)
    unread += refused
    # Reports in text state no time, and keep the order of their files.
    reports.sort(key=lambda one: one.timestamp)
    return ras_hang(reports, paths, groups)


def _not_read(error: TraceError) -> str:
    from ccltui.metrics.hangs.hang import sentence  # noqa: PLC0415

    return sentence(f"not read: {error}")


_APART_NS: Final = 900 * 10**9
"""The Inspector writes every minute at most; after a quarter of an hour it is of another time."""


def _of_inspector(
    files: Sequence[FoundFile], found: Sequence[Hang], store: Path | None
) -> list[str]:
    """Return what NCCL Inspector says of the ranks that other records name, a clause each."""
    from ccltui.metrics.hangs.join_hang import by_surety  # noqa: PLC0415

    first = min(found, key=by_surety)
    if not files or not first.ranks or first.is_local or first.kind == "late":
        return []
    from ccltui.metrics.inspector.inspector_job import rolled_job  # noqa: PLC0415

    try:
        with contained(files[0].path):
            job = rolled_job(tuple(files), store)
    except TraceError as error:
        return [f"the Inspector's records are not used: {error}"]
    facts, since_ns = job.facts, first.since_ns
    late = [(one.late_windows, one.lag_ms, label) for group in facts.groups
            for label, one in zip(group.labels, group.lags, strict=False)
            if one.late_windows]  # fmt: skip
    if since_ns is not None and abs(since_ns - facts.last_us * 1000) > _APART_NS:
        return ["the Inspector's records are of another time, and are not used"] if late else []
    last_window = int((facts.last_us - facts.first_us) // job.window_us)
    still = [one for one in late if one[0][-1] >= last_window - 1]
    if not still:
        return []
    windows, _, label = max(still, key=lambda one: (one[2] in first.ranks, one[1]))
    until_us = facts.last_us if since_ns is None else max(since_ns // 1000, facts.last_us)
    minutes = round((until_us - facts.first_us - windows[0] * job.window_us) / 60e6)
    for_long = f"for the {minutes} minutes before" if minutes > 1 else "just before"
    who = "" if label in first.ranks and len(first.ranks) == 1 else f"rank {label} was "
    return [f"Inspector: {who}slowest of its group {for_long}"]
