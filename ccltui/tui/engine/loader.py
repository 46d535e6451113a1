"""Loading, as seen from the application: one thread that waits for worker processes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ccltui.tui.engine.messages import (
    Fact,
    JobOpened,
    LoadEnded,
    LoadProgress,
    OpenFailed,
    RankFailed,
    RankLoaded,
)
from ccltui.tui.options import ExplorerOptions

if TYPE_CHECKING:
    from ccltui.parsers.ingest.load import LoadEvent
    from ccltui.parsers.ingest.worker_pool import WorkerPool
    from ccltui.parsers.job import Job, ProfileMode
    from ccltui.tui.engine.client import RemoteAnalyst

Load = Callable[[str, ExplorerOptions, Callable[[Fact], object], Callable[[], bool]], None]
"""Opens a path and posts what comes in, until it is done or cancelled."""
PERIOD_S = 0.25
"""Progress is told at most so often."""


def run_load(
    path: str,
    options: ExplorerOptions,
    post: Callable[[Fact], object],
    cancelled: Callable[[], bool],
    *,
    pool: WorkerPool | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> None:
    """Open a directory and tell what comes in; runs in a thread, parses nothing itself.

    ``pool`` is one that is awake already; it is closed in the end.
    """
    # numpy and the readers take longer to import than the first screen takes to paint.
    from ccltui.parsers.errors import TraceError, internal_error  # noqa: PLC0415
    from ccltui.parsers.job import LoadSettings, load_job, start_job  # noqa: PLC0415

    try:
        job = start_job(
            path,
            rank_map=options.rank_map,
            iteration=options.iteration,
            capture=options.capture,
            profile_mode=cast("ProfileMode", options.profile_mode),
        )
    except Exception as error:
        if pool is not None:
            pool.close(wait=False)
        foreseen = isinstance(error, TraceError | OSError)
        post(OpenFailed(str(error) if foreseen else internal_error(error)))
        return
    cache = None if options.cache_dir is None else Path(options.cache_dir)
    settings = LoadSettings(cache, options.jobs, previews=True)
    observer = _Posting(post, clock)
    loaded = load_job(job, settings, observer=observer, cancelled=cancelled, pool=pool)
    if loaded.capture is not job.capture and not cancelled():
        observer.post_fallback()
    post(LoadEnded(stopped=cancelled()))


class _Posting:
    """Posts what is loaded; facts about a fallback are held until it is known to be used."""

    def __init__(self, post: Callable[[Fact], object], clock: Callable[[], float]) -> None:
        self._post = post
        self._progress = _Progress(post, clock)
        self._captures = 0
        self._fallback: list[Fact] = []

    def started(self, job: Job) -> None:
        self._captures += 1
        self._take(JobOpened(job))

    def happened(self, job: Job, event: LoadEvent) -> None:
        from ccltui.parsers.ingest.load import Failed, Loaded, Previewed  # noqa: PLC0415

        if isinstance(event, Loaded | Previewed):
            self._take(RankLoaded(job, event.path))
        elif isinstance(event, Failed):
            self._take(RankFailed(job, event.path, event.error))
        elif self._captures == 1:
            self._progress.add(event.path, event.done_bytes)

    def post_fallback(self) -> None:
        """Show the files of nsys in place of traces without device work."""
        for fact in self._fallback:
            self._post(fact)

    def _take(self, fact: Fact) -> None:
        if self._captures == 1:
            self._post(fact)
        else:
            self._fallback.append(fact)


class HeadStart:
    """Loads and computes with processes that start while the screen is still being made.

    The first load takes those that read; a later one starts its own.
    """

    def __init__(self, options: ExplorerOptions) -> None:
        from ccltui.parsers.ingest.worker_pool import WorkerPool  # noqa: PLC0415  (imports no reader)
        from ccltui.tui.engine.start_server import Started  # noqa: PLC0415  (imports nothing that computes)

        self._pool: WorkerPool | None = WorkerPool.awake(options.jobs)
        self._started = Started.now(options)

    def analyst(self, options: ExplorerOptions) -> RemoteAnalyst:
        """The one that computes in the process that was started."""
        from ccltui.tui.engine.client import RemoteAnalyst  # noqa: PLC0415  (the screen paints before)

        return RemoteAnalyst(options, self._started)

    def load(
        self,
        path: str,
        options: ExplorerOptions,
        post: Callable[[Fact], object],
        cancelled: Callable[[], bool],
    ) -> None:
        """As :func:`run_load`."""
        pool, self._pool = self._pool, None
        run_load(path, options, post, cancelled, pool=pool)

    def close(self) -> None:
        """End the processes, those that read if nobody took them."""
        self._started.connection.close()
        if self._pool is not None:
            self._pool.close(wait=False)


class _Progress:
    """Gathers bytes read and tells them from time to time."""

    def __init__(self, post: Callable[[Fact], object], clock: Callable[[], float]) -> None:
        self._post = post
        self._clock = clock
        self._told = clock() - PERIOD_S
        self._bytes: dict[str, int] = {}

    def add(self, path: str, done_bytes: int) -> None:
        self._bytes[path] = done_bytes
        now = self._clock()
        if now - self._told >= PERIOD_S:
            self._told = now
            self._post(LoadProgress(dict(self._bytes)))
            self._bytes.clear()
