"""The step after all files are read: match the collectives of all ranks, and keep the metrics."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from typing import Final

from msgspec import structs

from ccltui.index.index_engine import Computing
from ccltui.index.index_state import FileRecord, IndexState, JobRecord, Plan
from ccltui.index.saved_results import SavedResults, code_digest
from ccltui.metrics import registry
from ccltui.metrics.metric import expect
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import internal_error
from ccltui.parsers.job import Job, LoadSettings, load_job, start_job
from ccltui.parsers.system.machine_limits import keep_all_freed, resident_memory, trim_heap

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
