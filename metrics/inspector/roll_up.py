"""Sum the records of a job up by minute: join processes, match instances, find late windows.

Members are read one after another, twice: first for the longest and shortest execution of each
instance, then for the lag of the member. Only numbers of instances are held, not instances ×
members: 52 bytes an instance, 18 MB for a day of four collectives a second.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from typing import Any, Final

import numpy as np
import numpy.typing as npt
from msgspec import Struct

from ccltui.metrics.inspector.rolled_job import (
    LEAST_LAG_US,
    LEAST_SHARE,
    ROOTED,
    Group,
    MemberLag,
    RolledFacts,
    SeriesCount,
    SizeRate,
    tables_of,
    window_length_us,
)
from ccltui.parsers.array_types import F64, I64, Bool
from ccltui.parsers.inspector.record_columns import (
    Communicator,
    InspectorFile,
    MemoryColumns,
    Records,
    Series,
)

Load = Callable[[], Records]
"""Reads the records of one member, in order of their numbers, each number once."""
_MOST_SPREAD: Final = 4
"""Numbers from the first to the last for each record, up to which each number has a place."""
_NEVER_US: Final = np.iinfo(np.int64).max
LEAST_WINDOWS: Final = 3
"""In a row: a late window may be a checkpoint, and a slow one other traffic on the network."""
LEAST_INSTANCES: Final = 8
"""Of a part of time that is judged: the median of fewer is that of a few hiccups."""
_LEAST_IN_THIRD: Final = 5
"""Likewise of a third of a recording: all three have to agree."""


class Instances:
    """Instances of one type of operation of one communicator.

    Attributes:
        num_members: Number of members.
        spread: Number of instances from the first recorded number to the last.
        seen: Number of instances that any member recorded.
        size: Bytes of the message of each complete instance, in order of numbers: all members
            recorded it, with one size.
        shortest_us: Execution time of the last to arrive, which waits for nobody.
        longest_us: Execution time of the first to arrive.
        total_us: Sum of the executions of all members.
        written_us: When the first member wrote each instance.
    """

    def __init__(self, members: Sequence[Load], numbers: Sequence[tuple[int, int, int]]) -> None:
        """Match the records of all members.

        ``numbers`` are the first and the last number of each member, and how many it has.
        """
        self.num_members = len(members)
        self._members = members
        self._first = min(first for first, _, _ in numbers)
        self.spread = max(last for _, last, _ in numbers) - self._first + 1
        most = max(count for _, _, count in numbers)
        self._listed: I64 | None = None
        if self.spread > _MOST_SPREAD * most:
            self._listed = self._all_numbers()
        self._count = self.spread if self._listed is None else len(self._listed)
        self._match()

    def _all_numbers(self) -> I64:
        """Every number that a member recorded, for numbers with wide gaps."""
        found = np.empty(0, np.int64)
        for load in self._members:
            found = np.union1d(found, load().number)
        return found

    def _places(self, number: I64) -> slice | I64:
        """Places of numbers among all; a slice where they have no gap, which is the usual case."""
        if self._listed is not None:
            return np.searchsorted(self._listed, number)
        begin = int(number[0]) - self._first
        if int(number[-1] - number[0]) + 1 == len(number):
            return slice(begin, begin + len(number))
        return number - self._first

    def _match(self) -> None:
        held = np.zeros(self._count, np.int32)
        longest, shortest = np.zeros(self._count, np.int64), np.full(self._count, _NEVER_US)
        least, most = np.full(self._count, _NEVER_US), np.zeros(self._count, np.int64)
        written, total = np.full(self._count, _NEVER_US), np.zeros(self._count, np.int64)
        for load in self._members:
            records = load()
            at = self._places(records.number)
            held[at] += 1
            longest[at] = np.maximum(longest[at], records.exec_us)
            shortest[at] = np.minimum(shortest[at], records.exec_us)
            total[at] += records.exec_us
            least[at] = np.minimum(least[at], records.size)
            most[at] = np.maximum(most[at], records.size)
            written[at] = np.minimum(written[at], records.written_us)
        self.seen = int((held > 0).sum())
        self._complete: Bool = np.logical_and(held == len(self._members), least == most)
        chosen = self._chosen
        self._longest = longest
        self.size: I64 = least[chosen]
        self.shortest_us: I64 = shortest[chosen]
        self.longest_us: I64 = longest[chosen]
        self.total_us: I64 = total[chosen]
        self.written_us: I64 = written[chosen]

    @cached_property
    def _chosen(self) -> Bool | slice:
        """The complete instances; all of them, without a copy, where none is incomplete."""
        return slice(None) if self._complete.all() else self._complete

    def __len__(self) -> int:
        return len(self.size)

    def lag_us(self, member: int) -> I64:
        """By how much a member arrives after the first, at each complete instance."""
        records = self._members[member]()
        at = self._places(records.number)
        lag = self._longest[at] - records.exec_us
        if isinstance(self._chosen, slice) and len(lag) == self._count:
            return np.asarray(lag, np.int64)
        return np.asarray(lag[self._complete[at]], np.int64)


class Windows:
    """Values by window of time: how many, their sum, and values by rank among them.

    ``number`` are the windows that hold any, ascending; ``count`` how many values each has.
    """

    def __init__(self, window: I64) -> None:
        """Take the window of each value."""
        is_sorted = len(window) < 2 or bool((np.diff(window) >= 0).all())
        self._order = None if is_sorted else np.argsort(window, kind="stable")
        ordered = window if self._order is None else window[self._order]
        is_first = np.ones(len(ordered), np.bool_)
        is_first[1:] = ordered[1:] != ordered[:-1]
        self.begin: I64 = np.flatnonzero(is_first)
        self.number: I64 = ordered[self.begin]
        self.count: I64 = np.diff(np.append(self.begin, len(ordered)))
        self._place = np.repeat(np.arange(len(self.begin)), self.count)

    def ordered(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values by window, in each as they came."""
        return values if self._order is None else values[self._order]

    def sorted(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Return values by window, ascending in each. Whole numbers are below 2³¹."""
        ordered = self.ordered(values)
        if ordered.dtype.kind == "f":
            return np.asarray(ordered[np.lexsort((ordered, self._place))])
        # one sort of numbers that hold both takes a third of the time of a sort by two keys
        key = (self._place << 31) | ordered
        key.sort()
        return np.asarray(key & ((1 << 31) - 1))

    def median(self, ordered: npt.NDArray[Any]) -> npt.NDArray[np.float64]:
        """Median of each window, of values in the order of `sorted`."""
        low = ordered[self.begin + (self.count - 1) // 2]
        return np.asarray((low + ordered[self.begin + self.count // 2]) / 2, np.float64)

    def quantile(self, ordered: npt.NDArray[Any], share: float) -> npt.NDArray[Any]:
        """Least value of each window that at least ``share`` of its values do not exceed."""
        found: npt.NDArray[Any] = ordered[
            self.begin + np.ceil(share * self.count).astype(np.int64) - 1
        ]
        return found

    def total(self, ordered: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Sum of each window."""
        found: npt.NDArray[Any] = np.add.reduceat(ordered, self.begin)
        return found

    def of(self, chosen: I64) -> Bool:
        """Which values are in windows of these numbers, by window."""
        return np.repeat(np.isin(self.number, chosen), self.count)


def in_runs(chosen: Bool, least: int = LEAST_WINDOWS) -> Bool:
    """Return which of the chosen windows, in order, have enough chosen ones beside them.

    What lasts is told so from single hiccups, which are as many in a day as one likes.
    """
    found = chosen.copy()
    for begin, end in _runs(chosen):
        found[begin:end] = end - begin >= least
    return found


def _runs(chosen: Bool) -> list[tuple[int, int]]:
    edges = np.flatnonzero(np.diff(np.concatenate(([False], chosen, [False])).astype(np.int8)))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True))


