"""Order the ranks of a job and label them; fill in ranks and base times that files lack."""

from __future__ import annotations

import dataclasses
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from typing import Final

import numpy as np

from ccltui.parsers.columns import Note, RankSource, RankTrace, SourceFile, later
from ccltui.parsers.found_files import Capture
from ccltui.parsers.merged_files import is_merged
from ccltui.parsers.names import natural_key


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
    named = trace if trace.label == label else dataclasses.replace(trace, label=label)
    return (*ranks[:at], named, *ranks[at:])


def _rank_number(trace: RankTrace) -> int:
    return -1 if trace.rank is None else trace.rank


def identified(trace: RankTrace, capture: Capture) -> RankTrace:
    """Return the trace with the rank that discovery found, where the file itself states none.

    That comes from the rank map or the file name, which cannot distinguish the ranks of one file.
    """
    if trace.rank is not None or trace.source.parts > 1:
        return trace
    for found in capture.files:
        if found.path == trace.source.path and found.rank is not None:
            source = found.rank_source
            return dataclasses.replace(trace, rank=found.rank, rank_source=source)
    return trace


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
            guessed.append(dataclasses.replace(trace, rank=rank, rank_source=source))
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
        dataclasses.replace(trace, rank=rank, rank_source=_PROCESSES)
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
    return first is not None and first < _EPOCH_TIMES_NS


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
        labelled.append(trace if trace.label == label else dataclasses.replace(trace, label=label))
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
