"""Follow a directory while a job writes to it: look at every interval, and read what changed.

Runs in the thread that loads. The first files are loaded as those of any directory. Afterwards a
job whose files changed is read anew as a whole, by worker processes: the columns of files that did
not change come from the store. One fact then replaces the job in view.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ccltui.parsers.numbers import duration
from ccltui.tui.engine.loader import discovered, run_load
from ccltui.tui.engine.messages import Fact, JobFollowed, LoadEnded, Problem
from ccltui.tui.options import ExplorerOptions, FollowSettings
from ccltui.tui.state.followed import Looked

if TYPE_CHECKING:
    from ccltui.parsers.discovery.watch import Changes
    from ccltui.parsers.ingest.worker_pool import WorkerPool
    from ccltui.parsers.job import Job

STOPPED: Final = "loading was stopped"
_CANCEL_S: Final = 0.1


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
        from ccltui.parsers.discovery.watch import Watch  # noqa: PLC0415

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
