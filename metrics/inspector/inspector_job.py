"""All records of NCCL Inspector of a job: by operation and communicator, over all members."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from ccltui.metrics.unavailable import refuse
from ccltui.metrics.view.provenance import require_traces
from ccltui.parsers.array_types import I64
from ccltui.parsers.errors import TraceError, contained
from ccltui.parsers.inspector import NCCL_INSPECTOR
from ccltui.parsers.inspector.read_records import (
    Communicator,
    InspectorFile,
    Records,
    Series,
    read_inspector,
)

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.found_files import FoundFile

_MOST_BYTES: Final = 4 << 30
"""Of all files together: ten million records, which take 320 MB; the largest are left out."""
_MINUTE_US: Final = 60_000_000
_SHORT_US: Final = 10 * _MINUTE_US
_SHORT_WINDOW_US: Final = 10_000_000
"""Recordings below ten minutes are told apart by ten seconds: a minute would hide the onset."""


class Member(Struct, frozen=True):
    """Records of one rank in one communicator with one numbering, in the order of numbers.

    ``label`` is the rank in the job, else host and process.
    """

    process: tuple[str, int]
    label: str
    series: Series
    records: Records


class Operations(Struct, frozen=True):
    """One type of operation of one communicator: instances that every member recorded.

    Attributes:
        communicator: The communicator.
        operation: AllReduce, AllGather, ….
        labels: Rank of each member: its rank in the job, else host and process.
        seen: Number of instances that any member recorded.
        number: Sequence numbers, ascending.
        size: Bytes of the message of each instance, equal on all members.
        exec_us: Instances times members.
        written_us: When the first member wrote each instance.
    """

    communicator: Communicator
    operation: str
    labels: tuple[str, ...]
    seen: int
    number: I64
    size: I64
    exec_us: I64
    written_us: I64

    @property
    def shortest_us(self) -> I64:
        """Execution time of the last to arrive, which waits for nobody."""
        return np.asarray(self.exec_us.min(axis=1), np.int64)

    @property
    def lag_us(self) -> I64:
        """By how much each member arrives after the first: the longest time less its own."""
        return np.asarray(self.exec_us.max(axis=1)[:, None] - self.exec_us, np.int64)


class InspectorJob(Struct, frozen=True):
    """Records of all processes.

    Attributes:
        files: The files that were read.
        members: Collectives by rank, communicator and type.
        operations: The same over all members of a communicator, where all have a file.
        first_us: When the first record was written.
        last_us: When the last record was written.
        unread: Files, lines and communicators that are left out, each with the reason.
    """

    files: tuple[InspectorFile, ...]
    members: tuple[Member, ...]
    operations: tuple[Operations, ...]
    first_us: int
    last_us: int
    unread: tuple[str, ...]

    @property
    def window_us(self) -> int:
        """Length of the windows over time."""
        is_short = self.last_us - self.first_us < _SHORT_US
        return _SHORT_WINDOW_US if is_short else _MINUTE_US

    def windows(self, written_us: I64) -> I64:
        """Number of the window of each time, from 0."""
        return (written_us - self.first_us) // self.window_us


def inspector_job(view: View) -> InspectorJob:
    """Return the records of a job.

    Raises:
        Refusal: There is no file of NCCL Inspector, or none holds a collective.
    """
    if not view.job.ranks and not view.job.discovery.files:
        require_traces(view)
    files = tuple(
        file
        for file in view.job.discovery.files
        if file.format is NCCL_INSPECTOR and file.duplicate_of is None
    )
    if not files:
        raise refuse("no_side_file", "no records of NCCL Inspector here")
    job = _read(files)
    if not job.members:
        why = job.unread[0] if job.unread else "no collective is in the records here"
        raise refuse("no_side_file", why)
    return job


@lru_cache(maxsize=2)
def _read(files: tuple[FoundFile, ...]) -> InspectorJob:
    read: list[InspectorFile] = []
    unread: list[str] = []
    held = 0
    for file in sorted(files, key=lambda one: (one.size_bytes, one.path)):
        held += file.size_bytes
        if file.problem is not None or held > _MOST_BYTES:
            why = file.problem or f"left out: the files before it have {_MOST_BYTES >> 30} GiB"
            unread.append(f"{file.path}: {why}")
            continue
        try:
            with contained(file.path):
                read.append(read_inspector(Path(file.real_path), shown=file.path))
        except TraceError as error:
            unread.append(str(error))
    read.sort(key=lambda one: one.path)
    for one in read:
        unread += [f"{note.message}{_more(note.count)}" for note in one.notes]
    return joined(read, unread)


def _more(count: int) -> str:
    return f" ({count:,} such lines)" if count > 1 else ""


def joined(files: Sequence[InspectorFile], unread: Sequence[str] = ()) -> InspectorJob:
    """Return the records of several processes by communicator."""
    left_out = list(unread)
    labels = _labels(files)
    groups: dict[tuple[Communicator, str, str], list[Member]] = defaultdict(list)
    for file, label in zip(files, labels, strict=True):
        for member in _members(file, label):
            one = member.series
            groups[one.communicator, one.operation, one.timing].append(member)
    members: list[Member] = []
    operations: list[Operations] = []
    for (communicator, operation, _), pieces in sorted(groups.items()):
        name = communicator.name or communicator.id
        found = _of_one_process(pieces)
        if len({one.series.rank for one in found}) < len(found):
            left_out.append(
                f"{operation} of {name}: several processes state one rank of it, as two"
                " communicators whose cut hashes are equal do"
            )
            continue
        members += found
        if len(found) == communicator.n_ranks > 1:
            operations.append(_matched(found))
    times = [one.records.written_us for one in members]
    return InspectorJob(
        tuple(files),
        tuple(members),
        tuple(operations),
        min((int(one.min()) for one in times), default=0),
        max((int(one.max()) for one in times), default=0),
        tuple(left_out),
    )


def _labels(files: Sequence[InspectorFile]) -> list[str]:
    """Return the rank of each process: that in the largest communicator, which is the world.

    Where several communicators are the largest, or a process is not in it, host and process.
    """
    held = [{one.communicator: one.rank for one in file.series} for file in files]
    every = {communicator for ranks in held for communicator in ranks}
    most = max((one.n_ranks for one in every), default=0)
    largest = [one for one in every if one.n_ranks == most]
    if len(largest) != 1:
        return [f"{file.host}:{file.pid}" for file in files]
    found = [ranks.get(largest[0]) for ranks in held]
    return [
        f"{file.host}:{file.pid}" if rank is None else str(rank)
        for file, rank in zip(files, found, strict=True)
    ]


def _members(file: InspectorFile, label: str) -> Iterator[Member]:
    records = file.records
    order = np.lexsort((records.number, records.series))
    ends = np.searchsorted(records.series[order], np.arange(len(file.series) + 1))
    for place, series in enumerate(file.series):
        rows = order[ends[place] : ends[place + 1]]
        if series.is_p2p or not len(rows):
            continue
        yield Member((file.host, file.pid), label, series, _numbered_once(_taken(records, rows)))


def _of_one_process(members: Sequence[Member]) -> list[Member]:
    """Join what several files hold of one process: copies, or a log that was continued."""
    found: dict[tuple[tuple[str, int], int], Member] = {}
    for one in members:
        key = one.process, one.series.rank
        found[key] = _both(found[key], one) if key in found else one
    return list(found.values())


def _both(one: Member, other: Member) -> Member:
    names = ("series", "number", "size", "exec_us", "written_us")
    first, second = one.records, other.records
    joined = Records(
        **{name: np.concatenate([getattr(first, name), getattr(second, name)]) for name in names}
    )
    order = np.argsort(joined.number, kind="stable")
    return replace(one, records=_numbered_once(_taken(joined, order)))


def _numbered_once(records: Records) -> Records:
    """Return ordered records without those whose number came before."""
    once = np.ones(len(records), np.bool_)
    once[1:] = records.number[1:] != records.number[:-1]
    return records if once.all() else _taken(records, np.flatnonzero(once))


def _taken(records: Records, rows: I64) -> Records:
    return Records(
        series=records.series[rows],
        number=records.number[rows],
        size=records.size[rows],
        exec_us=records.exec_us[rows],
        written_us=records.written_us[rows],
    )


def _matched(members: Sequence[Member]) -> Operations:
    """Return the instances that all members recorded with one size."""
    ordered = sorted(members, key=lambda one: one.series.rank)
    number, counts = np.unique(
        np.concatenate([one.records.number for one in ordered]), return_counts=True
    )
    seen = len(number)
    number = number[counts == len(ordered)]
    rows = [np.searchsorted(one.records.number, number) for one in ordered]
    size = np.stack([one.records.size[at] for one, at in zip(ordered, rows, strict=True)], 1)
    agreed = (size == size[:, :1]).all(axis=1)
    exec_us = [one.records.exec_us[at] for one, at in zip(ordered, rows, strict=True)]
    written = [one.records.written_us[at] for one, at in zip(ordered, rows, strict=True)]
    return Operations(
        communicator=ordered[0].series.communicator,
        operation=ordered[0].series.operation,
        labels=tuple(one.label for one in ordered),
        seen=seen,
        number=number[agreed],
        size=size[agreed, 0],
        exec_us=np.stack(exec_us, 1)[agreed].astype(np.int64),
        written_us=np.stack(written, 1)[agreed].min(axis=1),
    )
