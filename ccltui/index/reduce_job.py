"""The step after all files are read: match the collectives of all ranks and estimate clocks."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Final

import msgspec
from msgspec import structs

from ccltui.index.index_engine import Computing
from ccltui.index.index_state import FileRecord, IndexState, JobRecord, Plan, RankClock
from ccltui.index.saved_results import SavedResults, code_digest
from ccltui.metrics import registry
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.errors import internal_error
from ccltui.parsers.job import Job, LoadSettings, load_job, start_job
from ccltui.parsers.system.machine_limits import keep_all_freed, resident_memory, trim_heap

if TYPE_CHECKING:
    from ccltui.parsers.job import ProfileMode

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
    before = os.times()
    job = _stored_job(plan, known)
    view = View(job, ViewOptions(profile_mode=job.profile_mode))
    if view.facts.is_large:
        keep_all_freed()
    record = _reduced(view, plan, known, before.user + before.system)
    state.write_job(record)
    saved = None
    if not record.problem and len(known) == len(plan.files) and not record.failed:
        saved = SavedResults.of(view, plan.store_path())
    with contextlib.suppress(OSError, MemoryError):
        if saved is not None:
            yield from _save_results(saved, view)
        state.write_job(structs.replace(record, is_whole=True))


def _save_results(saved: SavedResults, view: View) -> Generator[Computing]:
    """Compute every metric of the whole job, and keep each result as soon as it is there."""
    chosen = [one for one in registry.metrics().values() if one.in_all and not one.origin]
    view.expect(one for metric in chosen for one in metric.sums)
    for number, metric in enumerate(chosen):
        if saved.load(metric.name) is None:
            yield Computing(metric.name, number, len(chosen))
            saved.write(metric.run(view))
        if (resident_memory() or 0) > _MOST_BYTES:
            view.release()
            trim_heap()
    saved.remove_others()


def _stored_job(plan: Plan, records: Sequence[FileRecord]) -> Job:
    """Return the job of the ranks that are in the store."""
    options = plan.open_options
    mode: ProfileMode = "auto"
    if options.get("profile_mode") in ("torch", "nsys"):
        mode = "torch" if options["profile_mode"] == "torch" else "nsys"
    rank_map = options.get("rank_map")
    from ccltui.parsers.discovery.discover import parse_rank_map  # noqa: PLC0415  (rarely needed)

    job = start_job(
        plan.directory(),
        rank_map=parse_rank_map(rank_map) if isinstance(rank_map, str) else None,
        iteration=_number(options.get("iteration")),
        capture=_text(options.get("capture")),
        profile_mode=mode,
        store=plan.store_path(),
    )
    stored = {record.path for record in records if record.error is None}
    files = tuple(found for found in job.capture.files if found.path in stored)
    capture = msgspec.structs.replace(job.capture, files=files)
    job = structs.replace(job, capture=capture)
    return load_job(job, LoadSettings(plan.store_path(), 1, inline=True))


def _reduced(view: View, plan: Plan, records: Sequence[FileRecord], cpu_before: float) -> JobRecord:
    job = view.job
    collectives = incomplete = mismatched = groups = 0
    clocks: tuple[RankClock, ...] = ()
    problem = ""
    try:
        facts = view.facts
        for match in facts.matches.groups:
            groups += 1
            collectives += int(match.complete.sum())
            incomplete += match.num_incomplete
            mismatched += match.num_mismatched
        hosts = {trace.label: trace.host for trace in job.ranks}
        clocks = tuple(
            RankClock(
                label,
                hosts[label],
                clock.offset_ns,
                clock.drift_ppb,
                clock.residual_p95_ns,
                clock.known,
            )
            for label, clock in facts.clocks.clocks.items()
        )
    except Exception as error:
        # The columns are in the store whatever becomes of the matching.
        problem = internal_error(error)
    after = os.times()
    return JobRecord(
        digest=plan.digest,
        ranks=len(job.ranks),
        world_size=job.world_size,
        events=sum(len(events) for trace in job.ranks for events in trace.events.values()),
        collectives=collectives,
        incomplete=incomplete,
        mismatched=mismatched,
        groups=groups,
        clocks=clocks,
        failed=sum(record.error is not None for record in records),
        cpu_s=after.user + after.system - cpu_before,
        problem=problem,
        sources=code_digest(),
    )


def _number(value: str | int | None) -> int | None:
    return value if isinstance(value, int) else None


def _text(value: str | int | None) -> str | None:
    return value if isinstance(value, str) else None
