"""``ccltui index DIR``: read the ranks of a job into a store with one of the engines.

The engine that reads in processes of this machine is here; those of clusters are in `ccltui.index`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from msgspec import convert

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, discover_job
from ccltui.index.index_engine import (
    BytesRead,
    Computing,
    Engine,
    EngineEvent,
    EngineOptions,
    Message,
    Work,
)
from ccltui.index.index_state import FileRecord, OpenOptions
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.parsers.ingest.load import Failed, Loaded, Progress, Reading
from ccltui.parsers.system.machine_limits import workers_for
from ccltui.process import stoppable
from ccltui.report.output import print_message, write_report

if TYPE_CHECKING:
    from ccltui.index.index_run import IndexRun
    from ccltui.parsers.job import Job


class LocalEngine:
    """The worker processes that also load a job; one that is killed costs a second attempt."""

    name = "local"
    reduces = False

    def __init__(self, options: EngineOptions) -> None:
        self._options = options

    def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Read the largest files first; see :class:`ccltui.index.index_engine.Engine`."""
        pending = sorted(work.pending, key=lambda number: -work.plan.files[number].size_bytes)
        files = [work.found[number] for number in pending]
        keys = {work.found[number].path: work.plan.files[number].key for number in pending}
        sizes = [(work.plan.files[n].size_bytes, work.plan.files[n].form) for n in pending]
        workers = workers_for(sizes, self._options.workers)
        reading = Reading((work.plan.store_path(),), workers, cancelled, for_other_processes=False)
        ranks: dict[str, list[int | None]] = {}
        for event in reading.run(files, None):
            if isinstance(event, Progress):
                yield BytesRead(event.path, event.done_bytes)
            elif isinstance(event, Loaded):
                # A file with several ranks yields them one after another.
                found = ranks.setdefault(event.path, [])
                found.append(event.trace.rank)
                if len(found) == event.trace.source.parts:
                    done = FileRecord(
                        keys[event.path], event.path, tuple(found), seconds=event.seconds
                    )
                    work.state.write_record(done)
                    yield done
            elif isinstance(event, Failed):
                failed = FileRecord(
                    keys[event.path],
                    event.path,
                    error=event.error,
                    is_lost=event.is_lost,
                    defect=event.defect,
                )
                work.state.write_record(failed)
                yield failed


ENGINES: Final = ("local", "slurm", "dask", "tcp://HOST:PORT")


def engine_named(name: str, options: EngineOptions) -> Engine:
    """Return the engine of ``--engine``. Raises GrammarError.

    Only the module of the engine that is named is imported.
    """
    if name == "local":
        return LocalEngine(options)
    if name == "slurm":
        from ccltui.index.slurm_engine import SlurmEngine  # noqa: PLC0415

        return SlurmEngine(options)
    if name == "dask" or name.startswith(("tcp://", "tls://")):
        from ccltui.index.dask_engine import DaskEngine  # noqa: PLC0415

        return DaskEngine(options, None if name == "dask" else name)
    raise GrammarError(f"{name[:40]!r} is no engine: {', '.join(ENGINES)}")


_DESCRIPTION = """\
Read every rank of DIR into the store of columns, so that a later ccltui DIR opens without reading.
local: processes of this machine. slurm: a job array, with no process that has to stay; started
again, the command finds its jobs and goes on. dask: workers of dask.distributed, of this machine
or, with --site, of Slurm; tcp://HOST:PORT: those of a running scheduler. Ranks that are in the
store are not read again."""
_EPILOG = """\
ctrl+c cancels the jobs and keeps what is read. Compute nodes need this Python, DIR and the store on
file systems that they share with this machine. Exit status: 0 all ranks are in the store or are
damaged files; 1 some were not read for lack of resources, or none can be read; 130 ctrl+c."""
_FOLLOW_S: Final = 5.0


def parser() -> args.Parser:
    """Parser of the arguments of ``ccltui index``."""
    result = args.of_verb("index", _DESCRIPTION, _EPILOG)
    result.add_argument("trace", metavar="DIR", help="trace directory")
    group = result.add_argument_group("engine")
    group.add_argument(
        "--engine",
        default="local",
        metavar="ENGINE",
        help="local, slurm, dask or tcp://HOST:PORT; default: local",
    )
    group.add_argument(
        "--site",
        metavar="PROFILE",
        help="slurm, dask: account, partition, constraint and QOS of a profile in sbatch/sites, by "
        "name or path",
    )
    group.add_argument(
        "--sbatch",
        action="append",
        default=[],
        metavar="OPTION",
        help="slurm, dask: a further option of sbatch: --sbatch=--reservation=x; may be repeated",
    )
    group.add_argument(
        "--ranks-per-task",
        type=args.grammar(args.positive),
        metavar="N",
        help="slurm: files of one task; default: as many as hold 1 GiB of text",
    )
    group.add_argument(
        "--follow",
        action="store_true",
        help="go on with ranks that are written later, until all of the world size are there",
    )
    running = result.add_argument_group(
        "a run that was started before, here or elsewhere"
    ).add_mutually_exclusive_group()
    running.add_argument(
        "--status", action="store_true", help="print its progress; exit status 1 if none is running"
    )
    running.add_argument(
        "--cancel", action="store_true", help="cancel its jobs and end its command"
    )
    return args.completed(result, args.add_capture, args.add_loading)


