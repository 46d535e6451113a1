"""A job: the ranks of one capture, its card and the files of its run; how to open one.

Ranks are ordered and labelled here, and ranks and base times that files lack are filled in.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol, TypedDict, Unpack

import msgspec
import numpy as np
from msgspec import Struct, field, structs

from ccltui.parsers.columns import Note, RankSource, RankTrace, SourceFile, in_replica, later
from ccltui.parsers.discovery.discover import discover
from ccltui.parsers.discovery.run_settings import RunSource, run_sources
from ccltui.parsers.errors import CardError, NotFoundError, TraceError, contained
from ccltui.parsers.format import EPOCH_TIMES_NS, UNKNOWN, Source
from ccltui.parsers.found_files import NO_RANK, Capture, Discovery, FoundFile
from ccltui.parsers.ingest.load import Failed, Loaded, LoadEvent, Previewed, load, not_cancelled
from ccltui.parsers.merged_files import MergedRanks, is_merged, place_in, without_columns
from ccltui.parsers.safe_text import listed, natural_key, printable
from ccltui.parsers.side import WORKLOAD_CARD
from ccltui.parsers.store.cache_place import default_cache_dir
from ccltui.parsers.text.compression import read_head
from ccltui.parsers.window import MissingRanks

if TYPE_CHECKING:
    from ccltui.parsers.discovery.walk import Walk
    from ccltui.parsers.ingest.worker_pool import WorkerPool
    from ccltui.parsers.side.workload_card import Card


def ordered_ranks(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Return the ranks of a job in order, with what one file can take from the others."""
    return labelled(_guessed(_rebased(traces)))


def with_new_rank(ranks: tuple[RankTrace, ...], trace: RankTrace) -> tuple[RankTrace, ...] | None:
    """Return ordered ranks with one of a new number, or None where that changes other ranks.

    `ordered_ranks` looks at every rank: a job of a thousand ranks that grows by one rank at a time
    would do so half a million times.
    """
    if trace.rank is None or not ranks or trace.truncated or trace.read_share < 1:
        return None
    last = ranks[-1]  # ranks without a number come last, and guesses are made for all or none
    if (
        last.rank is None
        or last.rank_source in (_GUESS, _PROCESSES)
        or last.base_ns != trace.base_ns
    ):
        return None
    at = bisect_left(ranks, trace.rank, key=_rank_number)
    if at < len(ranks) and ranks[at].rank == trace.rank:
        return None
    label = str(trace.rank)
    named = trace if trace.label == label else structs.replace(trace, label=label)
    return (*ranks[:at], named, *ranks[at:])


def _rank_number(trace: RankTrace) -> int:
    return -1 if trace.rank is None else trace.rank


def identified(trace: RankTrace, capture: Capture) -> RankTrace:
    """Return the trace with the rank that discovery found, where the file itself states none.

    That comes from the rank map or the file name, which cannot distinguish the ranks of one file.
    A rank of a replica, as its file states it, becomes that of the whole job.
    """
    if trace.source.parts > 1 or trace.replica:
        return trace
    found = capture.file_at.get(trace.source.path)
    if found is None or found.rank is None:
        return trace
    named = trace
    if trace.rank is None:
        own = found.rank - found.first_rank
        named = structs.replace(trace, rank=own, rank_source=found.rank_source)
    return _in_replica(named, found) if found.replica else named


def _in_replica(trace: RankTrace, found: FoundFile) -> RankTrace:
    """Return the trace of a replica with the numbers that its ranks have in the whole job."""
    if found.rank is None or trace.rank != found.rank - found.first_rank:
        return trace  # states another rank than its name: that of the whole job
    first, size = found.first_rank, trace.world_size
    whole = range(size) if size is not None else ()
    groups = tuple(
        structs.replace(
            group,
            # Of the job it is a part, so that its size no longer tells which ranks it has.
            ranks=tuple(
                rank + first for rank in group.ranks or (whole if group.size == size else ())
            ),
        )
        for group in trace.process_groups
    )
    return structs.replace(
        trace,
        rank=found.rank,
        replica=found.replica,
        first_rank=first,
        world_size=found.world_size,
        process_groups=groups,
        collective_args=in_replica(trace.collective_args, first)
        if first
        else trace.collective_args,
    )


