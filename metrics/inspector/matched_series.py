"""Instances of a collective over all members of a communicator, from the records of each member.

Members are read one after another, twice: first for the longest and shortest execution of each
instance, then for the lag of the member. Only numbers of instances are held, not instances ×
members: 52 bytes an instance, 18 MB for a day of four collectives a second.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.inspector.record_columns import Records

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
