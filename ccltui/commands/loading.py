"""Load a job for a command, with progress on a terminal; ctrl+c stops with the loaded ranks."""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, cast

if TYPE_CHECKING:
    from ccltui.parsers.ingest.load import LoadEvent
    from ccltui.parsers.job import Job, ProfileMode
    from ccltui.report.progress import Meter


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """Options of opening a job; ``cache_dir`` None is the user's cache."""

    path: str
    rank_map: str | None = None
    iteration: int | None = None
    capture: str | None = None
    cache_dir: Path | None = None
    no_cache: bool = False
    jobs: int | None = None
    profile_mode: str = "auto"
    nsys: str | None = None  # the program that exports reports; None: the one on PATH

    @classmethod
    def of(cls, path: str, arguments: argparse.Namespace) -> LoadOptions:
        """Options of a parsed command line."""
        return cls(
            path,
            arguments.rank_map,
            arguments.iteration,
            arguments.capture,
            arguments.cache_dir,
            arguments.no_cache,
            arguments.jobs,
            getattr(arguments, "profile_mode", "auto"),
            getattr(arguments, "nsys", None),
        )


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job, and whether all of its files were loaded (False: ctrl+c stopped it)."""

    job: Job
    complete: bool


def discover_job(options: LoadOptions) -> Job:
    """Discover the files of a job without loading them. Raises TraceError if there are none."""
    from ccltui import slow_path  # noqa: PLC0415  (imports the compiled modules)
    from ccltui.parsers.job import start_job  # noqa: PLC0415

    set_nsys_path(options)
    job = start_job(
        options.path,
        rank_map=rank_map_of(options),
        iteration=options.iteration,
        capture=options.capture,
        profile_mode=cast("ProfileMode", options.profile_mode),
    )
    slow_path.warn()
    return job


def set_nsys_path(options: LoadOptions) -> None:
    """Set the nsys that exports reports, for readers in this and in other processes."""
    if options.nsys is not None:
        os.environ["CCLTUI_NSYS"] = options.nsys


def rank_map_of(options: LoadOptions) -> Mapping[str, int] | None:
    """Ranks of files by ``--rank-map``, None without it. Raises GrammarError."""
    if options.rank_map is None:
        return None
    from ccltui.parsers.discovery.discover import parse_rank_map  # noqa: PLC0415  (numpy)

    return parse_rank_map(options.rank_map)


def load_job(options: LoadOptions) -> LoadedJob:
    """Load every rank that can be read; unreadable files become failures of the job.

    Kineto traces without device work are replaced by files of nsys beside them. Raises TraceError
    if there is nothing to open.
    """
    from ccltui.parsers.job import fallback_of, has_device_work  # noqa: PLC0415

    job = discover_job(options)
    watched = sys.stderr is not None and sys.stderr.isatty()
    with cache_directory(options) as cache_dir, _stoppable(active=watched) as stopped:
        loaded = _load(job, cache_dir, options.jobs, watched, stopped)
        fallback = fallback_of(loaded.job) if loaded.complete else None
        if fallback is None:
            return loaded
        other = _load(fallback, cache_dir, options.jobs, watched, stopped)
        return other if has_device_work(other.job) else loaded


def _load(
    job: Job, cache_dir: Path | None, jobs: int | None, watched: bool, stopped: Callable[[], bool]
) -> LoadedJob:
    from ccltui.report.progress import ProgressLine, Silent  # noqa: PLC0415

    sizes = {found.path: found.size_bytes for found in job.capture.files}
    meter: Meter = ProgressLine(sys.stderr, sizes) if watched else Silent()
    try:
        return _read(job, cache_dir, jobs, meter, stopped)
    finally:
        meter.close()


def _read(
    job: Job, cache_dir: Path | None, jobs: int | None, meter: Meter, stopped: Callable[[], bool]
) -> LoadedJob:
    from ccltui.parsers.ingest.load import load  # noqa: PLC0415

    capture = job.capture
    events = load(
        capture,
        cache_dir=cache_dir,
        jobs=jobs,
        inline=True,
        cancelled=stopped,
        for_others=False,
    )
    for event in events:
        job = job.with_event(event)
        _show(meter, event)
    done = {trace.source.path for trace in job.ranks} | {one.path for one in job.failures}
    return LoadedJob(job, complete=all(found.path in done for found in capture.files))


def _show(meter: Meter, event: LoadEvent) -> None:
    from ccltui.parsers.ingest.load import Progress  # noqa: PLC0415

    if isinstance(event, Progress):
        meter.update(event.path, event.done_bytes)
    else:
        meter.finish(event.path)


@contextlib.contextmanager
def cache_directory(options: LoadOptions) -> Iterator[Path | None]:
    """Directory for columns; with ``no_cache`` a temporary one, which memory mappings outlive."""
    if not options.no_cache:
        yield options.cache_dir
        return
    import tempfile  # noqa: PLC0415  (rarely needed, and the explorer starts fast)

    with tempfile.TemporaryDirectory(prefix="ccltui-") as scratch:
        yield Path(scratch)


@contextlib.contextmanager
def _stoppable(*, active: bool) -> Iterator[Callable[[], bool]]:
    """Turn the first ctrl+c into a request to stop; the second interrupts as usual."""
    stopped = False

    def on_interrupt(_signal: int, _frame: FrameType | None) -> None:
        nonlocal stopped
        if stopped:
            raise KeyboardInterrupt
        stopped = True

    if not active:
        yield lambda: False
        return
    previous = signal.signal(signal.SIGINT, on_interrupt)
    try:
        yield lambda: stopped
    finally:
        signal.signal(signal.SIGINT, previous)