def between_ends(chosen: Bool, ends: Bool) -> Bool:
    """Return runs of chosen windows from the first to the last of ``ends`` in each."""
    found = np.zeros_like(chosen)
    for begin, end in _runs(chosen):
        inner = np.flatnonzero(ends[begin:end])
        if len(inner):
            found[begin + inner[0] : begin + inner[-1] + 1] = True
    return found


def joined_windows(count: I64) -> I64:
    """Return the part of each window, of windows with so many instances, in order.

    Neighbours are joined until a part has enough instances to be judged. Empty where that leaves
    too few parts.
    """
    part_of, held, part = list[int](), 0, 0
    for number in count.tolist():
        part_of.append(part)
        held += number
        if held >= LEAST_INSTANCES:
            held, part = 0, part + 1
    if part < LEAST_WINDOWS:
        return np.empty(0, np.int64)
    return np.minimum(part_of, part - 1)  # what is left over belongs to the last part


def thirds(count: int) -> I64:
    """Return the third of each of so many instances; one part where they are too few for three."""
    parts = LEAST_WINDOWS if count >= LEAST_WINDOWS * _LEAST_IN_THIRD else 1
    return np.arange(count) * parts // max(count, 1)


_DUMP_GAP_US: Final = 50_000
"""Lines of one dump are some µs apart, and dumps at least a tenth of a second."""
_ALL_PARTS: Final = frozenset(("AllGather", "AllGatherV", "ReduceScatter"))
_NO_FACTOR: Final = frozenset(("All2All", "Invalid"))
"""The writer has no bandwidth on the bus for these."""


