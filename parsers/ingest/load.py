"""Load the files of a capture in worker processes, largest first, through the store.

The calling process never parses: a worker reads one file at a time, leaves the columns in
the store and reports; the caller maps them. Progress is in bytes of the files.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ccltui.parsers.errors import CancelledError, TraceError, contained
from ccltui.parsers.formats import in_memory, read_file
from ccltui.parsers.ingest.file_tasks import (
    Failed,
    Loaded,
    LoadEvent,
    Previewed,
    Progress,
    loaded,
    part_reader,
    report_damage,
)
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.store.column_store import DamagedEntryError, Store, pin
from ccltui.parsers.system.machine_limits import workers_for
from ccltui.parsers.system.slow_calls import each_in_turn

if TYPE_CHECKING:
    from ccltui.parsers.columns import RankTrace
    from ccltui.parsers.discovery.discover import Capture, FoundFile
    from ccltui.parsers.ingest.worker_pool import WorkerPool

__all__ = ["Failed", "LoadEvent", "Loaded", "Previewed", "Progress", "load", "not_cancelled"]

_LONG_BYTES = 48 << 20
_LONG_PACKED_BYTES = 5 << 20  # traces shrink to a tenth
_MOST_PREVIEWS = 64  # each delays the reading by a thirtieth of a second, and is an open file
_INLINE_BYTES = 8 << 20  # below this, starting a worker costs more than it saves


def not_cancelled() -> bool:
    """Return False: the loading goes on."""
    return False


def load(
    capture: Capture,
    *,
    cache_dir: Path | None = None,
    jobs: int | None = None,
    inline: bool = False,
    cancelled: Callable[[], bool] = not_cancelled,
    pool: WorkerPool | None = None,
    previews: bool = False,
    for_other_processes: bool = True,
) -> Iterator[LoadEvent]:
    """Load every file of ``capture``, yielding progress and results as they come.

    Failures are events, not exceptions.

    Args:
        capture: The files to load.
        cache_dir: Where columns are stored; None for the user's cache directory.
        jobs: Worker processes; None for one a CPU allowed, at most 8, and no more than the free
            memory holds.
        inline: Whether small captures are read in this process (not in one with a screen).
        cancelled: After it returns true no further result comes; what was yielded stays valid.
        pool: Worker processes that run already; used for what is not in the store, then closed.
        previews: Whether the beginnings of large files come first.
        for_other_processes: Whether other processes can map columns that the cache had no room
            for.
    """
    store = Store(default_cache_dir() if cache_dir is None else cache_dir)
    pin(store.directory, (entry_key(store, found) for found in capture.files if found.digest))
    pending: list[FoundFile] = []
    stored = each_in_turn(lambda found: _from_store(store, found), capture.files)
    for found, events in zip(capture.files, stored, strict=False):
        if cancelled():
            return
        if events:
            yield from events
        else:
            pending.append(found)
    pending.sort(key=lambda found: (-found.size_bytes, found.path))
    if not pending:
        if pool is not None:
            pool.close(wait=False)
        return
    if inline and sum(found.size_bytes for found in pending) <= _INLINE_BYTES:
        yield from _inline(store, pending, cancelled)
    else:
        # what is stored needs neither workers nor scratch space
        from ccltui.parsers.ingest.file_tasks import Reading  # noqa: PLC0415
        from ccltui.parsers.system.scratch_folder import scratch_folder  # noqa: PLC0415

        workers = workers_for([(f.size_bytes, _form(f)) for f in pending], jobs)
        # Columns go here where the cache has no room; mapped files outlive it.
        with scratch_folder() as scratch:
            directories = store.directory, scratch
            previewed = _with_preview(pending) if previews else []
            reading = Reading(
                directories, workers, cancelled, for_other_processes=for_other_processes
            )
            yield from reading.run(pending, pool, previewed)
    store.trim()


def _from_store(store: Store, found: FoundFile) -> list[LoadEvent]:
    started = time.perf_counter()
    try:
        with contained(found.path):
            unfinished = found.format.unfinished
            if unfinished is not None and unfinished(found.real_path) is not None:
                return []  # columns of the file alone are out of date: its reader reports that
            traces = _stored_parts(store, found)
            seconds = time.perf_counter() - started
            return loaded(found, traces, cached=True, seconds=seconds)
    except TraceError as error:
        return [Failed.of(found.path, error)]


def _stored_parts(store: Store, found: FoundFile) -> tuple[RankTrace, ...]:
    """Return the ranks of a file that are stored, none unless all can be used."""
    key = entry_key(store, found)
    try:
        return store.open_parts(key, part_reader(found, store.directory, key))
    except DamagedEntryError as error:
        if not error.is_foreign:
            report_damage(found.path, store.directory)
    except OSError:
        pass
    return ()


def _with_preview(pending: Sequence[FoundFile]) -> list[FoundFile]:
    """Return files to preview: consecutive ranks, so that calls match."""
    long = [found for found in pending if _is_long(found)]
    long.sort(key=lambda found: (found.rank is None, found.rank or 0, found.path))
    return long[:_MOST_PREVIEWS]


def _is_long(found: FoundFile) -> bool:
    """Whether reading a file takes so long that a preview is worth its cost."""
    least = _LONG_BYTES if found.compression == "none" else _LONG_PACKED_BYTES
    return found.format.preview is not None and found.size_bytes >= least


def _form(found: FoundFile) -> str:
    return found.format.memory_form or found.compression


def entry_key(store: Store, found: FoundFile) -> str:
    """Name of the entry of a file: of its ends as discovery read them, which opens nothing.

    Raises OSError.
    """
    other = found.companion
    if not found.digest or (other is not None and not other.digest):
        return _current_key(store, found)
    digest = "" if other is None else other.digest
    return store.key_of(found.digest, found.format.version, digest)


def _current_key(store: Store, found: FoundFile) -> str:
    companion = None if found.companion is None else Path(found.companion.real_path)
    return store.key(Path(found.real_path), found.format.version, companion)


def _inline(
    store: Store, pending: Sequence[FoundFile], cancelled: Callable[[], bool]
) -> Iterator[LoadEvent]:
    for found in pending:
        if cancelled():
            return
        try:
            with contained(found.path):
                events = _read_here(store, found, cancelled)
        except CancelledError:
            return
        except TraceError as error:
            yield Failed.of(found.path, error)
            continue
        yield Progress(found.path, found.size_bytes, found.size_bytes)
        yield from events


def _read_here(
    store: Store, found: FoundFile, cancelled: Callable[[], bool]
) -> Sequence[LoadEvent]:
    started = time.perf_counter()
    key = _current_key(store, found)
    traces = read_file(
        Path(found.real_path),
        found.kind,
        shown=found.path,
        companion=found.companion,
        scratch=(store.directory,),
        cancelled=cancelled,
    )
    store.save_parts(key, traces)
    traces = [in_memory(trace) for trace in traces]
    return loaded(found, traces, cached=False, seconds=time.perf_counter() - started)
