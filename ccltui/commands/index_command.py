"""``ccltui index DIR``: read the ranks of a job into a store with one of the engines.

The engine that reads in processes of this machine is here; those of clusters are in `ccltui.index`.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from msgspec import convert, structs

from ccltui import arguments as args
from ccltui import exit_codes
from ccltui.commands.loading import LoadOptions, discover_job
from ccltui.index.index_file import stored_ranks
from ccltui.index.index_state import FileRecord, IndexState, OpenOptions, Plan, PlannedFile
from ccltui.index.saved_results import code_digest, reduce_job
from ccltui.index.slurm_jobs import announced, cancel_index, running_index
from ccltui.index.work_division import (
    BytesRead,
    Computing,
    Engine,
    EngineError,
    EngineEvent,
    EngineOptions,
    Message,
    Work,
    files_to_index,
    planned_files,
    tasks_of,
)
from ccltui.parsers.errors import GrammarError, TraceError
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.ingest.load import Failed, Loaded, Progress, Reading
from ccltui.parsers.job import Job, require_one_recording
from ccltui.parsers.machine_limits import workers_for
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.window import format_ranks
from ccltui.process import stoppable
from ccltui.report.output import print_message, write_report


class LocalEngine:
    """The worker processes that also load a job; one that is killed costs a second attempt."""

    name = "local"
    reduces = False

    def __init__(self, options: EngineOptions) -> None:
        self._options = options

    def run(self, work: Work, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Read the largest files first; see :class:`ccltui.index.work_division.Engine`."""
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


_LOOK_S: Final = 0.5  # at the mark of another command, which is a file


class IndexRun:
    """The files of a job with the state of each.

    Args:
        job: As discovered; nothing is loaded.
        path: Absolute path of its directory.
        store: Directory of the store, None for the user's.
        open_options: Options by which the same job is opened elsewhere.
    """

    def __init__(
        self,
        job: Job,
        path: str,
        store: Path | None,
        open_options: OpenOptions,
    ) -> None:
        directory = (default_cache_dir() if store is None else store).absolute()
        directory.mkdir(parents=True, exist_ok=True)
        files = files_to_index(job)
        planned, self._unreadable = planned_files(files, Store(directory))
        self._damaged = tuple((one.path, one.error) for one in job.failures)
        by_path = {one.path: one for one in files}
        self._found: tuple[FoundFile, ...] = tuple(by_path[one.path] for one in planned)
        self.plan = Plan(os.fsencode(path), bytes(directory), tuple(planned), (), open_options)
        self.state = IndexState.of(directory, path, job.capture.name)
        self._store = directory
        self._records: dict[str, FileRecord] = {}
        self._pending = self._look()
        self._num_before = len(planned) - len(self._pending)

    def _look(self) -> tuple[int, ...]:
        """Take what the store and earlier runs have; return what is left, by index.

        A file that was not read for lack of resources is tried again, a damaged one is not.
        """
        pending = []
        for number, planned in enumerate(self.plan.files):
            ranks = stored_ranks(self._store, planned.key)
            record = self.state.record(planned.key)
            if ranks is not None:
                if record is None or record.error is not None:
                    record = FileRecord(planned.key, planned.path, ranks, cached=True)
                self._records[planned.key] = record
            elif record is not None and record.error is not None and not record.is_lost:
                self._records[planned.key] = record
            else:
                self.state.forget(planned.key)
                pending.append(number)
        return tuple(pending)

    def what_is_there(self) -> str:
        """Return one line on what is stored and what is to be read."""
        size = sum(self.plan.files[number].size_bytes for number in self._pending)
        return (
            f"{_counted(len(self.plan.files), 'file')}: {self._num_before} done before, "
            f"{len(self._pending)} to read ({size / 1e6:,.1f} MB) into {self._store}"
        )

    def sizes(self) -> dict[str, int]:
        """Return the bytes of the files to read, by path."""
        return {
            self.plan.files[number].path: self.plan.files[number].size_bytes
            for number in self._pending
        }

    def run(self, engine: Engine, cancelled: Callable[[], bool]) -> Iterator[EngineEvent]:
        """Read what is missing on ``engine``, then match the ranks and compute their metrics.

        Raises:
            EngineError: The engine cannot start.
            OSError: The store or the state cannot be written.
        """
        job = self.state.job()
        done = None if job is None or not job.is_whole else (job.digest, job.sources)
        if not self._pending and done == (self.plan.digest, code_digest()):
            return
        plan = structs.replace(self.plan, tasks=tasks_of(self.plan.files, self._pending))
        self.state.prepare(plan)
        for record in self._records.values():
            self.state.write_record(record)
        self.state.forget_job()
        self.state.resume()
        ended = _OrFromElsewhere(cancelled, self.state)
        work = Work(self.state, plan, self._pending, self._found)
        with announced(self.state, engine.name):
            for event in engine.run(work, ended):
                if isinstance(event, FileRecord):
                    self._records[event.key] = event
                yield event
            if engine.reduces or ended():
                return
            for computing in reduce_job(self.state, plan):
                yield computing
                if ended():
                    return

    @property
    def is_cancelled(self) -> bool:
        """Whether the run was cancelled, here or by another command."""
        return self.state.is_cancelled

    @property
    def num_stored(self) -> int:
        """Number of files whose columns are in the store."""
        return sum(record.error is None for record in self._records.values())

    @property
    def has_lost(self) -> bool:
        """Whether a file was not read though nothing is known to be wrong with it."""
        missing = len(self._records) < len(self.plan.files)
        return (
            missing or any(one.is_lost for one in self._records.values()) or bool(self._unreadable)
        )

    def failure_rows(self) -> list[tuple[str, str, str, str, str]]:
        """Return rank, file, attempts, host and reason of each file without columns, by rank."""
        rows: list[tuple[float, tuple[str, str, str, str, str]]] = []
        for planned in self.plan.files:
            record = self._records.get(planned.key)
            if record is None or record.error is None:
                continue
            reason = _reason(record.error, planned.path)
            attempts, host = str(record.attempts), record.host
            rows.append(
                (_order(planned), (_rank(planned.rank), planned.path, attempts, host, reason))
            )
        others = [(_rank(found.rank), found.path, error) for found, error in self._unreadable]
        others += [("", path, error) for path, error in self._damaged]
        for rank, path, error in others:
            rows.append((float("inf"), (rank, path, "", "", _reason(error, path))))
        return [row for _, row in sorted(rows)]

    def summary(self) -> str:
        """Return one line on the store and, where it was matched, on the job."""
        total = len(self.plan.files) + len(self._unreadable) + len(self._damaged)
        parts = [f"{self.num_stored} of {_counted(total, 'file')} in the store"]
        unread = [one for one in self.plan.files if one.key not in self._records]
        if unread:
            ranks = frozenset(one.rank for one in unread if one.rank is not None)
            which = f" (ranks {format_ranks(ranks)})" if ranks else ""
            parts.append(f"{_counted(len(unread), 'file')} not read yet{which}")
        limit = Store(self._store).limit_bytes
        read = [one for one in self._records.values() if one.cpu_s]
        if read:
            parts.append(f"{sum(one.cpu_s for one in read):.1f} CPU-s on {_hosts(read)}")
        job = self.state.job()
        if job is not None and job.digest == self.plan.digest:
            parts.append(
                f"{job.ranks} ranks, {job.collectives:,} collectives matched in "
                f"{_counted(job.groups, 'group')}"
            )
            if job.problem:
                parts.append(job.problem)
            if not job.is_whole:
                parts.append("not every metric is computed: the same command goes on")
        used = self.stored_bytes()
        if used > limit:
            parts.append(
                f"the columns take {used / 2**30:.1f} GiB, more than the limit of the store "
                f"({limit / 2**30:.1f} GiB): raise --store-limit, or they are read again"
            )
        return "; ".join(parts)

    def stored_bytes(self) -> int:
        """Return the bytes that the columns of this job take in the store."""
        folders = [self._store / planned.key for planned in self.plan.files]
        total = 0
        for folder in folders:
            try:
                total += sum(file.stat().st_size for file in folder.iterdir())
            except OSError:
                continue
        return total


