"""A job: the ranks of one capture with everything known beside them. The one door in."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

import msgspec

from ccltui.parsers.card.workload_card import Card, card_file, read_card
from ccltui.parsers.columns import Note, RankSource, RankTrace, SourceFile, later
from ccltui.parsers.discovery.discover import Capture, Discovery, discover
from ccltui.parsers.errors import NotFoundError, TraceError, contained
from ccltui.parsers.format import Source
from ccltui.parsers.ingest.damaged_traces import damaged_traces
from ccltui.parsers.ingest.load import Failed, Glimpsed, Loaded, LoadEvent, load, never
from ccltui.parsers.runs.run_settings import RunSource, run_sources

ProfileMode = Literal["auto", "torch", "nsys"]


@dataclass(frozen=True, slots=True)
class Job:
    """Ranks in order of (rank, path) with unique labels, the card, and what went wrong.

    ``run_sources`` are the files beside the traces that state how the job was configured.
    """

    path: str
    discovery: Discovery
    capture: Capture
    ranks: tuple[RankTrace, ...] = ()
    failures: tuple[Failed, ...] = ()
    card: Card | None = None
    card_problem: str | None = None
    profile_mode: ProfileMode = "auto"  # as asked for; the capture's source is what answers
    run_sources: tuple[RunSource, ...] = ()

    @property
    def world_size(self) -> int | None:
        """Largest world size that a trace states, None when none does."""
        sizes = [trace.world_size for trace in self.ranks if trace.world_size is not None]
        return max(sizes, default=None)

    @property
    def missing_ranks(self) -> tuple[int, ...]:
        """Ranks of the world that no loaded trace claims; empty where the world is unknown."""
        present = {trace.rank for trace in self.ranks}
        return tuple(rank for rank in range(self.world_size or 0) if rank not in present)

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
        """What the directory, the capture and the set of ranks have to say.

        Discovery guesses at conflicts from names; the files' own word replaces that.
        """
        found = (*self.discovery.notes, *self.capture.notes)
        if self.ranks:
            found = tuple(note for note in found if note.code != "rank_conflict")
        return (*found, *self._source_notes(), *self._conflict_notes())

    def _source_notes(self) -> tuple[Note, ...]:
        """Where two profilers recorded: which one answers."""
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
            files = ", ".join(_place(t.source) for t in self.ranks if t.rank == rank)
            message = f"rank {rank} is claimed by {files}: neither takes part in matching"
            notes.append(Note(code="rank_conflict", message=message))
        return tuple(notes)

    def with_rank(self, trace: RankTrace) -> Job:
        """This job with one more loaded trace; ranks are ordered and labelled anew."""
        identified = _identified(trace, self.capture)
        place = (trace.source.path, trace.source.part)
        others = tuple(t for t in self.ranks if (t.source.path, t.source.part) != place)
        every = _guessed(_rebased((*others, identified)))
        return dataclasses.replace(self, ranks=_labelled(every))

    def with_failure(self, failure: Failed) -> Job:
        """This job with one more file that gave nothing, whatever its beginning promised."""
        left = tuple(t for t in self.ranks if t.read_share == 1 or t.source.path != failure.path)
        ranks = self.ranks if len(left) == len(self.ranks) else _labelled(left)
        return dataclasses.replace(self, ranks=ranks, failures=(*self.failures, failure))

    def with_event(self, event: LoadEvent) -> Job:
        """This job after one event of :func:`ccltui.parsers.ingest.load.load`."""
        if isinstance(event, Loaded | Glimpsed):
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
) -> Job:
    """Look at a directory (or one file): what there is, which capture, the card. No rank yet.

    ``profile_mode`` says whose files: torch (Kineto), nsys, or Kineto's where there are any.
    Raises :class:`NotFoundError` where the path or the capture does not exist.
    """
    discovery = discover(path, rank_map=rank_map)
    chosen = _chosen(discovery, iteration, capture, _SOURCES[profile_mode])
    card, problem = None, None
    try:
        found = card_file(discovery, chosen)
        if found is not None:
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


def has_device_work(job: Job) -> bool:
    """Whether any loaded rank recorded work of a device."""
    return any(len(trace.group("gpu")) for trace in job.ranks)


def fallback_of(job: Job) -> Job | None:
    """The job of the nsys files beside Kineto traces without device work, None elsewhere.

    Two profilers cannot record the device at once: whichever came second has only the host.
    Nothing of it is loaded yet.
    """
    if job.profile_mode != "auto" or job.capture.source != "torch" or has_device_work(job):
        return None
    if not any(capture.source == "nsys" for capture in job.discovery.captures):
        return None
    chosen = job.discovery.choose(source="nsys")
    failures = damaged_traces(job.discovery, chosen)
    return dataclasses.replace(job, capture=chosen, ranks=(), failures=failures)


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
    cancelled: Callable[[], bool] = never,
) -> Job:
    """:func:`start_job`, then load every rank; small captures are read in this process.

    Files that give nothing are in ``failures``; the rest is kept, also when cancelled. Where
    Kineto traces hold no device work and nsys recorded some, its files are the job.
    """

    def loaded(job: Job) -> Job:
        events = load(
            job.capture,
            cache_dir=cache_dir,
            jobs=jobs,
            inline=True,
            cancelled=cancelled,
            for_others=False,
        )
        for event in events:
            job = job.with_event(event)
            if on_event is not None:
                on_event(event)
        return job

    job = loaded(
        start_job(
            path,
            rank_map=rank_map,
            iteration=iteration,
            capture=capture,
            profile_mode=profile_mode,
        )
    )
    fallback = None if cancelled() else fallback_of(job)
    if fallback is None:
        return job
    other = loaded(fallback)
    return other if has_device_work(other) else job


_SOURCES: Mapping[ProfileMode, Source | None] = {"auto": None, "torch": "torch", "nsys": "nsys"}


def _chosen(
    discovery: Discovery, iteration: int | None, capture: str | None, source: Source | None
) -> Capture:
    none_fits = not any(source in (None, found.source) for found in discovery.captures)
    if none_fits and iteration is None and capture is None:
        empty = Capture("", None, (), (), None, complete=False)
        return msgspec.structs.replace(empty, source=source or "torch")
    return discovery.choose(iteration=iteration, capture=capture, source=source)


def _identified(trace: RankTrace, capture: Capture) -> RankTrace:
    """The file's own word on its rank first, then what discovery was told or read from names.

    Neither can tell the ranks of one file apart.
    """
    if trace.rank is not None or trace.source.parts > 1:
        return trace
    for found in capture.files:
        if found.path == trace.source.path and found.rank is not None:
            source = found.rank_source
            return dataclasses.replace(trace, rank=found.rank, rank_source=source)
    return trace


def _guessed(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Number the devices of a file of nsys where it is all there is and names no rank.

    A guess, so that collectives can be matched; it is taken back when another file comes.
    """
    alone = len({trace.source.path for trace in traces}) == 1 and len(traces) > 1
    unknown = all(t.rank is None or t.rank_source == _GUESS for t in traces)
    guessed = []
    for trace in traces:
        rank = trace.source.part if alone and unknown else None
        if trace.rank is None or trace.rank_source == _GUESS:
            source: RankSource = "none" if rank is None else _GUESS
            guessed.append(dataclasses.replace(trace, rank=rank, rank_source=source))
        else:
            guessed.append(trace)
    return tuple(guessed)


