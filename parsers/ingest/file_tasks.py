"""Read files in worker processes, which store the columns, and handle workers that die."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ccltui.parsers.ingest.load_events import Failed, LoadEvent, Previewed, Progress, loaded, shown
from ccltui.parsers.ingest.rank_transfer import keep_open
from ccltui.parsers.ingest.read_again import part_reader
from ccltui.parsers.ingest.unnamed_file import SharedColumnFile
from ccltui.parsers.ingest.worker_pool import Read, Seen, WorkerPool
from ccltui.parsers.store.column_store import DamagedEntryError, Store

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import FoundFile
    from ccltui.parsers.ingest.rank_worker import Outcome


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