class _OrFromElsewhere:
    """Whether a run is cancelled, by its command or by another one through the state."""

    def __init__(self, cancelled: Callable[[], bool], state: IndexState) -> None:
        self._cancelled = cancelled
        self._state = state
        self._looked = time.monotonic()
        self._is_marked = False

    def __call__(self) -> bool:
        now = time.monotonic()
        if not self._is_marked and now - self._looked > _LOOK_S:
            self._looked = now
            self._is_marked = self._state.is_cancelled
        return self._is_marked or self._cancelled()


def settled(
    job: Job, before: Mapping[str, tuple[int, int]] | None
) -> tuple[Job, dict[str, tuple[int, int]]]:
    """Return the job with the files alone that did not change since the last look.

    Args:
        job: As discovered.
        before: Size and time of each file at the last look, None at the first.

    Returns:
        The job, and what the next call needs as ``before``.
    """
    now: dict[str, tuple[int, int]] = {}
    for found in job.capture.files:
        try:
            status = Path(found.real_path).stat()
        except OSError:
            continue
        now[found.path] = (status.st_size, status.st_mtime_ns)
    files = tuple(
        found
        for found in job.capture.files
        if before is not None and found.path in now and before.get(found.path) == now[found.path]
    )
    return structs.replace(job, capture=structs.replace(job.capture, files=files)), now


def _reason(error: str, path: str) -> str:
    return error.removeprefix(f"{path}: ")


def _rank(rank: int | None) -> str:
    return "" if rank is None else str(rank)


def _order(planned: PlannedFile) -> float:
    return float("inf") if planned.rank is None else planned.rank


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _hosts(records: list[FileRecord]) -> str:
    return _counted(len({one.host for one in records}), "host")
