"""One index run: what is in the store, what an engine has to read, and what came of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from msgspec import structs

from ccltui.index.index_engine import Engine, EngineEvent, Work
from ccltui.index.index_file import stored_ranks
from ccltui.index.index_state import FileRecord, IndexState, OpenOptions, Plan, PlannedFile
from ccltui.index.saved_results import code_digest, reduce_job
from ccltui.index.slurm_jobs import announced
from ccltui.index.work_division import files_to_index, planned_files, tasks_of
from ccltui.parsers.found_files import FoundFile
from ccltui.parsers.job import Job
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.window import format_ranks

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
            f"{_count(len(self.plan.files), 'file')}: {self._num_before} done before, "
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
        parts = [f"{self.num_stored} of {_count(total, 'file')} in the store"]
        unread = [one for one in self.plan.files if one.key not in self._records]
        if unread:
            ranks = frozenset(one.rank for one in unread if one.rank is not None)
            which = f" (ranks {format_ranks(ranks)})" if ranks else ""
            parts.append(f"{_count(len(unread), 'file')} not read yet{which}")
        limit = Store(self._store).limit_bytes
        read = [one for one in self._records.values() if one.cpu_s]
        if read:
            parts.append(f"{sum(one.cpu_s for one in read):.1f} CPU-s on {_hosts(read)}")
        job = self.state.job()
        if job is not None and job.digest == self.plan.digest:
            parts.append(
                f"{job.ranks} ranks, {job.collectives:,} collectives matched in "
                f"{_count(job.groups, 'group')}"
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"


def _hosts(records: list[FileRecord]) -> str:
    return _count(len({one.host for one in records}), "host")