_GUESS: Final = "order of devices"


def _rebased(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Give a truncated file that lost its base time that of the others, and say so.

    Some releases write ``baseTimeNanoseconds`` behind the events, and all ranks of a job
    write the same one.
    """
    bases = {trace.base_ns for trace in traces if trace.base_ns}
    if len(bases) != 1:
        return traces
    base_ns = bases.pop()
    return tuple(_with_base(t, base_ns) if _lost_its_base(t) else t for t in traces)


def _lost_its_base(trace: RankTrace) -> bool:
    first = trace.first_ns
    cut = trace.truncated or trace.read_share < 1
    return cut and not trace.base_ns and first is not None and first < _EPOCH_TIMES_NS


_EPOCH_TIMES_NS = 10**18
"""Times above this (2001) are since the epoch: such a file never had a base."""


def _with_base(trace: RankTrace, base_ns: int) -> RankTrace:
    events = later(trace.events, base_ns)
    message = "the base time was cut off: that of the other ranks is taken"
    notes = (*trace.notes, Note(code="assumed_base", message=message))
    added_ns = trace.added_ns + base_ns
    return dataclasses.replace(
        trace, events=events, base_ns=base_ns, notes=notes, added_ns=added_ns
    )


def _labelled(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Sorted by (rank, path, part); those without a rank come last under their file's name."""
    ordered = sorted(
        traces, key=lambda t: (t.rank is None, t.rank or 0, t.source.path, t.source.part)
    )
    claims = Counter(t.rank for t in ordered)
    labelled = []
    for trace in ordered:
        if trace.rank is None:
            label = _place(trace.source)
        elif claims[trace.rank] > 1:
            label = f"{trace.rank} ({_place(trace.source)})"
        else:
            label = str(trace.rank)
        labelled.append(trace if trace.label == label else dataclasses.replace(trace, label=label))
    return tuple(labelled)


def _place(source: SourceFile) -> str:
    return f"{source.path} {source.part_name}" if source.part_name else source.path


__all__ = ["Job", "NotFoundError", "fallback_of", "has_device_work", "open_job", "start_job"]