class _Member(Struct, frozen=True):
    """Records of one rank in one communicator with one numbering, which may be in several files."""

    process: tuple[str, int]
    label: str
    series: Series
    files: tuple[tuple[InspectorFile, int], ...]

    def load(self) -> Records:
        """Return its records, in order of their numbers, each number once."""
        found = Records.joined([file.records(place) for file, place in self.files])
        for file, _ in self.files:
            release: Callable[[], None] | None = getattr(file.columns, "release", None)
            if release is not None:  # mapped columns of all files take hundreds of megabytes
                release()
        return found


class _Table:
    """Rows of the two tables, in pieces."""

    def __init__(self) -> None:
        self.lag: list[tuple[npt.NDArray[Any] | int, ...]] = []
        self.rate: list[tuple[npt.NDArray[Any] | int, ...]] = []


def rolled_up(
    files: Sequence[InspectorFile], unread: Sequence[str] = ()
) -> tuple[RolledFacts, MemoryColumns]:
    """Return the records of several processes by minute. Raises TraceError for damaged columns."""
    left_out = list(unread)
    groups = _groups(files, left_out)
    times = [one.facts for one in files if one.facts.last_us]
    first_us = min((one.first_us for one in times), default=0)
    last_us = max((one.last_us for one in times), default=0)
    table, found = _Table(), list[Group]()
    counts: list[SeriesCount] = []
    gaps: dict[tuple[str, int], list[int]] = defaultdict(list)
    for members in groups:
        spans, intervals = zip(*map(_count, members), strict=True)
        counts += spans
        for member, interval in zip(members, intervals, strict=True):
            if interval:
                gaps[member.process].append(interval)
        if len(members) == members[0].series.communicator.n_ranks > 1:
            numbers = [(one.first_number, one.last_number, one.records) for one in spans]
            instances = Instances([one.load for one in members], numbers)
            window = partial(_window, first_us, window_length_us(first_us, last_us))
            found.append(_group(members, instances, window, table, len(found)))
    dropped = [total for file in files for _, total in file.facts.dropped]
    facts = RolledFacts(
        paths=tuple(one.path for one in files),
        groups=tuple(found),
        series=tuple(counts),
        dropped=sum(dropped) if dropped else None,
        first_us=first_us,
        last_us=last_us,
        # of a rare communicator several dumps in a row may have no record
        interval_us=round(float(np.median([min(one) for one in gaps.values()]))) if gaps else 0,
        num_records=sum(one.facts.num_records for one in files),
        unread=tuple(left_out),
    )
    return facts, MemoryColumns(tables_of(table.lag, table.rate))


def _window(first_us: int, length_us: int, written_us: I64) -> I64:
    return (written_us - first_us) // length_us


