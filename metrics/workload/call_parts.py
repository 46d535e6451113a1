"""Divide the collective kernels of a rank by type, group or dimension, and sum each part.

Sums are calls, bytes and time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
from msgspec import Struct, field

from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.arrays.reductions import distinct_values, unique_counts
from ccltui.metrics.arrays.statistics import milliseconds
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.dimensions import DIMS

if TYPE_CHECKING:
    from ccltui.metrics.model.calls import Calls
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import I64, Bool


class Traffic(Struct):
    """Sums over ranks of one dimension, one of its parts, one type or one group."""

    calls: int = 0
    countable: int = 0  # calls that count bytes
    sized: int = 0  # of these, those that state their size
    wired: int = 0  # of these, those whose group size is known
    summed_bytes: int = 0
    wire_bytes: int = 0
    time_ns: int = 0  # union per rank, summed over ranks
    ranks: set[str] = field(default_factory=set)

    def add(self, view: View, rank: RankView, calls: Calls, rows: Bool) -> None:
        """Take the calls of one rank; a transfer counts its bytes where it is sent.

        One that began before the window counts its time in it, and nothing else.
        """
        one = _sums_of_all(view, rank, calls) if rows.all() else _sums(rank, calls, rows)
        self.calls += one.calls
        self.countable += one.countable
        self.sized += one.sized
        self.wired += one.wired
        self.summed_bytes += one.summed_bytes
        self.wire_bytes += one.wire_bytes
        self.time_ns += one.time_ns
        self.ranks.add(rank.label)

    @property
    def message_bytes(self) -> int | None:
        """Message bytes of the calls that state their size, None where none of them does."""
        return None if self.countable and not self.sized else self.summed_bytes

    def row(self) -> dict[str, Any]:
        """JSON form; the bytes on the wire are null unless they are known of every sized call."""
        message = self.message_bytes
        return {
            "calls": self.calls,
            "message_bytes": message,
            "wire_bytes": None if message is None or self.wired < self.sized else self.wire_bytes,
            "time_ms": milliseconds(self.time_ns) / len(self.ranks),
            "ranks": sorted(self.ranks, key=lambda label: (len(label), label)),
        }


class _Sums(NamedTuple):
    """The numbers of `Traffic` of some calls of one rank."""

    calls: int
    countable: int
    sized: int
    wired: int
    summed_bytes: int
    wire_bytes: int
    time_ns: int


def _sums(rank: RankView, calls: Calls, rows: Bool | slice) -> _Sums:
    """Sum the calls of one rank in a mask or a slice."""
    began = calls.start_ns[rows] >= rank.selection.start_ns
    return _Sums(*_counts(calls, rows, began), _time_ns(rank, calls, rows))


def _counts(calls: Calls, rows: Bool | slice, began: Bool) -> tuple[int, int, int, int, int, int]:
    """Return the numbers of `_Sums` but the time."""
    message, wire = calls.message_bytes[rows], calls.wire_bytes[rows]
    countable = began & calls.counts_bytes[rows]
    known = countable & (message >= 0)
    wired = known & (wire >= 0)
    return (
        int(np.count_nonzero(began)),
        int(np.count_nonzero(countable)),
        int(np.count_nonzero(known)),
        int(np.count_nonzero(wired)),
        int(message.sum(where=known)),
        int(wire.sum(where=wired)),
    )


def _time_ns(rank: RankView, calls: Calls, rows: Bool | slice) -> int:
    start = calls.start_ns[rows]
    busy = union(start, start + calls.dur_ns[rows])
    return busy.clip(rank.selection.start_ns, rank.selection.end_ns).total_ns


def _sums_of_all(view: View, rank: RankView, calls: Calls) -> _Sums:
    """Sum all calls of one rank once for its only dimension, its only type and its only group."""
    known = rank.remember(_sums_of_all, lambda: (calls, _sum_all(view, rank, calls)))
    return known[1] if known[0] is calls else _sum_all(view, rank, calls)


def _sum_all(view: View, rank: RankView, calls: Calls) -> _Sums:
    every, began = slice(None), calls.start_ns >= rank.selection.start_ns
    if not began.all():
        return _sums(rank, calls, every)
    columns = calls.message_bytes, calls.wire_bytes
    counts = view.of_alike(_sum_all, calls, lambda: _counts(calls, every, began), *columns)
    return _Sums(*counts, _time_ns(rank, calls, every))


_Key = TypeVar("_Key")
Split = Callable[["View", "Calls"], Iterator[tuple[_Key, "Bool"]]]
"""Function that yields the name of each part and a mask of its calls."""


def by_type(_: View, calls: Calls) -> Iterator[tuple[str, Bool]]:
    """Divide calls by their type."""
    for kind in distinct_values(calls.kind):
        yield TYPES[kind], calls.kind == kind


def by_group(view: View, calls: Calls) -> Iterator[tuple[str, Bool]]:
    """Divide calls by the label of their communicator."""
    for group in distinct_values(calls.group):
        yield view.group_label(int(group)), calls.group == group


def by_dim(view: View, calls: Calls) -> Iterator[tuple[str, Bool]]:
    """Divide calls by their parallel dimension."""
    dims, _ = view.dims_of(calls)
    for dim in distinct_values(dims):
        yield DIMS[dim], dims == dim


def by_dim_and_group(view: View, calls: Calls) -> Iterator[tuple[tuple[str, int], Bool]]:
    """Divide calls by their parallel dimension and the index of their communicator (-1: none)."""
    dims, _ = view.dims_of(calls)
    for dim in distinct_values(dims):
        of_dim = dims == dim
        for group in distinct_values(calls.group[of_dim]).tolist():
            yield (DIMS[dim], group), of_dim & (calls.group == group)


def parts_of(
    view: View, rank: RankView, split: Split[_Key], *, named: bool = False
) -> tuple[tuple[_Key, Intervals, int], ...]:
    """Return name, time inside the windows and number of starts inside of each non-empty part.

    Time includes that of kernels which started before a window: the union over all parts is
    ``rank.comm``. Parts may overlap in time, so their times do not sum to it. ``named``: groups
    that no file names are inferred, also where they tell no dimension.
    """
    calls = _device_calls(view, rank, named=named)
    key = split, calls is rank.device_calls
    return rank.remember(key, lambda: tuple(_parts(view, rank, split, calls)))


def _device_calls(view: View, rank: RankView, *, named: bool) -> Calls:
    """Return the kernels of collectives: those of the rank themselves where nothing is inferred."""
    calls = rank.device_calls
    return rank.named(calls) if named else view.with_dims(rank, calls)


def _parts(
    view: View, rank: RankView, split: Split[_Key], calls: Calls
) -> Iterator[tuple[_Key, Intervals, int]]:
    for name, rows, are_all in rows_of_parts(view, calls, split):
        time, started = _times_of_all(rank, calls) if are_all else _times(rank, calls, rows)
        if len(time) or started:
            yield name, time, started


def rows_of_parts(
    view: View, calls: Calls, split: Split[_Key]
) -> tuple[tuple[_Key, Bool, bool], ...]:
    """Return the name of each part, a mask of its calls, and whether these are all."""
    return view.of_alike(
        split, calls, lambda: tuple((*one, bool(one[1].all())) for one in split(view, calls))
    )


def _times(rank: RankView, calls: Calls, rows: Bool | slice) -> tuple[Intervals, int]:
    """Time inside the windows, and number of starts there, of the calls in a mask or a slice."""
    start = calls.start_ns[rows]
    time = union(start, start + calls.dur_ns[rows]) & rank.windows
    return time, int(np.count_nonzero(rank.windows.contains(start)))


def _times_of_all(rank: RankView, calls: Calls) -> tuple[Intervals, int]:
    """The same of all calls, once for the only dimension, type and group of a rank."""
    known = rank.remember(_times_of_all, lambda: (calls, _times(rank, calls, slice(None))))
    return known[1] if known[0] is calls else _times(rank, calls, slice(None))


def exposed_parts(
    view: View, ranks: Sequence[RankView], split: Split[_Key], *, named: bool = False
) -> dict[_Key, dict[str, tuple[int, int]]]:
    """Return time in collectives of each part, and the exposed part of it, ns by rank label.

    Parts may overlap in time, so that their times do not add up; ``named`` as in `parts_of`.
    """
    found: dict[_Key, dict[str, tuple[int, int]]] = {}
    for rank in ranks:
        for name, times in exposed_by(split, named=named)(view, rank).items():
            found.setdefault(name, {})[rank.label] = times
    return found


@cache
def exposed_by(
    split: Split[_Key], *, named: bool = False
) -> Callable[[View, RankView], Mapping[_Key, tuple[int, int]]]:
    """Return the function of `exposed_parts` for one rank."""

    def times_of(view: View, rank: RankView) -> dict[_Key, tuple[int, int]]:
        return {
            name: (own.total_ns, (own - rank.useful).total_ns)
            for name, own, _ in parts_of(view, rank, split, named=named)
        }

    def kept(view: View, rank: RankView) -> Mapping[_Key, tuple[int, int]]:
        is_own = _device_calls(view, rank, named=named) is rank.device_calls
        return rank.sum_up((exposed_by, split, is_own), lambda: times_of(view, rank))

    return kept


def dims_of_types(view: View) -> Mapping[tuple[str, int], str]:
    """Return the parallel dimension of the calls of each type and group: that of most of them.

    The key is the name of the type and the index of the group. Calls of one group may serve two
    dimensions: in a group of all ranks, an all-to-all is expert traffic and an all-reduce is not.
    """
    return view.remember(dims_of_types, lambda: _dims_of_types(view))


def _dims_of_types(view: View) -> dict[tuple[str, int], str]:
    counts: dict[tuple[str, int], Counter[str]] = {}
    for rank in view.ranks:
        calls = rank.named_calls
        dims, _ = view.dims_of(calls)
        code = (calls.group.astype(np.int64) * len(TYPES) + calls.kind) * len(DIMS) + dims
        for one, number in zip(*(part.tolist() for part in unique_counts(code)), strict=True):
            rest, dim = divmod(one, len(DIMS))
            group, kind = divmod(rest, len(TYPES))
            counts.setdefault((TYPES[kind], group), Counter())[DIMS[dim]] += number
    return {key: max(found, key=lambda dim: (found[dim], dim)) for key, found in counts.items()}


def dims_of_matched(view: View, group: int, kind: I64) -> dict[str, Bool]:
    """Return masks of the matched collectives of a group by dimension; ``kind`` is int [n]."""
    dims = dims_of_types(view)
    found: dict[str, Bool] = {}
    for one in distinct_values(kind).tolist():
        dim = dims.get((TYPES[one], max(group, -1)), "unknown")
        rows = np.asarray(kind == one)
        found[dim] = found[dim] | rows if dim in found else rows
    return found
