"""Results of metrics of a whole job, made once all files are read and kept beside its index.

The step after all ranks are read computes them once, where there is memory and time for it. A
command that asks for the whole job prints them without reading an event. They are those of the
same files, of the same selection and of the same program, or they are not used.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shutil
from collections.abc import Generator, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import structs

from ccltui.index import STATE_FOLDER
from ccltui.index.index_state import FileRecord, IndexState, JobRecord, Plan
from ccltui.index.work_division import Computing
from ccltui.metrics import registry
from ccltui.metrics.metric import expect
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import TraceError, internal_error
from ccltui.parsers.ingest.load import entry_key
from ccltui.parsers.job import Job, LoadSettings, load_job, start_job
from ccltui.parsers.machine_limits import keep_all_freed, resident_memory, trim_heap
from ccltui.parsers.store.column_store import Store
from ccltui.parsers.store.store_entry import (
    checked,
    is_shared,
    read_plain,
    with_checksum,
    write_beside,
)

if TYPE_CHECKING:
    from ccltui.parsers.found_files import FoundFile


FOLDER: Final = "results"
_CODE_SUFFIXES: Final = (".py", ".so", ".pyd")


class SavedResults:
    """Results of one job in its store."""

    def __init__(self, store: Path, folder: Path) -> None:
        self._store = store
        self._folder = folder

    @classmethod
    def of(cls, view: View, store: Path) -> SavedResults | None:
        """Return the results of a view, None of a part of a job, or of one with unread files.

        There may be none yet. A card, logs and other files beside the traces count by size and
        time of their last change.
        """
        job = view.job
        if view.options != ViewOptions(profile_mode=job.profile_mode):
            return None
        if job.failures or job.unread_ranks or not job.ranks:
            return None
        if not job.read_paths.issuperset(found.path for found in job.capture.files):
            return None
        try:
            name = _name_of(job, Store(store))
        except (OSError, TraceError):
            return None
        state = IndexState.of(store, job.path, job.capture.name)
        return cls(store, state.directory / FOLDER / name)

    @classmethod
    def loaded(cls, view: View) -> dict[str, Result]:
        """Return all results of a view whose columns are mapped from a store, by metric."""
        place = view.job.ranks[0].place if view.job.ranks else None
        if place is None or place.kept is not None:
            return {}
        store = place.path.parent.parent
        if not (store / STATE_FOLDER).is_dir():
            return {}
        saved = cls.of(view, store)
        return {} if saved is None else saved.load_all()

    def load_all(self) -> dict[str, Result]:
        """Return every result that can be used, by metric."""
        try:
            names = sorted(os.listdir(self._folder))  # noqa: PTH208  (names alone)
        except OSError:
            return {}
        found = ((name, self.load(name)) for name in names)
        return {name: result for name, result in found if result is not None}

    def load(self, metric: str) -> Result | None:
        """Return the result of a metric, None where there is none that can be used."""
        try:
            text, status = read_plain(self._folder / metric)
            if status.st_uid not in (0, os.geteuid()) and not is_shared(self._store):
                return None
            result = msgspec.json.decode(checked(text), type=Result)
        except (OSError, ValueError, RecursionError):
            return None
        return structs.replace(
            result, reasons=tuple(result.reasons), warnings=tuple(result.warnings)
        )

    def write(self, result: Result) -> bool:
        """Keep a result; return False for one that JSON does not keep exactly. Raises OSError."""
        if result.reason == "internal_error":
            return False
        try:
            text = msgspec.json.encode(result, enc_hook=_number)
            known = msgspec.to_builtins(result, enc_hook=_number)
            if msgspec.json.decode(text) != _with_lists(known):
                return False
        except (TypeError, ValueError):
            return False
        self._folder.parent.mkdir(parents=True, exist_ok=True)
        write_beside(self._store, self._folder / result.metric, with_checksum(text))
        return True

    def remove_others(self) -> None:
        """Remove results of other states of the files, and of other versions of the program."""
        with contextlib.suppress(OSError):
            for folder in list(self._folder.parent.iterdir()):
                if folder != self._folder:
                    shutil.rmtree(folder, ignore_errors=True)


def _number(value: object) -> object:
    """Return a number of numpy as one of Python, for the encoder. Raises TypeError for others."""
    import numpy as np  # noqa: PLC0415  (as in _name_of)

    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(type(value).__name__)


def _with_lists(value: Any) -> Any:
    """Return a value with lists in place of tuples, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _with_lists(one) for key, one in value.items()}
    return [_with_lists(one) for one in value] if isinstance(value, list | tuple) else value


def _name_of(job: Job, store: Store) -> str:
    """Name of all that results of a whole job follow from. Raises OSError and TraceError."""
    import numpy as np  # noqa: PLC0415  (its sums differ between versions)

    digest = hashlib.blake2b(digest_size=16)
    traces = {found.path for found in job.capture.files}
    digest.update(repr((code_digest(), np.__version__, job.profile_mode)).encode())
    digest.update(msgspec.json.encode([job.capture.name, job.capture.complete, job.card_problem]))
    for found in job.capture.files:
        digest.update(entry_key(store, found).encode())
    for trace in job.ranks:
        named = (trace.label, trace.rank, trace.rank_source, trace.source.path, trace.source.part)
        digest.update(repr(named).encode())
    for found in job.discovery.files:
        seen = None if found.path in traces else _seen(found)
        digest.update(repr((*_stated(found), seen)).encode())
    return digest.hexdigest()


