"""Read files in worker processes, which store the columns, and handle workers that die.

What happens is reported as events: bytes read, ranks loaded, files that failed. A trace whose
stored columns turn out to be damaged when they are used is read again.
"""

from __future__ import annotations

import dataclasses
import shutil
import sys
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import Struct

from ccltui.parsers.columns import RankTrace
from ccltui.parsers.errors import (
    DamagedColumnsError,
    TraceError,
    contained,
    defect_of,
    is_of_machine,
)
from ccltui.parsers.formats import in_memory, read_file
from ccltui.parsers.ingest.rank_transfer import SharedColumnFile, keep_open
from ccltui.parsers.ingest.worker_pool import Read, Seen, WorkerPool
from ccltui.parsers.safe_text import safe_text
from ccltui.parsers.store.column_store import DamagedEntryError, PartReader, Store
from ccltui.parsers.system.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import FoundFile
    from ccltui.parsers.ingest.rank_worker import Outcome


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


@dataclass(frozen=True, slots=True)
class Previewed:
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
    return dataclasses.replace(trace, source=source)


def part_reader(found: FoundFile, directory: Path, key: str) -> PartReader:
    """Return what reads a part of a file again, which other processes can be sent."""
    return partial(_TraceReader, found, directory, key)


def report_damage_by(report: Callable[[str], None]) -> None:
    """Pass lines about damaged columns to ``report``; to begin with they go to standard error."""
    _report[:] = [report]


def report_damage(path: str, directory: Path) -> None:
    """Tell the user that a trace is read because its stored columns are damaged."""
    _report[0](f"{path}: its columns in {directory} are damaged, so the file is read again")


def _print_line(text: str) -> None:
    if sys.stderr is not None:
        print(f"ccltui: {safe_text(text)}", file=sys.stderr, flush=True)


_report: Final[list[Callable[[str], None]]] = [_print_line]


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
        why = error.strerror if isinstance(error, OSError) else "they are not as they were written"
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