def run(arguments: Sequence[str]) -> int:
    """Run ``ccltui index`` with its arguments and return the exit status."""
    options = parser().parse_args(arguments)
    if options.no_cache:
        raise GrammarError("--no-cache: the command does nothing but fill the store")
    from ccltui.index.index_engine import EngineError  # noqa: PLC0415  (numpy)

    loading = LoadOptions.of(str(Path(options.trace).absolute()), options)
    if options.status or options.cancel:
        return _other_run(loading, cancels=options.cancel)
    engine = _engine(options)
    try:
        with stoppable(signal.SIGINT, signal.SIGTERM) as stopped:
            finished = _index(loading, engine, options, stopped)
    except (TraceError, OSError, EngineError) as error:
        if isinstance(error, GrammarError):
            raise
        print_message(str(error))
        return exit_codes.INPUT
    if finished is None:
        return exit_codes.INTERRUPTED
    _print_failures(finished)
    print_message(finished.summary())
    if stopped() or finished.is_cancelled:
        return exit_codes.INTERRUPTED
    return exit_codes.INPUT if finished.has_lost or not finished.num_stored else exit_codes.OK


def _other_run(loading: LoadOptions, *, cancels: bool) -> int:
    """Print the progress of the run on a directory, or cancel it; return the exit status."""
    from ccltui.index.index_engine import EngineError  # noqa: PLC0415  (numpy)
    from ccltui.index.slurm_jobs import cancel_index, running_index  # noqa: PLC0415  (numpy)

    try:
        found = running_index(discover_job(loading), loading.path, loading.cache_dir)
        if found is None:
            print_message(f"{loading.path}: no ccltui index runs")
            return exit_codes.INPUT
        print_message(found.told())
        if cancels:
            cancel_index(found)
            print_message("cancelled; what is read stays in the store")
    except EngineError as error:
        print_message(str(error))
        return exit_codes.INPUT
    return exit_codes.OK


def _engine(options: argparse.Namespace) -> Engine:
    from ccltui.index.index_engine import EngineOptions  # noqa: PLC0415  (numpy)

    for name in ("site", "sbatch"):
        if getattr(options, name) and options.engine == "local":
            raise GrammarError(f"--{name} is for --engine slurm and dask")
    return engine_named(
        options.engine,
        EngineOptions(options.jobs, options.ranks_per_task, options.site, tuple(options.sbatch)),
    )


def _index(
    loading: LoadOptions,
    engine: Engine,
    options: argparse.Namespace,
    stopped: Callable[[], bool],
) -> IndexRun | None:
    """Index the ranks that are there; with ``follow`` again, until none is missing."""
    from ccltui.index.index_run import IndexRun, settled  # noqa: PLC0415  (numpy)
    from ccltui.parsers.job import require_one_recording  # noqa: PLC0415  (numpy)

    before: dict[str, tuple[int, int]] | None = None
    covered: dict[str, tuple[int, int]] = {}
    last: IndexRun | None = None
    while True:
        job = discover_job(loading)
        if loading.capture is None and loading.iteration is None:
            require_one_recording(job, loading.path)
        if not options.follow:
            _require_traces(job, loading.path)
            last = IndexRun(job, loading.path, loading.cache_dir, _open_options(loading))
            _run(last, engine, stopped)
            return last
        chosen, now = settled(job, before)
        here = {found.path: now[found.path] for found in chosen.capture.files}
        is_whole = job.capture.complete and job.capture.world_size is not None
        if here != covered:
            last = IndexRun(chosen, loading.path, loading.cache_dir, _open_options(loading))
            _run(last, engine, stopped)
            covered = here
        elif last is not None and here == now and is_whole:
            return last
        before = now
        _sleep(stopped)
        if stopped():
            return last


def _require_traces(job: Job, path: str) -> None:
    """Raise TraceError where there is nothing to read."""
    if job.capture.files:
        return
    from ccltui.parsers.found_files import found_instead  # noqa: PLC0415  (only errors need it)

    what = found_instead(job.discovery.files)
    raise TraceError(f"no trace that can be opened; found {what}", path=path)


def _open_options(loading: LoadOptions) -> OpenOptions:
    return convert(loading, OpenOptions, from_attributes=True)


def _run(run_: IndexRun, engine: Engine, stopped: Callable[[], bool]) -> None:
    """Run an engine over what is missing, with progress on a terminal."""
    from ccltui.report.progress import ComputingLine, ProgressLine, Silent  # noqa: PLC0415

    print_message(run_.what_is_there())
    watched = sys.stderr is not None and sys.stderr.isatty()
    meter = ProgressLine(sys.stderr, run_.sizes()) if watched else Silent()
    computing = ComputingLine(sys.stderr)
    try:
        for event in run_.run(engine, stopped):
            if isinstance(event, Computing):
                computing.show(event.what, event.done, event.total)
            elif isinstance(event, BytesRead):
                meter.update(event.path, event.done_bytes)
            elif isinstance(event, Message):
                meter.close()
                print_message(event.text)
            else:
                meter.finish(event.path)
    finally:
        meter.close()


def _print_failures(run_: IndexRun) -> None:
    from ccltui.report.text_layout import table, text_bytes  # noqa: PLC0415

    rows = run_.failure_rows()
    if rows:
        header = ("rank", "file", "attempts", "host", "reason")
        write_report(text_bytes(table(header, rows, align=("right", "left", "right"))), None)


def _sleep(stopped: Callable[[], bool]) -> None:
    until = time.monotonic() + _FOLLOW_S
    while time.monotonic() < until and not stopped():
        time.sleep(0.2)
