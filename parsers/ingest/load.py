"""Load the files of a capture in worker processes, largest first, through the store.

The calling process never parses: a worker reads one file at a time, leaves the columns in the
store and reports; the caller maps them. Progress is in bytes of the files. What happens is told as
events: bytes read, ranks loaded, files that failed. Workers that die are replaced. A trace whose
stored columns turn out to be damaged when they are used is read again.

A rank goes to another process as its facts and the file to map: nothing is read again, and no
column is copied. Ranks that no cache had room for share one file without a name, which other
processes map by its descriptor. One open file for each rank would need as many descriptors as there
are ranks, and a folder of files would stay behind when the process is killed.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import Struct, structs

from ccltui.parsers.columns import (
    CollectiveArgs,
    ColumnFile,
    OpenFile,
    RankTrace,
    Samples,
    Strings,
    in_replica,
    later,
)
from ccltui.parsers.discovery.walk import each_in_turn
from ccltui.parsers.errors import (
    CancelledError,
    DamagedColumnsError,
    TraceError,
    contained,
    defect_of,
    is_of_machine,
)
from ccltui.parsers.formats import in_memory, read_file
from ccltui.parsers.machine_limits import workers_for
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.store.column_store import DamagedEntryError, PartReader, Store, pin
from ccltui.parsers.store.stored_columns import PAGE, StoredColumns, columns_of, map_columns

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import Capture, FoundFile
    from ccltui.parsers.ingest.rank_worker import Outcome
    from ccltui.parsers.ingest.worker_pool import WorkerPool


T = TypeVar("T")
_MOST_SHARED = 1 << 12
"""Facts that are kept to be shared, those asked for last. They outlive their job, until others take
their place: a communicator of a thousand ranks has 8 KB, so they are 30 MB at worst."""


class TransferredRank(Struct, frozen=True):
    """``facts`` is the rank without its columns; ``place`` is the file that holds them."""

    facts: RankTrace
    place: ColumnFile


def keep_open(trace: RankTrace) -> RankTrace:
    """Return the rank with its file kept open for when its name is removed, if it still exists."""
    if trace.place is None:
        return trace
    with contextlib.suppress(OSError):
        kept = OpenFile.opened(trace.place.path)
        return structs.replace(trace, place=structs.replace(trace.place, kept=kept))
    return trace


def detach_columns(trace: RankTrace) -> TransferredRank | None:
    """Return the rank for another process, None where its columns are in no file.

    The descriptor of a file that is kept open has to be sent along.
    """
    if trace.place is None:
        return None
    none = StoredColumns(Strings.of(()), {}, CollectiveArgs.empty(), Samples.empty())
    facts = structs.replace(trace, **columns_of(none), place=None)
    return TransferredRank(facts, structs.replace(trace.place, kept=None))


def attach_columns(handed: TransferredRank, columns: StoredColumns) -> RankTrace:
    """Return a received rank with the mapped ``columns`` of its file."""
    found = columns_of(columns)
    if handed.facts.added_ns:
        found["events"] = later(columns.events, handed.facts.added_ns)
    if handed.facts.first_rank:
        found["collective_args"] = in_replica(columns.collective_args, handed.facts.first_rank)
    return with_shared_facts(structs.replace(handed.facts, **found, place=handed.place))


_PIECE = 4 << 20


class SharedColumnFile:
    """The file; it is freed with the last rank that is mapped from it."""

    def __init__(self, directory: Path) -> None:
        """Create the file in ``directory`` on first use."""
        self._directory = directory
        self._kept: OpenFile | None = None

    def add(self, trace: RankTrace) -> RankTrace:
        """Return the rank mapped from this file; its own file is removed.

        Where there is no room its own file is kept open instead.
        """
        if trace.place is None:
            return trace
        try:
            place = self._append(trace.place)
            columns = map_columns(place, self._file().descriptor)
        except OSError:
            return keep_open(trace)
        shutil.rmtree(trace.place.path.parent, ignore_errors=True)
        return structs.replace(trace, **columns_of(columns), place=place)

    def _append(self, place: ColumnFile) -> ColumnFile:
        """Write the columns at the end. Raises OSError and then restores the old length."""
        kept = self._file()
        end = os.fstat(kept.descriptor).st_size
        begin = -(-end // PAGE) * PAGE
        done = begin
        try:
            with place.path.open("rb", buffering=0) as file:
                while piece := file.read(_PIECE):
                    view = memoryview(piece)
                    while view:
                        written = os.pwrite(kept.descriptor, view, done)
                        view, done = view[written:], done + written
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(kept.descriptor, end)
            raise
        return structs.replace(place, kept=kept, begin=begin)

    def _file(self) -> OpenFile:
        if self._kept is None:
            with tempfile.TemporaryFile(dir=self._directory, buffering=0) as file:
                self._kept = OpenFile(os.dup(file.fileno()))
        return self._kept


class Progress(Struct, frozen=True):
    """Bytes of one file read so far."""

    path: str
    done_bytes: int
    total_bytes: int


class Loaded(Struct, frozen=True):
    """One rank of a file is in columns; ``cached`` when they came from the store."""

    path: str
    trace: RankTrace
    cached: bool
    seconds: float


class Previewed(Struct, frozen=True):
    """The beginning of a rank (``trace.read_share`` of its file), until all of it is loaded.

    It is in no cache, and only a screen should show it.
    """

    path: str
    trace: RankTrace


class Failed(Struct, frozen=True):
    """One file gave nothing; ``error`` is one line with the file and the reason.

    ``is_lost``: the content of the file is not known to be wrong. It could not be opened, or its
    columns not be stored: no room, no descriptor, no memory. ``defect``: traceback, where the
    reader failed and not the file.
    """

    path: str
    error: str
    is_lost: bool = False
    defect: str = ""

    @classmethod
    def of(cls, path: str, error: TraceError) -> Failed:
        """Return the failure of a file whose reader raised ``error``."""
        return cls(path, str(error), is_of_machine(error), defect_of(error))


LoadEvent = Progress | Loaded | Previewed | Failed


def loaded(
    found: FoundFile, traces: Sequence[RankTrace], *, cached: bool, seconds: float
) -> list[LoadEvent]:
    """Return one event for each rank of a file."""
    return [Loaded(found.path, shown(t, found), cached=cached, seconds=seconds) for t in traces]


def shown(trace: RankTrace, found: FoundFile) -> RankTrace:
    """Return the trace with the path by which its file was found this time; none is stored."""
    source = msgspec.structs.replace(trace.source, path=found.path, real_path=found.real_path)
    return with_shared_facts(structs.replace(trace, source=source))


def with_shared_facts(trace: RankTrace) -> RankTrace:
    """Return the rank with one object for all facts that ranks before it state as well.

    Threads, devices and communicators are alike on most ranks, and take 4 KB of each.
    """
    return structs.replace(
        trace,
        tracks=_first_equal(tuple(map(_first_equal, trace.tracks))),
        process_groups=tuple(map(_first_equal, trace.process_groups)),
        devices=_first_equal(trace.devices),
    )


@lru_cache(_MOST_SHARED)
def _first_equal(fact: T) -> T:
    """Return the first of all facts that are equal to this one."""
    return fact


def part_reader(found: FoundFile, directory: Path, key: str) -> PartReader:
    """Return what reads a part of a file again, which other processes can be sent."""
    return partial(_TraceReader, found, directory, key)


def report_damage(path: str, directory: Path) -> None:
    """Tell the user that a trace is read because its stored columns are damaged."""
    _print_line(f"{path}: its columns in {directory} are damaged, so the file is read again")


def _print_line(text: str) -> None:
    if sys.stderr is not None:
        print(f"ccltui: {safe_text(text)}", file=sys.stderr, flush=True)


class _TraceReader(Struct, frozen=True):
    """Reads one part of a file; equal to another one of the same file, also in another process."""

    found: FoundFile
    directory: Path
    key: str
    part: int

    def __call__(self) -> RankTrace:
        """Return a part of a file whose columns in a store are damaged, and replace the entry.

        Raises:
            DamagedColumnsError: The file cannot be read, or is not the one that was stored.
        """
        found, store = self.found, Store(self.directory)
        repaired = store.intact_part(self.key, self.part)  # another process came first
        if repaired is not None:
            return repaired
        try:
            with contained(found.path):
                parts = _parts(found, store, self.key)
        except TraceError as error:
            text = f"its columns in {self.directory} are damaged, and it cannot be read again"
            raise DamagedColumnsError(f"{text} ({error})", path=found.path) from error
        report_damage(found.path, self.directory)
        if (self.directory / self.key).exists():  # a temporary directory is gone
            store.replace_parts(self.key, parts)
        return in_memory(parts[self.part])


def _parts(found: FoundFile, store: Store, key: str) -> tuple[RankTrace, ...]:
    other = None if found.companion is None else Path(found.companion.real_path)
    if store.key(Path(found.real_path), found.format.version, other) != key:
        raise TraceError("it has changed; run the command again")
    return tuple(
        read_file(
            Path(found.real_path),
            found.kind,
            shown=found.path,
            companion=found.companion,
            scratch=(store.directory,),
        )
    )


class Reading:
    """Reads files in a pool; a worker that dies costs only the file that it was reading."""

    def __init__(
        self,
        directories: tuple[Path, ...],
        workers: int,
        cancelled: Callable[[], bool],
        *,
        for_other_processes: bool = True,
    ) -> None:
        """Store columns in the first of ``directories`` that has room; the last is temporary.

        ``for_other_processes``: other processes map its columns too, after its files are removed.
        """
        self._directories = directories
        self._workers = workers
        self._cancelled = cancelled
        self._scratch = directories[-1] if len(directories) > 1 else None
        self._shared = SharedColumnFile(directories[-1]) if for_other_processes else None
        self._unmapped: list[FoundFile] = []

    def run(
        self,
        pending: Sequence[FoundFile],
        pool: WorkerPool | None,
        previewed: Sequence[FoundFile] = (),
    ) -> Iterator[LoadEvent]:
        """Read ``pending`` in ``pool``, or a pool of its own; ``previewed`` get a preview first."""
        suspects = yield from self._round(pending, self._workers, pool, previewed)
        for found in suspects:
            # The pool broke while these were being read: read alone, the file at fault shows.
            broken = yield from self._round([found], 1)
            for culprit in broken:
                reason = "the reading process was killed (out of memory?)"
                yield Failed(culprit.path, f"{culprit.path}: {reason}", is_lost=True)
        if self._unmapped:  # another process removes or damages entries of the store
            self._directories = self._directories[-1:]
            died = yield from self._round(self._unmapped, self._workers)
            for found in died:
                reason = "its columns were lost, and the process that read it again was killed"
                yield Failed(found.path, f"{found.path}: {reason}", is_lost=True)

    def _round(
        self,
        pending: Sequence[FoundFile],
        workers: int,
        pool: WorkerPool | None = None,
        previewed: Sequence[FoundFile] = (),
    ) -> Generator[LoadEvent, None, list[FoundFile]]:
        """Read ``pending``; return the files whose worker died."""
        from ccltui.parsers.ingest.worker_pool import Read, Seen, WorkerPool  # noqa: PLC0415  (slow)

        sizes = {found.path: found.size_bytes for found in pending}
        died: list[FoundFile] = []
        with pool or WorkerPool(workers) as readers:
            for event in readers.run(
                pending, self._directories, workers, self._cancelled, previews=previewed
            ):
                if isinstance(event, Seen):
                    yield from _preview(event.found, event.outcome)
                elif isinstance(event, Read):
                    for path, done in event.done_bytes.items():
                        yield Progress(path, min(done, sizes[path]), sizes[path])
                elif event.outcome is None:
                    died.append(event.found)
                else:
                    yield from self._result(event.found, event.outcome)
        return died

    def _result(self, found: FoundFile, outcome: Outcome) -> list[LoadEvent]:
        if outcome.error is not None:
            return [Failed(found.path, outcome.error, outcome.is_lost, outcome.defect)]
        try:
            reader = part_reader(found, outcome.directory, outcome.key)
            traces = Store(outcome.directory).open_parts(outcome.key, reader)
        except (OSError, DamagedEntryError) as error:
            return self._lost(found, outcome.directory, error)
        if outcome.directory == self._scratch and self._shared is not None:
            traces = tuple(self._shared.add(trace) for trace in traces)
        return loaded(found, traces, cached=False, seconds=outcome.seconds)

    def _lost(
        self, found: FoundFile, directory: Path, error: OSError | DamagedEntryError
    ) -> list[LoadEvent]:
        """Return why written columns cannot be mapped; no event if the file is read again."""
        is_gone = isinstance(error, FileNotFoundError | DamagedEntryError)
        if is_gone and directory != self._directories[-1]:
            self._unmapped.append(found)
            return []
        why = error.strerror if isinstance(error, OSError) else "their checksum does not match"
        text = f"{found.path}: its columns in {directory} cannot be mapped ({why})"
        return [Failed(found.path, text, is_lost=True)]


def _preview(found: FoundFile, outcome: Outcome) -> list[LoadEvent]:
    """Return the preview of a rank, mapped from a file whose name is removed at once."""
    store = Store(outcome.directory)
    trace = store.load(outcome.key)
    if trace is None:
        return []
    opened = keep_open(trace)
    shutil.rmtree(store.directory / outcome.key, ignore_errors=True)
    return [Previewed(found.path, shown(opened, found))]


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
        from ccltui.parsers.scratch_folder import scratch_folder  # noqa: PLC0415

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