def _groups(files: Sequence[InspectorFile], left_out: list[str]) -> list[list[_Member]]:
    """Return the members of each communicator and type, in order of their ranks in it."""
    found: dict[tuple[Communicator, str, str], dict[Any, _Member]] = defaultdict(dict)
    for file, label in zip(files, _labels(files), strict=True):
        process = file.facts.host, file.facts.pid
        for place, series in enumerate(file.facts.series):
            if series.is_p2p:
                continue
            members = found[series.communicator, series.operation, series.timing]
            before = members.get((process, series.rank))
            held = () if before is None else before.files
            one = _Member(process, label, series, (*held, (file, place)))
            members[process, series.rank] = one
    groups = []
    for (communicator, operation, _), members in sorted(found.items()):
        ordered = sorted(members.values(), key=lambda one: one.series.rank)
        if len({one.series.rank for one in ordered}) == len(ordered):
            groups.append(ordered)
        else:
            name = communicator.name or communicator.id
            left_out.append(
                f"{operation} of {name}: several processes state one rank of it, as two"
                " communicators whose cut hashes are equal do"
            )
    return groups


def _labels(files: Sequence[InspectorFile]) -> list[str]:
    """Return the rank of each process: that in the largest communicator, which is the world.

    Where several communicators are the largest, or a process is not in it, host and process.
    """
    held = [{one.communicator: one.rank for one in file.facts.series} for file in files]
    every = {communicator for ranks in held for communicator in ranks}
    most = max((one.n_ranks for one in every), default=0)
    largest = [one for one in every if one.n_ranks == most]
    places = [f"{file.facts.host}:{file.facts.pid}" for file in files]
    if len(largest) != 1:
        return places
    found = [ranks.get(largest[0]) for ranks in held]
    return [place if rank is None else str(rank) for place, rank in zip(places, found, strict=True)]


def _count(member: _Member) -> tuple[SeriesCount, int]:
    """Return what a series holds, and µs between its first two dumps; 0 where it has one."""
    records, series = member.load(), member.series
    gaps = np.diff(records.written_us)
    between = gaps[gaps > _DUMP_GAP_US]
    count = SeriesCount(
        label=member.label,
        communicator=series.communicator.name or series.communicator.id,
        n_ranks=series.communicator.n_ranks,
        operation=series.operation,
        records=len(records),
        first_number=int(records.number[0]),
        last_number=int(records.number[-1]),
        median_us=float(np.median(records.exec_us)),
    )
    return count, int(between[0]) if len(between) else 0


def _group(
    members: Sequence[_Member],
    instances: Instances,
    window: Callable[[I64], I64],
    table: _Table,
    number: int,
) -> Group:
    labels = tuple(one.label for one in members)
    hosts = tuple(one.process[0] for one in members)
    series, complete = members[0].series, len(instances)
    if not complete:
        return Group(
            series.communicator,
            series.operation,
            labels,
            hosts,
            instances.seen,
            0,
            instances.spread,
        )
    rates = tuple(_rates(instances, window, series, table, number))
    if series.operation in ROOTED:
        return Group(
            series.communicator,
            series.operation,
            labels,
            hosts,
            instances.seen,
            complete,
            instances.spread,
            rates=rates,
        )
    window_of = window(instances.written_us)
    windows = Windows(window_of)
    found = [_lag_rows(instances, windows, table, (number, at)) for at in range(len(members))]
    late = _late_windows(instances, windows, window_of, [medians for medians, _ in found])
    return Group(
        series.communicator,
        series.operation,
        labels,
        hosts,
        instances.seen,
        complete,
        instances.spread,
        int(instances.total_us.sum()) - len(members) * int(instances.shortest_us.sum()),
        lags=tuple(
            _late_member(instances, windows, at, late[at])
            if len(late[at])
            else MemberLag(middle / 1e3, complete)
            for at, (_, middle) in enumerate(found)
        ),
        rates=rates,
    )


def _lag_rows(
    instances: Instances, windows: Windows, table: _Table, place: tuple[int, int]
) -> tuple[F64, float]:
    """Add the rows of a member; its median in each window, and over all time, in µs.

    ``place`` is its group, and its place in it.
    """
    lag = windows.sorted(instances.lag_us(place[1]))
    medians = windows.median(lag)
    table.lag.append(
        (
            *place,
            windows.number,
            windows.count,
            windows.total(lag),
            medians,
            windows.quantile(lag, 0.95),
            windows.quantile(lag, 0.99),
            lag[windows.begin + windows.count - 1],
        )
    )
    return medians, float(np.median(lag))


