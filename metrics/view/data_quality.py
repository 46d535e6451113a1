"""Reasons and warnings that apply to every metric: missing, damaged, ambiguous or unread files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from ccltui.metrics.result import Code, Reason
from ccltui.metrics.unavailable import Refusal, refuse
from ccltui.parsers.columns import FIRST_OF_SEVERAL, kind_of
from ccltui.parsers.device_times import DROPPED, MESSAGES
from ccltui.parsers.merged_files import GUESSES
from ccltui.parsers.numbers import percent
from ccltui.parsers.window import MissingRanks, ranges_text

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.columns import Note, RankTrace
    from ccltui.parsers.job import Job


def missing_ranks(view: View) -> Sequence[int]:
    """Return the ranks without a trace among those selected, or of the world if all are."""
    missing = view.job.missing_ranks
    chosen = view.options.ranks
    if chosen is None:
        return missing
    present = {trace.rank for trace in view.job.ranks}
    return sorted(rank for rank in chosen if rank not in present)


def common_reasons(view: View) -> tuple[Reason, ...]:
    """Return the reasons why any number of this view covers only a part of the job."""
    return view.remember(common_reasons, lambda: _common_reasons(view))


def _common_reasons(view: View) -> tuple[Reason, ...]:
    return (
        *failures(view),
        *_world_sizes(view),
        *absent_ranks(view),
        *_unread(view),
        *damage(view),
    )


def absent_ranks(view: View) -> list[Reason]:
    """Return how many of the selected ranks are read, and which are not, by ranges of ranks.

    Ranks with a file that a sample leaves out, and ranks without a file, have a reason each.
    """
    missing = missing_ranks(view)
    if not missing:
        return []
    reasons = []
    present = {rank.rank for rank in view.ranks if rank.rank is not None}
    total = len(present) + len(missing)
    chosen = view.options.ranks
    unread = [rank for rank in view.job.unread_ranks if chosen is None or rank in chosen]
    if unread:
        reasons.append(Reason("sampled_ranks", _sample_text(len(present), total, unread)))
    found = len(present) + len(unread)
    if found < total:
        absent = _without(view, missing, present.union(unread))
        text = f"{found} of {total} ranks found; missing {ranges_text(absent)}"
        reasons.append(Reason("missing_ranks", text))
    return reasons


def _without(view: View, missing: Sequence[int], found: set[int]) -> Sequence[int]:
    """Missing ranks less those found; not one by one, as a file may state a world of any size."""
    if view.options.ranks is None:
        return MissingRanks(view.job.world_size or 0, found)
    return [rank for rank in missing if rank not in found]


def _sample_text(read: int, total: int, unread: Sequence[int]) -> str:
    """What a sample of ranks can tell and what not."""
    return (
        f"a sample: {read} of {total} ranks are read, not {ranges_text(unread)}; waits of the "
        "ranks that are read are measured, but not for which of the other ranks they wait"
    )


def guessed_steps(view: View) -> list[Reason]:
    """Return a reason for device work of which it is a guess to which step it belongs."""
    ranks = [rank for rank in view.ranks if rank.by_steps and rank.facts.num_guessed]
    if not ranks:
        return []
    number = sum(rank.facts.num_guessed for rank in ranks)
    total = sum(len(rank.trace.group("gpu")) for rank in ranks)
    text = (
        f"{number} of {total} device events of {ranks_of([rank.label for rank in ranks])} have no "
        "launch record, and it is not clear which step launched them: each counts in the most "
        "likely step, if any"
    )
    return [Reason("uncorrelated_work", text)]


def _world_sizes(view: View) -> list[Reason]:
    """Reason for ranks whose files state different world sizes, as those of different jobs do."""
    paths: dict[int, list[str]] = {}
    for rank in view.ranks:
        if rank.trace.world_size is not None:
            paths.setdefault(rank.trace.world_size, []).append(rank.trace.source.path)
    beyond = beyond_world(view.job)
    if beyond:
        return [Reason("world_size_conflict", beyond)]
    if len(paths) < 2:
        return []
    claims = ", but ".join(f"{size} in {some_of(found)}" for size, found in sorted(paths.items()))
    return [Reason("world_size_conflict", f"the world size is {claims}")]


def beyond_world(job: Job) -> str:
    """Return which ranks the world that the files state does not have; "" for none."""
    size = job.world_size
    if size is None:
        return ""
    ranks = sorted({one.rank for one in job.ranks if one.rank is not None and one.rank >= size})
    if not ranks:
        return ""
    who = "rank {} is" if len(ranks) == 1 else "ranks {} are"
    return f"{who.format(ranges_text(ranks))} beyond the world size {size} that the files state"


def _unread(view: View) -> list[Reason]:
    """Reason for ranks of which only the beginning is read, with the share of their files."""
    partly = [rank.trace for rank in view.ranks if rank.trace.read_share < 1]
    if not partly:
        return []
    size = sum(trace.source.size_bytes for trace in partly)
    read = sum(trace.source.size_bytes * trace.read_share for trace in partly)
    share = f"{percent(read / max(size, 1))}"
    labels = ranks_of([trace.label for trace in partly])
    text = f"only a part of {labels} is read: {share} of the files of "
    text += f"{len(partly)} of {len(view.ranks)} ranks"
    return [Reason("partly_read", text)]


def refusal_reasons(view: View, reasons: Sequence[Reason]) -> tuple[Reason, ...]:
    """Return the reasons of a refusal, and those of ranks and files in which data may be lost.

    The latter are added where one of ``reasons`` has a code that missing ranks, or damaged or
    unread files, can cause.
    """
    known = {reason.code for reason in reasons}
    lost = [*_unread(view), *damage(view)] if known & _CAUSED_BY_FILES else []
    lost = [one for one in lost if one.code not in known]
    # Without any rank the refusal itself lists those asked for and those that are here.
    absent = absent_ranks(view) if known & _CAUSED_BY_RANKS and view.ranks else []
    return (*reasons, *absent, *lost)


_CAUSED_BY_FILES: Final[frozenset[Code]] = frozenset(
    {
        "no_gpu_events",
        "no_collectives",
        "no_step_markers",
        "single_rank",
        "unmatched_collectives",
        "window_empty",
    }
)
_CAUSED_BY_RANKS: Final[frozenset[Code]] = _CAUSED_BY_FILES | {"clock_unknown", "missing_ranks"}


def damage(view: View) -> list[Reason]:
    """Return reasons for files that end early, and for ranks that several files claim."""
    reasons = []
    claims: dict[int, list[str]] = {}
    for rank in view.ranks:
        if rank.rank is not None:
            claims.setdefault(rank.rank, []).append(rank.trace.source.path)
        if rank.trace.truncated:
            path = rank.trace.source.path
            reasons.append(_damage_of(rank.trace, path, rank.label))
    for number, paths in claims.items():
        if len(paths) > 1:
            text = f"rank {number} is claimed by {', '.join(paths)}"
            reasons.append(Reason("rank_conflict", text, rank=str(number)))
    return [*reasons, *_untimed(view)]


def _untimed(view: View) -> list[Reason]:
    """Return reasons for events that are lost, left out, or not timed because of their times.

    That of a rank without device times names it, as no result in time is of that rank.
    """
    wrong = [rank for rank in view.ranks if rank.facts.has_wrong_clock]
    reasons = [
        Reason(
            "device_times",
            f"rank {rank.label} has no device times: the clock of its device is wrong",
            rank=rank.label,
        )
        for rank in wrong
    ]
    others = [rank for rank in view.ranks if not rank.facts.has_wrong_clock]
    losses = _reader_losses(others, _LEAVE_OUT.__contains__)
    reasons += [Reason("device_times", text) for text in losses]
    stated = _reader_losses(view.ranks, _LOST.__contains__)
    return [*reasons, *(Reason("lost_events", text) for text in stated)]


def without_device_times(view: View, otherwise: str) -> Refusal:
    """Return the refusal of what needs times of devices, where no rank has any.

    ``otherwise`` is the reason where the device was not recorded at all.
    """
    wrong = [rank.label for rank in view.ranks if rank.facts.has_wrong_clock]
    if not wrong:
        return refuse("no_gpu_events", otherwise)
    text = f"there are no device times: the clock of the device is wrong on rank {some_of(wrong)}"
    return refuse("no_gpu_events", text)


_LOST: Final = frozenset({"cuda_graphs", "missing_rows", "nsys_diagnostic"})
"""Codes of notes on events that a file states it lacks."""
_LEAVE_OUT: Final = MESSAGES.keys() | DROPPED


def _damage_of(trace: RankTrace, path: str, label: str) -> Reason:
    damaged = [note for note in trace.notes if note.code == "damaged_database"]
    if damaged:
        return Reason("damaged_trace", f"{path}: {damaged[0].message}", rank=label, file=path)
    return Reason(
        "truncated_trace", f"{path} ends early; {_first_cut(trace)}", rank=label, file=path
    )


def _first_cut(trace: RankTrace) -> str:
    cuts = [note for note in trace.notes if note.code in _CUTS]
    if not cuts:
        return "what could be read is counted"
    return cuts[0].message + (f" (byte {cuts[0].offset:,})" if cuts[0].offset is not None else "")


_CUTS: Final = frozenset(
    {"truncated_trace", "corrupt_gzip", "corrupt_zstd", "corrupt_document", "damaged_database"}
)
_LOSSLESS: Final = frozenset({"repaired_event", "gpu_metrics", "open_ranges"})


def common_warnings(view: View) -> tuple[str, ...]:
    """Return the warnings that apply to any number of this view."""
    return view.remember(common_warnings, lambda: _common_warnings(view))


def _common_warnings(view: View) -> tuple[str, ...]:
    warnings = [f"{path} repeats another file and is counted once" for path in _copied_paths(view)]
    silent = _CUTS | _LOSSLESS | _LEAVE_OUT | _LOST
    warnings += _reader_losses(view.ranks, lambda code: code not in silent)
    warnings += [note.message for note in view.job.notes if note.code == "two_profilers"]
    warnings += _guessed_ranks(view)
    if view.card.problem is not None:
        warnings.append(f"the workload card is not used: {view.card.problem}")
    return (*warnings, *view.card_contradictions)


def _reader_losses(ranks: Sequence[RankView], is_meant: Callable[[str], bool]) -> list[str]:
    """Notes on what the reader dropped or had to assume, one sentence for each kind.

    Of those whose code is meant.
    """
    found: dict[tuple[str, str], list[tuple[str, Note]]] = {}
    for rank in ranks:
        for note in rank.trace.notes:
            path, noted = rank.trace.source.path, found.setdefault(kind_of(note), [])
            repeated = rank.trace.source.part > 0 and any(
                (path, note.message) == (known, other.message) for known, other in noted
            )
            if is_meant(note.code) and not repeated:
                noted.append((path, note))
    return [
        f"{some_of(list(paths))}: {_shared_message(notes)} ({_occurrences(notes)})"
        for noted in found.values()
        if (notes := [note for _, note in noted]) and (paths := dict.fromkeys(p for p, _ in noted))
    ]


def _shared_message(notes: Sequence[Note]) -> str:
    same = all(note.message == notes[0].message for note in notes)
    return notes[0].message + ("" if same else FIRST_OF_SEVERAL)


def _occurrences(notes: Sequence[Note]) -> str:
    count = f"{sum(note.count for note in notes):,}×"
    if len(notes) > 1 or notes[0].offset is None:
        return count
    return f"{count}, first at byte {notes[0].offset:,}"


def _guessed_ranks(view: View) -> list[str]:
    guessed = [r.trace for r in view.ranks if r.trace.rank_source in GUESSES]
    if not guessed:
        return _nameless_ranks(view)
    labels = some_of([trace.label for trace in guessed])
    paths = list(dict.fromkeys(trace.source.path for trace in guessed))
    if len(paths) > 1:
        places = some_of([f"{trace.label} is {trace.source.path}" for trace in guessed])
        return [
            f"no file states a rank: they are numbered in the order of their processes: {places}"
        ]
    path = paths[0]
    return [f"{path} does not state its ranks: its devices count as {labels}, in their order"]


def _nameless_ranks(view: View) -> list[str]:
    nameless = [rank.label for rank in view.ranks if rank.rank is None]
    if len(nameless) < 2:
        return []
    return [
        f"{len(nameless)} files do not state a rank ({some_of(nameless)}): they count as ranks of "
        "one job; --rank-map can state their ranks"
    ]


def failures(view: View) -> list[Reason]:
    """Return a reason for each file that could not be read."""
    return [
        Reason("no_trace", f"could not be read: {failure.error}", file=failure.path)
        for failure in view.job.failures
    ]


def duplicates_of(view: View) -> list[str]:
    """Return the paths of trace files whose content repeats another file."""
    files = view.job.discovery.files
    return [f.path for f in files if f.format.has_one_rank and f.duplicate_of is not None]


def _copied_paths(view: View) -> list[str]:
    """Paths of copied trace files; links to a trace are not copies."""
    by_path = {file.path: file for file in view.job.discovery.files}
    return [
        path
        for path in duplicates_of(view)
        if by_path[path].real_path != by_path[str(by_path[path].duplicate_of)].real_path
    ]


def some_of(paths: Sequence[str]) -> str:
    """Format the first four items, and the number of the others; ranks as ranges."""
    if paths and all(one.isascii() and one.isdecimal() for one in paths):
        return ranges_text(sorted({int(one) for one in paths}), most=4)
    more = len(paths) - 4
    return ", ".join(paths[:4]) + (f" and {more} more" if more > 0 else "")


def ranks_of(labels: Sequence[str]) -> str:
    """Return ``rank 3`` or ``ranks 0-3``; see `some_of`."""
    return f"rank{'' if len(labels) == 1 else 's'} {some_of(labels)}"
