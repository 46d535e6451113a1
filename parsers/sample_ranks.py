"""Choose ranks to read of a job that is too large to read: whole groups, spread over the job.

Which ranks a group has is in the files, so the first rank is read for it. In layouts of training
frameworks the groups of other ranks are those of the first one, moved by some ranks. A unit is made
of the closest groups of the first rank, as many as fit into the sample: all ranks of a
tensor-parallel group, times all pipeline stages, and so on. Units at even distances are read, the
first and the last among them, so that nodes, replicas and stages are spread as in the job.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

import msgspec
from msgspec import structs

from ccltui.parsers.columns import Note
from ccltui.parsers.ingest.load import Loaded, load
from ccltui.parsers.window import MOST_RANKS

T = TypeVar("T")

if TYPE_CHECKING:
    from pathlib import Path

    from ccltui.parsers.job import Job


def sampled_job(job: Job, count: int, cache_dir: Path | None = None) -> Job:
    """Return the job with ``count`` ranks to read; the same ranks each time.

    Args:
        job: As :func:`ccltui.parsers.job.start_job` returns it, nothing is loaded.
        count: Number of ranks; a job with fewer is returned as it is.
        cache_dir: Where columns are stored; None for the user's cache directory.
    """
    ranks = {found.rank for found in job.capture.files}
    known = sorted(rank for rank in ranks if rank is not None)
    if len(job.capture.files) <= count:
        return job
    if None in ranks or len(known) < len(job.capture.files):
        text = "no sample of ranks: names and first bytes of the files do not show their ranks"
        return with_note(job, Note("no_sample", text))
    groups = _groups_of(job, known[0], cache_dir)
    chosen = frozenset(choose_ranks(known, groups, count))
    files = tuple(found for found in job.capture.files if found.rank in chosen)
    capture = msgspec.structs.replace(job.capture, files=files)
    unread = tuple(rank for rank in known if rank not in chosen)
    return structs.replace(job, capture=capture, unread_ranks=unread)


def with_note(job: Job, note: Note) -> Job:
    """Return the job with one more note on its capture."""
    capture = msgspec.structs.replace(job.capture, notes=(*job.capture.notes, note))
    return structs.replace(job, capture=capture)


def choose_ranks(
    present: Sequence[int], groups: Sequence[Sequence[int]], count: int
) -> tuple[int, ...]:
    """Choose ranks of a job.

    Args:
        present: Sorted ranks that have a file.
        groups: Groups of the first of them; those without it, or with one rank, are not used.
        count: Number of ranks to choose, at least 1.

    Returns:
        Sorted ranks, ``count`` of them or all.
    """
    if count >= len(present):
        return tuple(present)
    unit = _unit(present[0], groups, count)
    blocks = _blocks(present, unit)
    chosen = {rank for block in _spread(blocks, count // len(unit)) for rank in block}
    rest = [rank for rank in present if rank not in chosen]
    chosen.update(_spread(rest, count - len(chosen)))
    return tuple(sorted(chosen))


def _unit(first: int, groups: Sequence[Sequence[int]], count: int) -> tuple[int, ...]:
    """Ranks of the closest groups together, less the first rank."""
    unit = {0}
    own = (set(group) for group in groups if first in group)
    # Ranks close to each other share nodes and communicate most.
    for group in sorted(own, key=lambda group: max(group) - min(group)):
        larger = {one + rank - first for one in unit for rank in group}
        if len(larger) <= count and min(larger) == 0:
            unit = larger
    return tuple(sorted(unit))


def _blocks(present: Sequence[int], unit: Sequence[int]) -> list[tuple[int, ...]]:
    """Disjoint units of ranks, those whose ranks are all present.

    Absent ranks take their places too, or the units behind them would not be groups of the job.
    """
    first, last = present[0], present[-1]
    if last - first > MOST_RANKS:
        return []
    there, taken = set(present), bytearray(last - first + unit[-1] + 1)
    blocks = []
    for rank in range(first, last + 1):
        block = tuple(rank + one for one in unit)
        if not any(taken[one - first] for one in block):
            for one in block:
                taken[one - first] = 1
            if there.issuperset(block):
                blocks.append(block)
    return blocks


def _spread(items: Sequence[T], count: int) -> list[T]:
    """Items at even distances, the first and the last among them."""
    count = min(count, len(items))
    if count <= 1:
        return list(items[:count])
    return [items[round(place * (len(items) - 1) / (count - 1))] for place in range(count)]


def _groups_of(job: Job, rank: int, cache_dir: Path | None) -> Sequence[Sequence[int]]:
    """Groups that the file of a rank states, () where it cannot be read."""
    one = tuple(found for found in job.capture.files if found.rank == rank)
    probe = msgspec.structs.replace(job.capture, files=one)
    for event in load(probe, cache_dir=cache_dir, jobs=1, inline=True, for_other_processes=False):
        if isinstance(event, Loaded):
            return [group.ranks for group in event.trace.process_groups]
    return []
