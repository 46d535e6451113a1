"""A job: the ranks of one capture, its card and the files of its run; how to open one."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Literal, Protocol

import msgspec

from ccltui.parsers.columns import Note, RankTrace
from ccltui.parsers.discovery.card_search import card_file
from ccltui.parsers.discovery.discover import Capture, Discovery, discover
from ccltui.parsers.discovery.run_settings import RunSource, run_sources
from ccltui.parsers.errors import NotFoundError, TraceError, contained
from ccltui.parsers.format import Source
from ccltui.parsers.found_files import NO_RANK
from ccltui.parsers.ingest.damaged_traces import damaged_traces
from ccltui.parsers.ingest.load import Failed, Loaded, LoadEvent, Previewed, load, not_cancelled
from ccltui.parsers.job_ranks import (
    identified,
    labelled,
    ordered_ranks,
    place_of,
    with_new_rank,
    without_side_files,
)
from ccltui.parsers.merged_files import MergedRanks, is_merged, place_in, without_columns
from ccltui.parsers.missing_ranks import MissingRanks
from ccltui.parsers.names import listed, printable
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.system.quick_dataclass import dataclass

if TYPE_CHECKING:
    from ccltui.parsers.card.workload_card import Card
    from ccltui.parsers.ingest.worker_pool import WorkerPool

ProfileMode = Literal["auto", "torch", "nsys"]


@dataclass(frozen=True, slots=True)
class Job:
    """Ranks in order of (rank, path) with unique labels, the card, and files that failed.

    ``run_sources`` are the files near the traces that state how the job was configured.
    """

    path: str
    discovery: Discovery
    capture: Capture
    ranks: tuple[RankTrace, ...] = ()
    failures: tuple[Failed, ...] = ()
    card: Card | None = None
    card_problem: str | None = None
    profile_mode: ProfileMode = "auto"  # as requested; that used is the capture's source
    run_sources: tuple[RunSource, ...] = ()
    unread_ranks: tuple[int, ...] = ()  # have a file, which a sample of ranks leaves out
    merged: MergedRanks = field(default_factory=MergedRanks)
    side: tuple[RankTrace, ...] = ()  # of processes that coordinate the ranks: no rank themselves

    @property
    def world_size(self) -> int | None:
        """Largest world size that a trace states, None when none does."""
        sizes = [trace.world_size for trace in self.ranks if trace.world_size is not None]
        return max(sizes, default=None)

    @property
    def missing_ranks(self) -> MissingRanks:
        """Ranks of the world, and ranks with a file, that no loaded trace claims.

        Where the world is unknown only those that a sample of ranks leaves out.
        """
        present = {trace.rank for trace in self.ranks}
        return MissingRanks(self.world_size or 0, present, self.unread_ranks)

    @property
    def read_paths(self) -> frozenset[str]:
        """Files that were read to their end; those whose ranks are left out are among them."""
        read = (*self.ranks, *self.merged.traces, *self.side)
        return frozenset(trace.source.path for trace in read if trace.read_share == 1)

    def ranks_in(self, path: str) -> tuple[int, ...] | None:
        """Return the ranks taken from a file that holds several, None for other files."""
        if not any(trace.source.path == path for trace in self.merged.traces):
            return None
        found = {trace.rank for trace in self.ranks if trace.source.path == path}
        return tuple(sorted(rank for rank in found if rank is not None))

    @property
    def conflicting_ranks(self) -> tuple[int, ...]:
        """Ranks that more than one file claims."""
        claims = Counter(trace.rank for trace in self.ranks if trace.rank is not None)
        return tuple(sorted(rank for rank, count in claims.items() if count > 1))

    @property
    def origin_ns(self) -> int:
        """Zero of the job's time: start of the earliest event of any rank, 0 without events."""
        starts = [trace.first_ns for trace in self.ranks]
        return min((start for start in starts if start is not None), default=0)

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes on the directory, the capture and the set of ranks.

        Discovery guesses conflicts of ranks from names; what loaded files state replaces that.
        """
        found = (*self.discovery.notes, *self.capture.notes)
        if self.ranks:
            found = tuple(note for note in found if note.code != "rank_conflict")
        if self.merged.traces or (self.side and all(t.rank is not None for t in self.ranks)):
            found = tuple(note for note in found if note.code != "rank_unknown")
        left_out = [*self.merged.notes(), *self._side_notes()]
        return (*found, *self._source_notes(), *self._conflict_notes(), *left_out)

    def without_ranks(self) -> Job:
        """Return this job without columns of any rank, to be sent to another process."""
        side = tuple(without_columns(trace) for trace in self.side)
        merged = self.merged.without_columns()
        return dataclasses.replace(self, ranks=(), merged=merged, side=side)

    def _side_notes(self) -> list[Note]:
        if not self.side:
            return []
        paths = listed([trace.source.path for trace in self.side], 4)
        verb = "is" if len(self.side) == 1 else "are"
        message = f"{paths} {verb} {NO_RANK}"
        return [Note("side_file", message, count=len(self.side))]

    def is_side(self, path: str) -> bool:
        """Whether a file is of a process that is no rank."""
        return any(trace.source.path == path for trace in self.side)

    def _source_notes(self) -> tuple[Note, ...]:
        """Return a note on which profiler is used, where two recorded."""
        if len({capture.source for capture in self.discovery.captures}) < 2:
            return ()
        answers, other = ("the Kineto traces answer", "nsys")
        if self.capture.source == "nsys":
            answers, other = ("the files of nsys answer", "torch")
        message = (
            f"Kineto traces and files of nsys: {answers}; for the others --profile-mode {other}"
        )
        return (Note("two_profilers", message),)

    def _conflict_notes(self) -> tuple[Note, ...]:
        notes = []
        for rank in self.conflicting_ranks:
            files = ", ".join(place_of(t.source) for t in self.ranks if t.rank == rank)
            message = f"rank {rank} is claimed by {files}: neither takes part in matching"
            notes.append(Note(code="rank_conflict", message=message))
        return tuple(notes)

    def with_rank(self, trace: RankTrace) -> Job:
        """Return this job with one more loaded trace; ranks are ordered and labelled anew."""
        named = identified(trace, self.capture)
        if self.merged.traces or is_merged(named):
            return self._with_merged(named)
        inserted = with_new_rank(self.ranks, named)
        if inserted is not None and inserted[-1].rank is not None:
            return dataclasses.replace(self, ranks=inserted)
        every = [one for one in (*self.ranks, *self.side) if place_in(one) != place_in(named)]
        ranks, side = without_side_files([*every, named])
        return dataclasses.replace(self, ranks=ordered_ranks(ranks), side=side)

    def _with_merged(self, named: RankTrace) -> Job:
        """Return this job with one more trace, where a file holds several ranks."""
        new = place_in(named)
        wholes = [one for one in self.ranks if not is_merged(one) and place_in(one) != new]
        wholes += [] if is_merged(named) else [named]
        merged, kept = self.merged.taken_in(wholes, named)
        return dataclasses.replace(self, ranks=ordered_ranks((*wholes, *kept)), merged=merged)

    def with_failure(self, failure: Failed) -> Job:
        """Return this job with one more failed file; its preview is removed."""
        left = tuple(t for t in self.ranks if t.read_share == 1 or t.source.path != failure.path)
        ranks = self.ranks if len(left) == len(self.ranks) else labelled(left)
        return dataclasses.replace(self, ranks=ranks, failures=(*self.failures, failure))

    def with_event(self, event: LoadEvent) -> Job:
        """Return this job after one event of :func:`ccltui.parsers.ingest.load.load`."""
        if isinstance(event, Loaded | Previewed):
            return self.with_rank(event.trace)
        if isinstance(event, Failed):
            return self.with_failure(event)
        return self


def start_job(
    path: str | Path,
    *,
    rank_map: Mapping[str, int] | None = None,
    iteration: int | None = None,
    capture: str | None = None,
    profile_mode: ProfileMode = "auto",
    store: Path | None = None,
) -> Job:
    """Find the files of a directory (or one file), choose the capture and read the card.

    No rank is loaded. ``profile_mode`` selects whose files: torch (Kineto), nsys, or Kineto's
    where there are any. ``store`` keeps what is found out about files until they change; None:
    nothing is kept. Raises :class:`NotFoundError` where the path or the capture does not exist.
    """
    discovery = discover(path, rank_map=rank_map, store=store)
    chosen = _chosen(discovery, iteration, capture, _SOURCES[profile_mode])
    card, problem = None, None
    try:
        found = card_file(discovery, chosen)
        if found is not None:
            from ccltui.parsers.card.workload_card import read_card  # noqa: PLC0415  (imports yaml)

            with contained(found.path):
                card = read_card(Path(found.real_path), shown_path=found.path)
    except TraceError as error:
        problem = str(error)
    return Job(
        str(path),
        discovery,
        chosen,
        failures=damaged_traces(discovery, chosen),
        card=card,
        card_problem=problem,
        profile_mode=profile_mode,
        run_sources=run_sources(discovery, chosen),
    )


def require_one_recording(job: Job, path: str | Path) -> None:
    """Raise TraceError where the opened capture is one of several unrelated recordings."""
    if not job.capture.is_unrelated:
        return
    names = [one.name for one in job.discovery.captures if one.is_unrelated]
    raise TraceError(
        f"{printable(str(path))} holds {len(names)} recordings that are not ranks of one job, by "
        f"their times, world sizes and ranks; choose one with --capture NAME: {listed(names, 20)}"
    )


def has_device_work(job: Job) -> bool:
    """Whether any loaded rank recorded work of a device."""
    return any(len(trace.group("gpu")) for trace in job.ranks)


def fallback_of(job: Job) -> Job | None:
    """Return the job of nsys files next to Kineto traces without device work, else None.

    Two profilers cannot record the device at once: the one that started second has only the
    host. Nothing of the fallback is loaded yet.
    """
    if job.profile_mode != "auto" or job.capture.source != "torch" or has_device_work(job):
        return None
    if not any(capture.source == "nsys" for capture in job.discovery.captures):
        return None
    chosen = job.discovery.choose(source="nsys")
    failures = damaged_traces(job.discovery, chosen)
    return dataclasses.replace(job, capture=chosen, ranks=(), failures=failures)


class LoadObserver(Protocol):
    """Follows the loading of a job, and of its fallback after it."""

    def started(self, job: Job) -> object:
        """Begin a capture; nothing of it is loaded yet."""

    def happened(self, job: Job, event: LoadEvent) -> object:
        """Take one event; ``job`` is the job after it."""


@dataclass(frozen=True, slots=True)
class LoadSettings:
    """Load settings; the fields are arguments of :func:`ccltui.parsers.ingest.load.load`."""

    cache_dir: Path | None = None
    jobs: int | None = None
    inline: bool = False
    previews: bool = False
    for_other_processes: bool = True


def load_job(
    job: Job,
    settings: LoadSettings,
    *,
    observer: LoadObserver | None = None,
    cancelled: Callable[[], bool] = not_cancelled,
    pool: WorkerPool | None = None,
) -> Job:
    """Load every rank of a job, and its fallback where no rank has device work.

    Args:
        job: As :func:`start_job` returns it.
        settings: Cache, worker processes and previews; the fallback has no previews.
        observer: Called for each capture and event.
        cancelled: Ends the loading where it returns true; what was loaded stays.
        pool: Worker processes that run already, for the first capture; closed in the end.

    Returns:
        The loaded fallback where it has device work, else ``job`` with its ranks.
    """
    loaded = _load(job, settings, observer, cancelled, pool)
    fallback = None if cancelled() else fallback_of(loaded)
    if fallback is None:
        return loaded
    second = dataclasses.replace(settings, previews=False)
    other = _load(fallback, second, observer, cancelled, None)
    return other if has_device_work(other) else loaded


def _load(
    job: Job,
    settings: LoadSettings,
    observer: LoadObserver | None,
    cancelled: Callable[[], bool],
    pool: WorkerPool | None,
) -> Job:
    if observer is not None:
        observer.started(job)
    for event in load(
        job.capture,
        cache_dir=settings.cache_dir,
        jobs=settings.jobs,
        inline=settings.inline,
        cancelled=cancelled,
        pool=pool,
        previews=settings.previews,
        for_other_processes=settings.for_other_processes,
    ):
        job = job.with_event(event)
        if observer is not None:
            observer.happened(job, event)
    return job


def open_job(
    path: str | Path,
    *,
    rank_map: Mapping[str, int] | None = None,
    iteration: int | None = None,
    capture: str | None = None,
    cache_dir: Path | None = None,
    profile_mode: ProfileMode = "auto",
    jobs: int | None = None,
    on_event: Callable[[LoadEvent], None] | None = None,
    cancelled: Callable[[], bool] = not_cancelled,
) -> Job:
    """Find the files of a directory (or one file) and load every rank.

    Small captures are read in this process. Where Kineto traces hold no device work and nsys
    recorded some, the files of nsys are the job.

    Args:
        path: A directory, or one file.
        rank_map: Ranks of files by path or name, where no file states them.
        iteration: The capture ``iteration_N``; None for the last complete one.
        capture: Name of the capture, or the unambiguous end of it.
        cache_dir: Where columns are stored; None for the user's cache directory.
        profile_mode: Whose files: torch (Kineto), nsys, or Kineto's where there are any.
        jobs: Worker processes; None for one a CPU allowed, at most 8.
        on_event: Called with each event of the loading.
        cancelled: Ends the loading where it returns true.

    Returns:
        The job. Files that give nothing are in ``failures``; the rest is in ``ranks``, also when
        the loading was cancelled.

    Raises:
        NotFoundError: The path or the capture does not exist.
    """
    job = start_job(
        path,
        rank_map=rank_map,
        iteration=iteration,
        capture=capture,
        profile_mode=profile_mode,
        store=default_cache_dir() if cache_dir is None else cache_dir,
    )
    settings = LoadSettings(cache_dir, jobs, inline=True, for_other_processes=False)
    observer = None if on_event is None else _EventObserver(on_event)
    return load_job(job, settings, observer=observer, cancelled=cancelled)


@dataclass(frozen=True, slots=True)
class _EventObserver:
    on_event: Callable[[LoadEvent], None]

    def started(self, job: Job) -> None:
        pass

    def happened(self, job: Job, event: LoadEvent) -> None:
        self.on_event(event)


_SOURCES: Mapping[ProfileMode, Source | None] = {"auto": None, "torch": "torch", "nsys": "nsys"}


def _chosen(
    discovery: Discovery, iteration: int | None, capture: str | None, source: Source | None
) -> Capture:
    none_fits = not any(source in (None, found.source) for found in discovery.captures)
    if none_fits and iteration is None and capture is None:
        empty = Capture("", None, (), (), None, complete=False)
        return msgspec.structs.replace(empty, source=source or "torch")
    return discovery.choose(iteration=iteration, capture=capture, source=source)


__all__ = [
    "Job",
    "LoadObserver",
    "LoadSettings",
    "NotFoundError",
    "fallback_of",
    "has_device_work",
    "load_job",
    "open_job",
    "require_one_recording",
    "start_job",
]