def _late_windows(
    instances: Instances, windows: Windows, window: I64, medians: Sequence[F64]
) -> list[I64]:
    """Return the windows in which each member is late; ``medians`` are those of its lag by window.

    Windows of few instances are taken together. Where too few parts are left, members are judged by
    the thirds of their instances: one that is late in all of them is late in every window.
    """
    parts, part_of = windows, np.arange(len(windows.number))
    each = np.stack(medians), windows.median(windows.sorted(instances.shortest_us))
    members = instances.num_members
    # a recording begins and ends within a window, which is judged by the one beside it
    is_partial = windows.count < LEAST_INSTANCES
    is_partial[1:-1] = False
    if (~is_partial).sum() < LEAST_WINDOWS or windows.count[~is_partial].min() < LEAST_INSTANCES:
        is_partial[:] = False
        part_of = joined_windows(windows.count)
        is_joined = len(part_of) > 0
        at = np.searchsorted(windows.number, window)
        parts = Windows(part_of[at] if is_joined else thirds(len(window)))
        lags = (parts.sorted(instances.lag_us(one)) for one in range(members))
        medians = [parts.median(lag) for lag in lags]
        part_of = part_of if is_joined else np.zeros(len(windows.number), np.int64)
    shortest = parts.median(parts.sorted(instances.shortest_us))
    late = _late(np.stack(medians), shortest, members)
    if is_partial.any():
        late[:, is_partial] = False
        part_of = np.clip(part_of, int(is_partial[0]), len(part_of) - 1 - int(is_partial[-1]))
    # a part of several windows may begin before a member is late
    return [
        windows.number[between_ends(in_runs(by_part)[part_of], by_window)]
        for by_part, by_window in zip(late, _late(*each, members), strict=True)
    ]


def _late(medians: F64, transfer: F64, num_members: int) -> Bool:
    """Return in which windows the lag of each member is late, members × windows.

    ``medians`` are median lags in µs, members × windows, ``transfer`` the median of the shortest
    executions of a window.
    """
    beyond = medians - np.median(medians, axis=0)
    if num_members == 2:  # the middle of two is their mean: either may be first
        beyond = beyond * 2
    late: Bool = beyond > np.maximum(LEAST_LAG_US, LEAST_SHARE * transfer)
    return late


def _late_member(instances: Instances, windows: Windows, member: int, late: I64) -> MemberLag:
    lag, chosen = windows.ordered(instances.lag_us(member)), windows.of(late)
    shortest = windows.ordered(instances.shortest_us)
    is_last = chosen & (lag == windows.ordered(instances.longest_us) - shortest)
    in_all = windows.ordered(instances.total_us)[is_last]
    waited = in_all - instances.num_members * shortest[is_last]
    lag = lag[chosen]
    return MemberLag(float(np.median(lag)) / 1e3, len(lag), tuple(late.tolist()), int(waited.sum()))


def _rates(
    instances: Instances,
    window: Callable[[I64], I64],
    series: Series,
    table: _Table,
    number: int,
) -> list[SizeRate]:
    """Add the rows of a group, and return its medians, by size class."""
    if series.operation in _NO_FACTOR:
        return []
    found = []
    is_timed = (instances.shortest_us > 0) & (instances.size > 0)
    classes = np.frexp(np.maximum(instances.size, 1))[1] - 1
    for size_class in np.unique(classes[is_timed]).tolist():
        chosen = is_timed & (classes == size_class)
        factor = _bus_factor(series.operation, series.communicator.n_ranks)
        moved = instances.size[chosen]
        rates = moved * factor / instances.shortest_us[chosen] / 1e3
        windows = Windows(window(instances.written_us[chosen]))
        ordered = windows.sorted(rates)
        table.rate.append(
            (
                number,
                size_class,
                windows.number,
                windows.count,
                windows.total(windows.ordered(moved)),
                windows.median(ordered),
            )
        )
        transfer_us = int(instances.shortest_us[chosen].sum())
        third = thirds(len(rates))
        by_third = [float(np.median(rates[third == one])) for one in np.unique(third)]
        middle = float(np.median(rates))
        found.append(SizeRate(size_class, len(rates), middle, transfer_us, tuple(by_third)))
    return found


def _bus_factor(operation: str, n_ranks: int) -> float:
    """Bytes on the bus for each byte of the message, as the writer counts them."""
    if operation == "AllReduce":
        return 2 * (n_ranks - 1) / n_ranks
    return n_ranks - 1 if operation in _ALL_PARTS else 1
