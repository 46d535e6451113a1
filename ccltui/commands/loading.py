"""Load a job for a command, with progress on a terminal; ctrl+c stops with the loaded ranks.

Also the options that add functions ``metric_cal`` in files to the metrics of a command.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, cast

from ccltui import arguments as args
from ccltui.parsers.errors import TraceError
from ccltui.parsers.store.cache_place import (
    LIMIT_VARIABLE,
    default_cache_dir,
    parse_size,
    store_limit,
)
from ccltui.process import stoppable
from ccltui.report.output import LOG, print_message

if TYPE_CHECKING:
    from ccltui.metrics.registry import Functions
    from ccltui.parsers.discovery.walk import Walk
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
    sample_ranks: int | None = None  # read only so many ranks
    nsys: str | None = None  # the program that exports reports; None: the one on PATH
    memory_bytes: int | None = None  # above it intermediates are freed between metrics

    def changed(self, **changes: Any) -> Self:
        """Return a copy with other values in some fields."""
        return replace(self, **changes)

    @classmethod
    def of(cls, path: str, arguments: argparse.Namespace) -> LoadOptions:
        """Options of a parsed command line. Raises GrammarError for a wrong size of the store."""
        _set_store_limit(getattr(arguments, "store_limit", None))
        return cls(
            path,
            arguments.rank_map,
            arguments.iteration,
            arguments.capture,
            arguments.cache_dir,
            arguments.no_cache,
            arguments.jobs,
            getattr(arguments, "profile_mode", "auto"),
            getattr(arguments, "sample_ranks", None),
            getattr(arguments, "nsys", None),
            _size_of(getattr(arguments, "memory", None)),
        )


@dataclass(frozen=True, slots=True)
class LoadedJob:
    """A job, and whether all of its files were loaded (False: ctrl+c stopped it)."""

    job: Job
    complete: bool


def _size_of(text: str | None) -> int | None:
    return None if text is None else parse_size(text)


def discover_job(options: LoadOptions, walked: Walk | None = None) -> Job:
    """Discover the files of a job without loading them. Raises TraceError if there are none.

    ``walked`` is a listing of the directory that was made already.
    """
    from ccltui import slow_path  # noqa: PLC0415  (imports the compiled modules)
    from ccltui.parsers.discovery.discover import SKIPPED_PLUG_IN  # noqa: PLC0415
    from ccltui.parsers.job import start_job  # noqa: PLC0415
    from ccltui.report.output import print_message  # noqa: PLC0415

    set_nsys_path(options)
    job = start_job(
        options.path,
        rank_map=rank_map_of(options),
        iteration=options.iteration,
        capture=options.capture,
        profile_mode=cast("ProfileMode", options.profile_mode),
        store=None if options.no_cache else options.cache_dir or default_cache_dir(),
        walked=walked,
    )
    slow_path.warn()
    for note in job.discovery.notes:
        if note.code == SKIPPED_PLUG_IN:
            print_message(note.message)
    return job


def unrelated_recordings(options: LoadOptions) -> list[str]:
    """Return the names of recordings that only share a folder, the one to open first.

    Empty where the folder holds one job, where one is chosen, or where nothing can be opened.
    """
    if options.iteration is not None or options.capture is not None:
        return []
    try:
        job = discover_job(options)
    except (TraceError, OSError):  # the command that loads the job reports it
        return []
    if not job.capture.is_unrelated:
        return []
    names = [one.name for one in job.discovery.captures if one.is_unrelated]
    return [job.capture.name, *(name for name in names if name != job.capture.name)]


def _set_store_limit(stated: str | None) -> None:
    """Set the limit of the store, for this process and others. Raises GrammarError."""
    if stated is not None:
        os.environ[LIMIT_VARIABLE] = stated
    store_limit()


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


def load_job(
    options: LoadOptions,
    *,
    any_recording: bool = False,
    walked: Walk | None = None,
    cancelled: Callable[[], bool] | None = None,
) -> LoadedJob:
    """Load every rank that can be read; unreadable files become failures of the job.

    Kineto traces without device work are replaced by files of nsys beside them. Raises TraceError
    if there is nothing to open, and where a folder holds unrelated recordings of which none is
    chosen, unless ``any_recording``. ``walked`` is a listing that was made already; with
    ``cancelled`` that stops the loading, and signals stay as they are.
    """
    from ccltui.parsers.job import LoadSettings, require_one_recording  # noqa: PLC0415
    from ccltui.parsers.job import load_job as load  # noqa: PLC0415

    job = discover_job(options, walked)
    if not any_recording and options.iteration is None and options.capture is None:
        require_one_recording(job, options.path)
    watched = sys.stderr is not None and sys.stderr.isatty()
    # Otherwise ctrl+c ends the command at once.
    signals = (signal.SIGINT,) if watched and cancelled is None else ()
    with cache_directory(options) as cache_dir, stoppable(*signals) as stopped:
        if options.sample_ranks is not None:
            from ccltui.parsers.sample_ranks import sampled_job  # noqa: PLC0415

            job = sampled_job(job, options.sample_ranks, cache_dir)
        settings = LoadSettings(cache_dir, options.jobs, inline=True, for_other_processes=False)
        with contextlib.closing(_MeterObserver(watched=watched)) as observer:
            loaded = load(job, settings, observer=observer, cancelled=cancelled or stopped)
    done = loaded.read_paths | {one.path for one in loaded.failures}
    complete = all(found.path in done for found in loaded.capture.files)
    return LoadedJob(loaded, complete)


class _MeterObserver:
    """Shows the progress of each capture on a terminal."""

    def __init__(self, *, watched: bool) -> None:
        self._watched = watched
        self._meter: Meter | None = None

    def started(self, job: Job) -> None:
        from ccltui.report.progress import ProgressLine, Silent  # noqa: PLC0415

        self.close()
        sizes = {found.path: found.size_bytes for found in job.capture.files}
        self._meter = ProgressLine(sys.stderr, sizes) if self._watched else Silent()

    def happened(self, _job: Job, event: LoadEvent) -> None:
        from ccltui.parsers.ingest.load import Failed, Loaded, Progress  # noqa: PLC0415

        if isinstance(event, Loaded):
            kept = "from the cache" if event.cached else "read"
            LOG.add(f"{event.trace.source.path}: {kept} in {event.seconds:.3f} s")
        elif isinstance(event, Failed):
            LOG.add(f"cannot be read: {event.error}")
        if self._meter is None:
            return
        if isinstance(event, Progress):
            self._meter.update(event.path, event.done_bytes)
        else:
            self._meter.finish(event.path)

    def close(self) -> None:
        if self._meter is not None:
            self._meter.close()
            self._meter = None


def job_name(path: str) -> str:
    """Return the first part of the name of a trace directory or file, for names of output files."""
    return Path(path).resolve().name.split(".")[0] or "job"


@contextlib.contextmanager
def cache_directory(options: LoadOptions) -> Iterator[Path | None]:
    """Directory for columns; with ``no_cache`` a temporary one, which memory mappings outlive."""
    if not options.no_cache:
        yield options.cache_dir
        return
    # Rarely needed, and the explorer starts fast.
    from ccltui.parsers.scratch_folder import scratch_folder  # noqa: PLC0415

    with scratch_folder() as scratch:
        yield scratch


_TIMEOUT_S = 300


def add_functions(parser: argparse._ActionsContainer) -> None:
    """Add ``--metric-file`` and ``--metric-timeout``."""
    parser.add_argument(
        "--metric-file",
        action="append",
        default=[],
        type=Path,
        metavar="PATH",
        help="add the function metric_cal of a file NAME.py as the metric NAME, or those of a "
        "folder NAME/NAME.py, of a folder of such folders, or of a CCL-Bench checkout; their code "
        "is run; may be repeated",
    )
    parser.add_argument(
        "--metric-timeout",
        type=args.grammar(args.positive),
        default=_TIMEOUT_S,
        metavar="S",
        help=f"seconds after which such a function is stopped; default: {_TIMEOUT_S}",
    )


def use_functions(options: argparse.Namespace, *, for_screen: bool = False) -> Functions | None:
    """Add the functions that the options name to the metrics of this process.

    Args:
        options: Parsed options of `add_functions` and ``--debug``.
        for_screen: See `FunctionLimits`.

    Returns:
        The functions, for other processes of this command; None without any option.

    Raises:
        GrammarError: A path has no function.
    """
    if not options.metric_file and options.metric_timeout == _TIMEOUT_S:
        return None
    from ccltui.metrics import registry  # noqa: PLC0415  (orjson, and functions are rare)
    from ccltui.metrics.functions.function_metric import (  # noqa: PLC0415
        FunctionLimits,
        functions_in,
    )

    found = [functions_in(path) for path in options.metric_file]
    functions = registry.Functions(
        tuple(dict.fromkeys(source for one in found for source in one.sources)),
        FunctionLimits(options.metric_timeout, debug=options.debug, for_screen=for_screen),
        tuple(pair for one in found for pair in one.broken),
    )
    registry.use_functions(functions)
    for name, problem in functions.broken:
        print_message(f"metric {name} is skipped: {problem}")
    for source, name in zip(functions.sources, function_names(functions), strict=True):
        if name != source.name:
            print_message(f"{source.shown} is listed as {name}: {source.name} is taken")
    return functions


def function_names(functions: Functions | None) -> tuple[str, ...]:
    """Names of the metrics of functions, in the order of their sources."""
    if functions is None or not functions.sources:
        return ()
    from ccltui.metrics import registry  # noqa: PLC0415

    return registry.names_of(functions.sources)
