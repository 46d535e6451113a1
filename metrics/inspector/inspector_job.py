"""Records of NCCL Inspector of a job by minute: from the store, or from its logs, read once."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from ccltui.metrics.inspector.roll_up import rolled_up
from ccltui.metrics.inspector.rolled_job import RolledFacts, RolledJob
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import require_traces
from ccltui.parsers.errors import DamagedColumnsError, TraceError, contained
from ccltui.parsers.ingest.rank_worker import start_worker
from ccltui.parsers.ingest.worker_pool import Executor, StopPipe, starting
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.inspector.read_records import read_inspector, read_records
from ccltui.parsers.inspector.record_columns import (
    InspectorFacts,
    InspectorFile,
    drop_table,
    new_table,
    open_table,
)
from ccltui.parsers.machine_limits import MAX_WORKERS, allowed_cpus
from ccltui.parsers.scratch_folder import scratch_folder
from ccltui.parsers.store.column_store import DamagedEntryError, Store

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.inspector.record_columns import MemoryColumns

LOG_VERSION: Final = 1
"""Raised whenever the same lines would give other columns."""
_IN_MEMORY_BYTES: Final = 16 << 20
"""Of all logs together: 40,000 records, which are read in a tenth of a second."""


class UnreadLog(Struct, frozen=True):
    """A log that gives nothing, and why, with its path."""

    path: str
    why: str


@contextlib.contextmanager
def opened_logs(
    files: Sequence[FoundFile], store: Path | None
) -> Iterator[list[InspectorFile | UnreadLog]]:
    """Open the records of logs, in order of ``files``.

    Small ones are read into memory; of others the columns are in ``store``, or else in a temporary
    folder until the end of the context.
    """
    if sum(file.size_bytes for file in files) <= _IN_MEMORY_BYTES:
        yield [_in_memory(file) for file in files]
        return
    with scratch_folder() as scratch:
        places = (scratch,) if store is None else (store, scratch)
        keys = [log_key(file) for file in files]
        found: dict[int, InspectorFile | UnreadLog] = {}
        pending: list[int] = []
        for number, (file, key) in enumerate(zip(files, keys, strict=True)):
            one = _stored(file, key, places[:1])
            if one is None:
                pending.append(number)
            else:
                found[number] = one
        tasks = [(files[at].real_path, files[at].path, keys[at], places) for at in pending]
        for at, why in zip(pending, _read_all(tasks), strict=True):
            one = None if why else _stored(files[at], keys[at], places)
            found[at] = one or UnreadLog(files[at].path, why or "its columns cannot be read")
        if pending and store is not None:
            Store(store).trim()
        yield [found[number] for number in range(len(files))]


def drop_logs(files: Sequence[FoundFile], store: Path | None) -> None:
    """Remove what the store holds of logs, because some of it is damaged."""
    for file in files:
        if store is not None:
            drop_table(store, log_key(file))


def log_key(file: FoundFile) -> str:
    """Name of the entry of a log; "" where it cannot be read."""
    try:
        return Store(Path()).key(Path(file.real_path), LOG_VERSION)
    except OSError:
        return ""


def _in_memory(file: FoundFile) -> InspectorFile | UnreadLog:
    try:
        with contained(file.path):
            return read_inspector(Path(file.real_path), shown=file.path)
    except TraceError as error:
        return UnreadLog(file.path, str(error))


def _stored(file: FoundFile, key: str, places: Sequence[Path]) -> InspectorFile | None:
    for place in places if key else ():
        with contextlib.suppress(OSError, DamagedEntryError):
            columns, facts = open_table(Store(place), key, InspectorFacts)
            return InspectorFile(file.path, facts, columns)
    return None


_Task = tuple[str, str, str, tuple[Path, ...]]
"""Path, path for messages, name of the entry, and directories to try for it."""


def _read_all(tasks: Sequence[_Task]) -> list[str]:
    """Read logs into the store; return why each gives nothing, "" where it was read.

    In processes of their own where this one may start any: a server that ends with its parent may
    not.
    """
    workers = min(allowed_cpus(), MAX_WORKERS, len(tasks))
    if workers < 2 or multiprocessing.current_process().daemon:
        return [_into_store(task) for task in tasks]
    context = multiprocessing.get_context("spawn")
    stop = StopPipe(context)
    pool = Executor(
        workers, mp_context=context, initializer=start_worker, initargs=(None, stop.looked_at)
    )
    try:
        with starting():
            futures = [pool.submit(_into_store, task) for task in tasks]
        return [future.result() for future in futures]
    except BrokenProcessPool:
        return ["a process that read the logs has ended, as for lack of memory"] * len(tasks)
    finally:
        stop.set()
        pool.shutdown(wait=True, cancel_futures=True)
        stop.looked_at.close()


def _into_store(task: _Task) -> str:
    path, shown, key, places = task
    try:
        with contained(shown):
            _write(Path(path), shown, key, places)
    except TraceError as error:
        return str(error)
    return ""


def _write(path: Path, shown: str, key: str, places: Sequence[Path]) -> None:
    for place in places:
        try:
            with new_table(Store(place), key) as table:
                table.facts = read_records(path, table.put, shown=shown)
        except OSError:
            if place is places[-1]:
                raise
        else:
            return


_ROLL_VERSION: Final = 3
"""Raised whenever the same records would give other sums."""


def inspector_job(view: View) -> RolledJob:
    """Return the records of a job by minute.

    Raises:
        Refusal: There is no file of NCCL Inspector, or none holds a collective.
    """
    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    return job_of(view.job.discovery.files, view.job.store)


def job_of(files: Sequence[FoundFile], store: Path | None) -> RolledJob:
    """Return the records among the files of a directory by minute; see `inspector_job`."""
    logs = tuple(
        file for file in files if file.format is NCCL_INSPECTOR and file.duplicate_of is None
    )
    if not logs:
        raise refuse("no_side_file", "no records of NCCL Inspector here")
    job = rolled_job(logs, store)
    if not job.facts.series:
        why = job.facts.unread[0] if job.facts.unread else "no collective is in the records here"
        raise refuse("no_side_file", why)
    return job


@lru_cache(maxsize=2)
def rolled_job(files: tuple[FoundFile, ...], store: Path | None) -> RolledJob:
    """Return the sums of logs: those in the store, else made and stored for the next time."""
    key = _key(files)
    if store is not None and key:
        with contextlib.suppress(OSError, DamagedEntryError):
            table, facts = open_table(Store(store), key, RolledFacts)
            if table.is_whole:
                return RolledJob(facts, table)
    try:
        facts, columns = _made(files, store)
    except DamagedColumnsError:  # of an entry of the store: each is read from its log again
        drop_logs(files, store)
        facts, columns = _made(files, store)
    if store is not None and key and facts.num_records >= _LEAST_STORED:
        with contextlib.suppress(OSError), new_table(Store(store), key) as writer:
            writer.facts = facts
            for name, values in columns.items():
                writer.put(name, values)
    return RolledJob(facts, columns)


_LEAST_STORED: Final = 50_000
"""Records; fewer are read and summed up in less than a third of a second."""


def _key(files: Sequence[FoundFile]) -> str:
    """Name of the entry: of the logs and their paths; "" where one of them cannot be read."""
    keys = [log_key(file) for file in files]
    paths = [(file.path, file.problem) for file in files]
    return Store.key_of(repr((keys, paths)), _ROLL_VERSION) if all(keys) else ""


def _made(files: Sequence[FoundFile], store: Path | None) -> tuple[RolledFacts, MemoryColumns]:
    unread = [f"{file.path}: {file.problem}" for file in files if file.problem is not None]
    readable = [file for file in files if file.problem is None]
    with opened_logs(sorted(readable, key=lambda file: file.path), store) as logs:
        unread += [log.why for log in logs if isinstance(log, UnreadLog)]
        read: list[InspectorFile] = [log for log in logs if not isinstance(log, UnreadLog)]
        for one in read:
            unread += [f"{note.message}{_more(note.count)}" for note in one.facts.notes]
        return rolled_up(read, unread)


def _more(count: int) -> str:
    return f" ({count:,} such lines)" if count > 1 else ""
