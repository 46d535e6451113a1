"""Files on their way through worker processes, which leave columns in a store."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from parsers.handover import held_open
from parsers.load_events import Failed, Glimpsed, LoadEvent, Progress, loaded, shown
from parsers.pool import Read, Seen, WorkerPool
from parsers.store import Store

if TYPE_CHECKING:
    from parsers.discover import FoundFile
    from parsers.worker import Outcome


class Reading:
    """Files on their way through a pool; a worker that dies takes only its own file with it."""

    def __init__(
        self, directories: tuple[Path, ...], workers: int, cancelled: Callable[[], bool]
    ) -> None:
        self._directories = directories
        self._workers = workers
        self._cancelled = cancelled

    def run(
        self,
        pending: Sequence[FoundFile],
        pool: WorkerPool | None,
        glanced: Sequence[FoundFile] = (),
    ) -> Iterator[LoadEvent]:
        """Read ``pending`` in ``pool``, or in one of its own; ``glanced`` are looked at first."""
        suspects = yield from self._round(pending, self._workers, pool, glanced)
        for found in suspects:
            # The pool broke while these were in flight: alone, the culprit shows itself.
            broken = yield from self._round([found], 1)
            for culprit in broken:
                reason = "the reading process was killed (out of memory?)"
                yield Failed(culprit.path, f"{culprit.path}: {reason}")

    def _round(
        self,
        pending: Sequence[FoundFile],
        workers: int,
        pool: WorkerPool | None = None,
        glanced: Sequence[FoundFile] = (),
    ) -> Generator[LoadEvent, None, list[FoundFile]]:
        """Read ``pending``; the files whose worker died are returned."""
        sizes = {found.path: found.size_bytes for found in pending}
        died: list[FoundFile] = []
        with pool or WorkerPool(workers) as readers:
            for event in readers.run(
                pending, self._directories, workers, self._cancelled, glances=glanced
            ):
                if isinstance(event, Seen):
                    yield from _beginning(event.found, event.outcome)
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
            return [Failed(found.path, outcome.error)]
        traces = Store(outcome.directory).load_parts(outcome.key)
        if traces is None:
            return [Failed(found.path, f"{found.path}: its columns vanished from the cache")]
        if outcome.directory != self._directories[0]:
            traces = tuple(held_open(trace) for trace in traces)
        return loaded(found, traces, cached=False, seconds=outcome.seconds)


def _beginning(found: FoundFile, outcome: Outcome) -> list[LoadEvent]:
    """The beginning of a rank, mapped from a file whose name goes at once."""
    store = Store(outcome.directory)
    trace = store.load(outcome.key)
    if trace is None:
        return []
    kept = held_open(trace)
    shutil.rmtree(store.directory / outcome.key, ignore_errors=True)
    return [Glimpsed(found.path, shown(kept, found))]