def _stated(found: FoundFile) -> tuple[Any, ...]:
    """What discovery found out about a file, without where it lies."""
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    companion = found.companion
    facts["companion"] = None if companion is None else companion.path
    del facts["real_path"]
    return tuple(facts.values())


def _seen(found: FoundFile) -> tuple[int, int]:
    status = os.stat(found.real_path)  # noqa: PTH116  (paths need not be text)
    return status.st_size, status.st_mtime_ns


@lru_cache(maxsize=1)
def code_digest() -> str:
    """Digest of size and time of every source of the readers and the metrics."""
    from ccltui import metrics, parsers  # noqa: PLC0415

    digest = hashlib.blake2b(digest_size=16)
    for package in (parsers, metrics):
        for root in package.__path__:
            for line in sorted(_sources(os.path.realpath(root), "")):
                digest.update(line.encode())
    return digest.hexdigest()


def _sources(directory: str, below: str) -> Iterator[str]:
    with os.scandir(directory) as entries:
        for entry in entries:
            name = f"{below}/{entry.name}"
            if entry.is_dir(follow_symlinks=False):
                yield from _sources(entry.path, name)
            elif entry.name.endswith(_CODE_SUFFIXES):
                status = entry.stat()
                yield repr((name, status.st_size, status.st_mtime_ns))


_MOST_BYTES: Final = 1 << 30
"""Memory above which what can be computed again is freed after each metric."""


def missing_keys(state: IndexState, plan: Plan) -> list[int]:
    """Return the indices of the files of a plan that have no record yet."""
    known = state.recorded_keys()
    return [number for number, one in enumerate(plan.files) if one.key not in known]


def reduce_job(state: IndexState, plan: Plan) -> Generator[Computing]:
    """Match the ranks in the store, write the record of the job, then keep every metric of it.

    Files without columns are left out, not read again. The record is written before the metrics:
    where there is no memory or no time for one, the job is indexed all the same, and the next run
    goes on with that metric.

    Yields:
        The metric that is computed next. What is there stays where the caller stops then.

    Raises:
        OSError: The record cannot be written.
        TraceError: The directory cannot be listed any more.
    """
    records = [state.record(one.key) for one in plan.files]
    known = [record for record in records if record is not None]
    job = _stored_job(plan, known)
    view = View(job, ViewOptions(profile_mode=job.profile_mode))
    if view.facts.is_large:
        keep_all_freed()
    record = _reduced(view, plan)
    state.write_job(record)
    saved = None
    if not record.problem and all(one is not None and one.error is None for one in records):
        saved = SavedResults.of(view, plan.store_path())
    with contextlib.suppress(OSError, MemoryError):
        if saved is not None:
            yield from _save_results(saved, view)
        state.write_job(structs.replace(record, is_whole=True))


def _save_results(saved: SavedResults, view: View) -> Generator[Computing]:
    """Compute every metric of the whole job, and keep each result as soon as it is there."""
    chosen = [one for one in registry.metrics().values() if one.in_all and not one.origin]
    missing = [one for one in chosen if saved.load(one.name) is None]
    for number, metric in enumerate(missing):
        expect(view, missing[number:])
        yield Computing(metric.name, len(chosen) - len(missing) + number, len(chosen))
        saved.write(metric.run(view))
        if (resident_memory() or 0) > _MOST_BYTES:
            view.release()
            trim_heap()
    saved.remove_others()


def _stored_job(plan: Plan, records: Sequence[FileRecord]) -> Job:
    """Return the job of the ranks that are in the store."""
    from ccltui.parsers.discovery.discover import parse_rank_map  # noqa: PLC0415  (rarely needed)

    options = plan.open_options
    job = start_job(
        plan.directory(),
        rank_map=None if options.rank_map is None else parse_rank_map(options.rank_map),
        iteration=options.iteration,
        capture=options.capture,
        profile_mode=options.profile_mode,
        store=plan.store_path(),
    )
    stored = {record.path for record in records if record.error is None}
    files = tuple(found for found in job.capture.files if found.path in stored)
    job = structs.replace(job, capture=structs.replace(job.capture, files=files))
    return load_job(job, LoadSettings(plan.store_path(), 1, inline=True))


def _reduced(view: View, plan: Plan) -> JobRecord:
    collectives, groups, problem = 0, 0, ""
    try:
        for match in view.facts.matches.groups:
            groups += 1
            collectives += int(match.complete.sum())
    except Exception as error:
        # The columns are in the store whatever becomes of the matching.
        problem = internal_error(error)
    return JobRecord(
        digest=plan.digest,
        ranks=len(view.job.ranks),
        collectives=collectives,
        groups=groups,
        problem=problem,
        sources=code_digest(),
    )