def _guessed(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Number the devices of a file of nsys where it is the only file and names no rank.

    A guess, so that collectives can be matched; it is withdrawn when another file is loaded.
    """
    if any(is_merged(trace) for trace in traces):
        return traces  # `MergedRanks` decides about those
    if any(trace.source.format == _ROCPROF for trace in traces):
        return _in_order_of_processes(traces)
    alone = len({trace.source.path for trace in traces}) == 1 and len(traces) > 1
    unknown = all(t.rank is None or t.rank_source == _GUESS for t in traces)
    guessed = []
    for trace in traces:
        rank = trace.source.part if alone and unknown else None
        if trace.rank is None or trace.rank_source == _GUESS:
            source: RankSource = "none" if rank is None else _GUESS
            guessed.append(structs.replace(trace, rank=rank, rank_source=source))
        else:
            guessed.append(trace)
    return tuple(guessed)


def _in_order_of_processes(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Number the processes of rocprofv3, which states no rank in any file, where none has one.

    Process numbers ascend as a launcher starts the ranks of a host: a guess, as devices are.
    """
    if any(t.rank is not None and t.rank_source != _PROCESSES for t in traces):
        return traces
    order = sorted(traces, key=lambda t: (natural_key(t.source.path), t.source.part))
    return tuple(
        structs.replace(trace, rank=rank, rank_source=_PROCESSES)
        for rank, trace in enumerate(order)
    )


_GUESS: Final = "order of devices"
_PROCESSES: Final = "order of processes"
_ROCPROF: Final = "rocprof"


def _rebased(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Give a truncated file that lost its base time that of the others, with a note.

    Some releases write ``baseTimeNanoseconds`` behind the events, and all ranks of a job
    write the same one.
    """
    bases = {trace.base_ns for trace in traces if trace.base_ns}
    if len(bases) != 1:
        return traces
    base_ns = bases.pop()
    return tuple(_with_base(t, base_ns) if _lost_its_base(t) else t for t in traces)


def _lost_its_base(trace: RankTrace) -> bool:
    is_cut = trace.truncated or trace.read_share < 1
    if not is_cut or trace.base_ns:
        return False  # first_ns looks at all groups of events, and this runs for every new rank
    first = trace.first_ns
    return first is not None and first < EPOCH_TIMES_NS  # else it never had a base


def _with_base(trace: RankTrace, base_ns: int) -> RankTrace:
    events = later(trace.events, base_ns)
    message = "the base time was cut off: that of the other ranks is taken"
    notes = (*trace.notes, Note(code="assumed_base", message=message))
    added_ns = trace.added_ns + base_ns
    return structs.replace(trace, events=events, base_ns=base_ns, notes=notes, added_ns=added_ns)


def labelled(traces: tuple[RankTrace, ...]) -> tuple[RankTrace, ...]:
    """Return the traces sorted by (rank, path, part), each with a unique label.

    Those without a rank come last, labelled by their file.
    """
    ordered = sorted(
        traces, key=lambda t: (t.rank is None, t.rank or 0, t.source.path, t.source.part)
    )
    claims = Counter(t.rank for t in ordered)
    labelled = []
    for trace in ordered:
        if trace.rank is None:
            label = place_of(trace.source)
        elif claims[trace.rank] > 1:
            label = f"{trace.rank} ({place_of(trace.source)})"
        else:
            label = str(trace.rank)
        labelled.append(trace if trace.label == label else structs.replace(trace, label=label))
    return tuple(labelled)


def place_of(source: SourceFile) -> str:
    """Return the path of a file, with the part of it where there are several."""
    return f"{source.path} {source.part_name}" if source.part_name else source.path


def without_side_files(
    traces: Sequence[RankTrace],
) -> tuple[tuple[RankTrace, ...], tuple[RankTrace, ...]]:
    """Separate ranks from processes that only coordinate them, as vLLM's front end does.

    Such a process has no rank, and runs no work of a device, no step and no collective, where
    others have a rank and a device.
    """
    if not any(one.rank is not None and len(one.group("gpu")) for one in traces):
        return tuple(traces), ()
    side = tuple(one for one in traces if _coordinates(one))
    return tuple(one for one in traces if one not in side), side


def _coordinates(trace: RankTrace) -> bool:
    if trace.rank is not None or trace.read_share < 1 or trace.truncated:
        return False
    if len(trace.group("gpu")) or trace.source.parts > 1:
        return False
    annotations = trace.group("annotations")
    names = [trace.text(name) for name in np.unique(annotations.name).tolist()]
    if any(name.startswith("ProfilerStep#") for name in names):
        return False
    return not any(bool((events.args >= 0).any()) for events in trace.events.values())


_COMPRESSED: Final = re.compile(r"\.(?:gz|zst)$")
_NUMBER: Final = re.compile(r"(\d+)")


def damaged_traces(discovery: Discovery, capture: Capture) -> tuple[Failed, ...]:
    """Return a failure for each unrecognised file that is named as the traces but for a number.

    A rank that was killed while it wrote leaves an empty file, or the first bytes of one: only
    its name shows that it is a trace. It must have the numbers that all traces of the capture
    have in common, as that of an iteration; where there is one trace, all but the last.
    """
    alike: dict[str, list[list[str]]] = {}
    for found in capture.files:
        shape, numbers = _taken_apart(found.path)
        alike.setdefault(shape, []).append(numbers)
    return tuple(
        Failed(found.path, f"{found.path}: {found.problem}")
        for found in discovery.files
        if found.format is UNKNOWN
        and found.problem is not None
        and found.duplicate_of is None
        and _belongs(found.path, alike)
    )


def _taken_apart(path: str) -> tuple[str, list[str]]:
    """Return a path without its numbers, and the numbers."""
    parts = _NUMBER.split(_COMPRESSED.sub("", path))
    return "#".join(parts[::2]), parts[1::2]


def _belongs(path: str, alike: dict[str, list[list[str]]]) -> bool:
    shape, numbers = _taken_apart(path)
    traces = alike.get(shape)
    return traces is not None and all(
        _may_be(number, [trace[place] for trace in traces], is_last=place == len(numbers) - 1)
        for place, number in enumerate(numbers)
    )


def _may_be(number: str, known: Sequence[str], *, is_last: bool) -> bool:
    is_fixed = len(set(known)) == 1 and (len(known) > 1 or not is_last)
    return not is_fixed or number == known[0]


def card_file(discovery: Discovery, capture: Capture | None = None) -> FoundFile | None:
    """Return the card that describes ``capture``; None without one.

    The nearest folder that holds the capture's traces and a card decides; failing that, the card
    nearest to the root. Of several cards in one place, the one with both ``workload:`` and
    ``metric_source:``. Raises CardError when several remain.
    """
    cards = [
        file
        for file in discovery.files
        if file.format is WORKLOAD_CARD and file.problem is None and file.duplicate_of is None
    ]
    folders = [] if capture is None else [_folders(file) for file in capture.files]
    shared = min(folders, default=[], key=len)
    for depth in range(len(shared), -1, -1):
        above = shared[:depth]
        here = [card for card in cards if _folders(card) == above]
        if here and all(folder[:depth] == above for folder in folders):
            return _only_one(discovery, here)
    if not cards:
        return None
    nearest = min(len(_folders(card)) for card in cards)
    return _only_one(discovery, [card for card in cards if len(_folders(card)) == nearest])


def _folders(file: FoundFile) -> list[str]:
    return file.path.split("/")[:-1]


def _only_one(discovery: Discovery, cards: list[FoundFile]) -> FoundFile:
    if len(cards) > 1:
        cards = [card for card in cards if _is_full(card)] or cards
    if len(cards) > 1:
        names = listed([card.path for card in cards])
        message = f"several workload cards, and it is not clear which one counts: {names}"
        raise CardError(message, path=printable(discovery.root))
    return cards[0]


def _is_full(card: FoundFile) -> bool:
    from ccltui.parsers.text.yaml_tree import MAX_BYTES  # noqa: PLC0415  (yaml, for cards only)

    try:
        text = read_head(card.real_path, MAX_BYTES).data
    except OSError:
        return False
    return all(
        re.search(rb"^[\"']?" + key + rb"[\"']?\s*:", text, re.MULTILINE)
        for key in (b"workload", b"metric_source")
    )


ProfileMode = Literal["auto", "torch", "nsys"]


class Job(Struct, frozen=True):
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
    store: Path | None = None  # directory of the store, where anything is kept

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

    @property
    def unfinished_files(self) -> dict[str, str]:
        """Files that gave nothing or have no end, and why: a job may still write them."""
        reasons = {failure.path: failure.error for failure in self.failures}
        cut = "has no end: perhaps still written"
        return reasons | {trace.source.path: cut for trace in self.ranks if trace.truncated}

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
        return structs.replace(self, ranks=(), merged=merged, side=side)

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
            return structs.replace(self, ranks=inserted)
        every = [one for one in (*self.ranks, *self.side) if place_in(one) != place_in(named)]
        ranks, side = without_side_files([*every, named])
        return structs.replace(self, ranks=ordered_ranks(ranks), side=side)

    def _with_merged(self, named: RankTrace) -> Job:
        """Return this job with one more trace, where a file holds several ranks."""
        new = place_in(named)
        wholes = [one for one in self.ranks if not is_merged(one) and place_in(one) != new]
        wholes += [] if is_merged(named) else [named]
        merged, kept = self.merged.taken_in(wholes, named)
        return structs.replace(self, ranks=ordered_ranks((*wholes, *kept)), merged=merged)

    def with_failure(self, failure: Failed) -> Job:
        """Return this job with one more failed file; its preview is removed."""
        left = tuple(t for t in self.ranks if t.read_share == 1 or t.source.path != failure.path)
        ranks = self.ranks if len(left) == len(self.ranks) else labelled(left)
        return structs.replace(self, ranks=ranks, failures=(*self.failures, failure))

    def with_event(self, event: LoadEvent) -> Job:
        """Return this job after one event of :func:`ccltui.parsers.ingest.load.load`."""
        if isinstance(event, Loaded | Previewed):
            return self.with_rank(event.trace)
        if isinstance(event, Failed):
            return self.with_failure(event)
        return self


class JobOptions(TypedDict, total=False):
    """Which files of a directory are opened, and as which ranks.

    Attributes:
        rank_map: Ranks of files by path or name, where no file states them.
        iteration: The capture ``iteration_N``; None for the last complete one.
        capture: Name of the capture, or the unambiguous end of it.
        profile_mode: Whose files: torch (Kineto), nsys, or Kineto's where there are any.
    """

    rank_map: Mapping[str, int] | None
    iteration: int | None
    capture: str | None
    profile_mode: ProfileMode


def start_job(
    path: str | Path,
    *,
    store: Path | None = None,
    walked: Walk | None = None,
    **options: Unpack[JobOptions],
) -> Job:
    """Find the files of a directory (or one file), choose the capture and read the card.

    No rank is loaded. ``store`` keeps what is found out about files until they change; None:
    nothing is kept. ``walked`` is a listing of ``path`` that was made already. Raises
    :class:`NotFoundError` where the path or the capture does not exist.
    """
    if unknown := options.keys() - JobOptions.__annotations__.keys():
        raise TypeError(f"unexpected keywords: {', '.join(sorted(unknown))}")
    discovery = discover(path, rank_map=options.get("rank_map"), store=store, walked=walked)
    mode = options.get("profile_mode", "auto")
    chosen = _chosen(discovery, options.get("iteration"), options.get("capture"), _SOURCES[mode])
    card, problem = None, None
    try:
        found = card_file(discovery, chosen)
        if found is not None:
            from ccltui.parsers.side.workload_card import read_card  # noqa: PLC0415  (imports yaml)

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
        profile_mode=mode,
        run_sources=run_sources(discovery, chosen),
        store=store,
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
    return structs.replace(job, capture=chosen, ranks=(), failures=failures)


class LoadObserver(Protocol):
    """Follows the loading of a job, and of its fallback after it."""

    def started(self, job: Job) -> object:
        """Begin a capture; nothing of it is loaded yet."""

    def happened(self, job: Job, event: LoadEvent) -> object:
        """Take one event; ``job`` is the job after it."""


class LoadSettings(Struct, frozen=True):
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
    second = structs.replace(settings, previews=False)
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
    for event in load(job.capture, cancelled=cancelled, pool=pool, **structs.asdict(settings)):
        job = job.with_event(event)
        if observer is not None:
            observer.happened(job, event)
    return job


def open_job(
    path: str | Path,
    *,
    cache_dir: Path | None = None,
    jobs: int | None = None,
    **options: Unpack[JobOptions],
) -> Job:
    """Find the files of a directory (or one file) and load every rank.

    Small captures are read in this process. Where Kineto traces hold no device work and nsys
    recorded some, the files of nsys are the job.

    Args:
        path: A directory, or one file.
        cache_dir: Where columns are stored; None for the user's cache directory.
        jobs: Worker processes; None for one a CPU allowed, at most 8.
        options: Those of `JobOptions`: which capture, and as which ranks.

    Returns:
        The job. Files that give nothing are in ``failures``; the rest is in ``ranks``.

    Raises:
        NotFoundError: The path or the capture does not exist.
    """
    store = default_cache_dir() if cache_dir is None else cache_dir
    job = start_job(path, store=store, **options)
    return load_job(job, LoadSettings(cache_dir, jobs, inline=True, for_other_processes=False))


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
