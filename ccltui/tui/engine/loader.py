"""Load a job in a thread that waits for worker processes, and follow its directory.

Runs in the thread that loads. The first files are loaded as those of any directory. Afterwards a
job whose files changed is read anew as a whole, by worker processes: the columns of files that did
not change come from the store. One fact then replaces the job in view.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.parsers.numbers import duration
from ccltui.tui.engine.messages import (
    Fact,
    FilesRead,
    JobFollowed,
    JobOpened,
    LoadEnded,
    LoadProgress,
    OpenFailed,
    Problem,
)
from ccltui.tui.options import ExplorerOptions, FollowSettings
from ccltui.tui.state.session import Looked

if TYPE_CHECKING:
    from ccltui.parsers.discovery.discover import Changes
    from ccltui.parsers.discovery.walk import Walk
    from ccltui.parsers.ingest.load import LoadEvent
    from ccltui.parsers.ingest.worker_pool import WorkerPool
    from ccltui.parsers.job import Job


Load = Callable[[str, ExplorerOptions, Callable[[Fact], object], Callable[[], bool]], object]
"""Open a path and post what is loaded, until everything is loaded or loading is cancelled."""
PERIOD_S = 0.25
"""Least seconds between two posts of progress, and between two of files that were read.

Each fact holds the ranks of its job and makes the explorer show them all: a fact for every file of
16,384 took 1.7 GB and minutes.
"""
_INDEX_S: Final = 2.0  # a look at an index run may ask Slurm, which all users share
_CANCEL_S: Final = 0.1


def run_load(
    path: str,
    options: ExplorerOptions,
    post: Callable[[Fact], object],
    cancelled: Callable[[], bool],
    *,
    pool: WorkerPool | None = None,
    clock: Callable[[], float] = time.monotonic,
    walked: Walk | None = None,
) -> Job | None:
    """Open a directory and post what is loaded. Runs in a thread, and parses nothing itself.

    Args:
        path: Directory or file.
        options: Options of the explorer.
        post: Receives the facts about loading.
        cancelled: Whether to stop; what is loaded stays.
        pool: Worker processes that are started already; closed at the end. None starts them.
        clock: Seconds, for the period of progress.
        walked: A listing of the path that was made already.

    Returns:
        The loaded job, None where nothing could be opened.
    """
    # numpy and the readers take longer to import than the first screen takes to paint.
    from ccltui.index.work_division import with_advice  # noqa: PLC0415
    from ccltui.parsers.errors import TraceError, internal_error  # noqa: PLC0415
    from ccltui.parsers.job import LoadSettings, load_job  # noqa: PLC0415

    cache = None if options.cache_dir is None else Path(options.cache_dir)
    try:
        job = discovered(path, options, walked)
        if options.sample_ranks is not None:
            from ccltui.parsers.sample_ranks import sampled_job  # noqa: PLC0415

            job = sampled_job(job, options.sample_ranks, cache)
    except Exception as error:
        if pool is not None:
            pool.close(wait=False)
        foreseen = isinstance(error, TraceError | OSError)
        post(OpenFailed(str(error) if foreseen else internal_error(error)))
        return None
    _follow_index(job, path, cache, post, cancelled)
    job = with_advice(job, path, cache, options.jobs)
    settings = LoadSettings(cache, options.jobs, previews=True)
    observer = _Posting(post, clock)
    loaded = load_job(job, settings, observer=observer, cancelled=cancelled, pool=pool)
    observer.post_read()
    if loaded.capture is not job.capture and not cancelled():
        observer.post_fallback()
    post(LoadEnded(stopped=cancelled()))
    return loaded


def discovered(path: str, options: ExplorerOptions, walked: Walk | None = None) -> Job:
    """Return the job of a directory, of which nothing is loaded. Raises TraceError, OSError."""
    from ccltui.parsers.job import start_job  # noqa: PLC0415  (after the first paint)
    from ccltui.parsers.store.cache_place import default_cache_dir  # noqa: PLC0415

    return start_job(
        path,
        rank_map=options.rank_map,
        iteration=options.iteration,
        capture=options.capture,
        profile_mode=options.view.profile_mode,
        store=default_cache_dir() if options.cache_dir is None else Path(options.cache_dir),
        walked=walked,
    )


def _follow_index(
    job: Job,
    path: str,
    store: Path | None,
    post: Callable[[Fact], object],
    cancelled: Callable[[], bool],
) -> None:
    """Show the progress of a ``ccltui index`` that runs on the directory, until it has ended.

    Reading the same files here as well would double the work, on a machine that may not do it.
    """
    from ccltui.index.slurm_jobs import running_index  # noqa: PLC0415

    found = running_index(job, path, store)
    if found is None:
        return
    post(JobOpened(job))
    while found is not None and not cancelled():
        done = {one: found.sizes[one] for one in found.ended}
        post(LoadProgress(done, elsewhere=found.told()))
        until = time.monotonic() + _INDEX_S
        while time.monotonic() < until and not cancelled():
            time.sleep(_CANCEL_S)
        found = running_index(job, path, store)


class _Posting:
    """Posts what is loaded; facts about a fallback are held until it is known to be used."""

    def __init__(self, post: Callable[[Fact], object], clock: Callable[[], float]) -> None:
        self._post = post
        self._clock = clock
        self._progress = _Progress(post, clock)
        self._captures = 0
        self._fallback: list[Fact] = []
        self._job: Job | None = None  # with the files of self._problems
        self._problems: dict[str, str] = {}
        self._posted = -math.inf  # when files were posted last

    def started(self, job: Job) -> None:
        self.post_read()
        self._captures += 1
        self._take(JobOpened(job))

    def happened(self, job: Job, event: LoadEvent) -> None:
        from ccltui.parsers.ingest.load import Failed, Loaded, Previewed  # noqa: PLC0415

        if isinstance(event, Loaded | Previewed | Failed):
            self._job = job
            self._problems[event.path] = event.error if isinstance(event, Failed) else ""
        elif self._captures == 1:
            self._progress.add(event.path, event.done_bytes)
        if self._clock() - self._posted >= PERIOD_S:
            self.post_read()

    def post_read(self) -> None:
        """Post the files that were read since the last such post, if there are any."""
        if self._job is not None and self._problems:
            self._take(FilesRead(self._job, self._problems))
            self._problems = {}
            self._posted = self._clock()

    def post_fallback(self) -> None:
        """Show the files of nsys in place of traces without device work."""
        for fact in self._fallback:
            self._post(fact)

    def _take(self, fact: Fact) -> None:
        if self._captures == 1:
            self._post(fact)
        else:
            self._fallback.append(fact)


class _Progress:
    """Collects bytes read and posts them every ``PERIOD_S``."""

    def __init__(self, post: Callable[[Fact], object], clock: Callable[[], float]) -> None:
        self._post = post
        self._clock = clock
        self._posted = clock() - PERIOD_S
        self._bytes: dict[str, int] = {}

    def add(self, path: str, done_bytes: int) -> None:
        self._bytes[path] = done_bytes
        now = self._clock()
        if now - self._posted >= PERIOD_S:
            self._posted = now
            self._post(LoadProgress(dict(self._bytes)))
            self._bytes.clear()


STOPPED: Final = "loading was stopped"


def load_or_follow(
    path: str,
    options: ExplorerOptions,
    post: Callable[[Fact], object],
    cancelled: Callable[[], bool],
    *,
    pool: WorkerPool | None = None,
) -> None:
    """Open a path and post what is loaded; go on while the options say that it is followed."""
    if options.follow is None:
        run_load(path, options, post, cancelled, pool=pool)
    else:
        Following(path, options, options.follow, post, cancelled).run(pool)


class Following:
    """The looks at one directory."""

    def __init__(
        self,
        path: str,
        options: ExplorerOptions,
        settings: FollowSettings,
        post: Callable[[Fact], object],
        cancelled: Callable[[], bool],
    ) -> None:
        """Take the arguments of `run_load`; nothing is looked at yet."""
        # It imports the readers, which take longer than the first screen takes to paint.
        from ccltui.parsers.discovery.discover import Watch  # noqa: PLC0415

        self._path = path
        self._options = options
        self._settings = settings
        self._post = post
        self._cancelled = cancelled
        self._watch = Watch(path, settings.interval_s)
        self._is_open = False  # whether a job is in view

    def run(self, pool: WorkerPool | None) -> None:
        """Look until the loading is cancelled, or the directory is idle for as long as allowed."""
        idle_since = time.monotonic()
        while not self._cancelled():
            began = time.monotonic()
            changes = self._watch.look(time.time_ns())
            if changes:
                idle_since = time.monotonic()
            self._post_look(changes)
            if self._watch.is_due():
                self._open(pool)
                pool, idle_since = None, time.monotonic()
                self._post_look(changes)
            limit_s = self._settings.until_idle_s
            if limit_s is not None and time.monotonic() - idle_since >= limit_s:
                self._accept_all(limit_s, pool)
                return
            # An update takes at most half of the time, however large the job is.
            self._wait(max(self._settings.interval_s, time.monotonic() - began))
        if pool is not None:
            pool.close(wait=False)
        if not self._is_open:
            self._post(LoadEnded(stopped=True))
        self._post(Looked(time.time(), ended=STOPPED))

    def _accept_all(self, limit_s: float, pool: WorkerPool | None) -> None:
        """Read also the files without an end as they are: nothing changes any more."""
        self._watch.accept_all()
        if self._watch.is_due() or not self._is_open:
            self._open(pool, hold=False)
        ended = f"nothing changed for {duration(limit_s * 1e9)}"
        self._post(Looked(time.time(), ended=ended))

    def _wait(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0 and not self._cancelled():
            time.sleep(min(left, _CANCEL_S))

    def _post_look(self, changes: Changes) -> None:
        waiting = self._watch.waiting()
        self._post(Looked(time.time(), changes.new, changes.grown, changes.gone, waiting))

    def _open(self, pool: WorkerPool | None, *, hold: bool = True) -> None:
        """Load the files to open; with ``hold`` without those that have no end."""
        if self._is_open:
            shown, found = None, self._read()
        else:
            shown = found = self._load(pool)
        while hold and found is not None and self._watch.hold(found.unfinished_files):
            found = self._read()
        if found is None or self._cancelled():
            return
        # Without ranks nothing is analysed at first, and alerts are judged on what is.
        is_judged = found.ranks or not self._settings.alerts
        if found is not shown or not is_judged:
            self._post(JobFollowed(found))

    def _load(self, pool: WorkerPool | None) -> Job | None:
        """Load the first files and post each; None where nothing can be opened."""
        walked = self._watch.take()
        loaded = run_load(
            self._path, self._options, self._post, self._cancelled, pool=pool, walked=walked
        )
        self._is_open = loaded is not None
        return loaded

    def _read(self) -> Job | None:
        """Load the files to open; None, and a line says why, where nothing can be opened."""
        from ccltui.index.work_division import with_advice  # noqa: PLC0415
        from ccltui.parsers.errors import TraceError, internal_error  # noqa: PLC0415
        from ccltui.parsers.job import LoadSettings, load_job  # noqa: PLC0415

        cache = None if self._options.cache_dir is None else Path(self._options.cache_dir)
        try:
            job = discovered(self._path, self._options, self._watch.take())
        except Exception as error:
            foreseen = isinstance(error, TraceError | OSError)
            self._post(Problem(str(error) if foreseen else internal_error(error)))
            return None
        job = with_advice(job, self._path, cache, self._options.jobs)
        settings = LoadSettings(cache, self._options.jobs)
        return load_job(job, settings, cancelled=self._cancelled)
