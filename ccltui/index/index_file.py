"""Read one file into the store and record what became of it: the same on every engine."""

from __future__ import annotations

import os
import socket
import threading
from pathlib import Path
from typing import Final

from msgspec import structs

from ccltui.index.index_state import FileRecord, IndexState, PlannedFile
from ccltui.parsers.ingest.rank_worker import read_one
from ccltui.parsers.store.column_store import DamagedEntryError, Store

MAX_ATTEMPTS: Final = 3
"""Attempts without a result, as where memory runs out, before a file counts as lost."""


def index_planned(state_directory: str, number: int) -> FileRecord | None:
    """Read the file ``number`` of the plan; for engines, which pass names only."""
    state = IndexState(Path(state_directory))
    plan = state.plan()
    return index_file(state, plan.files[number], plan.store_path())


def index_file(
    state: IndexState, planned: PlannedFile, store: Path, stop: threading.Event | None = None
) -> FileRecord | None:
    """Read one file into the store, unless it is there or has a record.

    Args:
        state: Where the record is written.
        planned: The file.
        store: Directory of the store.
        stop: Ends the reading when it is set.

    Returns:
        The record; None where ``stop`` ended the reading, which leaves none.

    Raises:
        OSError: The record cannot be written.
    """
    known = state.record(planned.key)
    if known is not None:
        return known
    ranks = stored_ranks(store, planned.key)
    if ranks is not None:
        record = FileRecord(
            planned.key, planned.path, ranks, cached=True, host=socket.gethostname()
        )
        state.write_record(record)
        return record
    attempt = state.begin(planned.key, MAX_ATTEMPTS)
    if attempt is None:
        record = killed(planned)
        state.write_record(record)
        return record
    cpu = cpu_seconds()
    outcome = read_one(
        os.fsdecode(planned.real_path), planned.path, planned.kind, (store,), planned.companion()
    )
    if stop is not None and stop.is_set() and outcome.error is not None:
        state.withdraw(planned.key, attempt)
        return None
    record = FileRecord(
        planned.key,
        planned.path,
        error=outcome.error,
        is_lost=outcome.is_lost,
        seconds=outcome.seconds,
        cpu_s=cpu_seconds() - cpu,
        host=socket.gethostname(),
        attempts=attempt,
        defect=outcome.defect,
    )
    if outcome.error is None:
        record = _checked(record, store, outcome.key)
    state.write_record(record)
    return record


def killed(planned: PlannedFile) -> FileRecord:
    """Return the record of a file whose reader was killed each time."""
    error = f"{planned.path}: the reading process was killed {MAX_ATTEMPTS} times (out of memory?)"
    return FileRecord(planned.key, planned.path, error=error, is_lost=True, attempts=MAX_ATTEMPTS)


def stored_ranks(store: Path, key: str) -> tuple[int | None, ...] | None:
    """Return the ranks of an entry, None where the store has none that can be used."""
    try:
        return tuple(trace.rank for trace in Store(store).open_parts(key))
    except (OSError, DamagedEntryError):
        return None


def _checked(record: FileRecord, store: Path, key: str) -> FileRecord:
    """Complete the record of a file that was read; its columns must be those of the plan."""
    if key != record.key:
        error = f"{record.path}: the file changed while the job was indexed; run the command again"
        return structs.replace(record, error=error, is_lost=True)
    ranks = stored_ranks(store, key)
    if ranks is None:
        error = f"{record.path}: its columns in {store} cannot be mapped"
        return structs.replace(record, error=error, is_lost=True)
    return structs.replace(record, ranks=ranks)


def cpu_seconds() -> float:
    """CPU seconds of this process and of those that it started, as nsys."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system
