"""The records of NCCL Inspector of a job by minute: from the store, or from its logs."""

from __future__ import annotations

import contextlib
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.metrics.inspector.roll_up import rolled_up
from ccltui.metrics.inspector.rolled_job import RolledFacts, RolledJob
from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import require_traces
from ccltui.parsers.errors import DamagedColumnsError
from ccltui.parsers.ingest.inspector_logs import UnreadLog, drop_logs, log_key, opened_logs
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.store.column_store import DamagedEntryError, Store
from ccltui.parsers.store.table_entry import new_table, open_table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile
    from ccltui.parsers.inspector.record_columns import InspectorFile, MemoryColumns

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
