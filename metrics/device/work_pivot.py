"""Sum the device work of all ranks by what it has in common: name, operator, path, stream, …."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import rank_place
from ccltui.metrics.model.classify import COMM, COMP

if TYPE_CHECKING:
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import F64, I64

Key = tuple[str | None, ...]
"""What the work of a row has in common; None where it is not recorded."""

_P95: Final = 0.95


class Grouping(Struct, frozen=True):
    """Groups of the device work of one rank.

    Attributes:
        index: index into ``keys`` of each row of ``gpu``, int64; -1 leaves the row out.
        keys: the key of each group; groups of one key become one row.
        texts: full name of each group, of which a row shows the one with the most time.
    """

    index: I64
    keys: Sequence[Key]
    texts: Sequence[str]


Group = Callable[["RankView"], Grouping]


class Longest(Struct, frozen=True):
    """The longest instance of a row: rank, row of ``gpu``, and its length in the windows."""

    rank: str
    row: int
    dur_ns: int


@dataclass(frozen=True, slots=True)
class PivotRow:
    """Device work with one key.

    ``calls`` begin in the measured time and have the lengths ``median_ns``, ``p95_ns`` and
    ``max_ns`` in it; they are None without any. ``total_ns`` and ``exposed_ns`` also count the end
    of what began before.
    """

    key: Key
    calls: int
    total_ns: int
    exposed_ns: int
    median_ns: float | None
    p95_ns: int | None
    max_ns: int | None
    per_rank_ns: Mapping[str, int]
    longest: Longest | None
    example: str
    num_texts: int

    @property
    def mean_ns(self) -> float | None:
        """Total over calls."""
        return self.total_ns / self.calls if self.calls else None

    def imbalance(self, num_ranks: int) -> float | None:
        """Return the largest total of a rank over the mean of ranks; None of one rank."""
        if num_ranks < 2 or not self.total_ns:
            return None
        return max(self.per_rank_ns.values()) * num_ranks / self.total_ns


@dataclass(slots=True)
class _Sums:
    """Columns that grow with the number of keys, and the parts of each rank."""

    ids: dict[Key, int] = field(default_factory=dict)
    texts: list[dict[str, int]] = field(default_factory=list)
    per_rank: list[tuple[str, I64]] = field(default_factory=list)
    calls: list[I64] = field(default_factory=list)
    exposed: list[I64] = field(default_factory=list)
    lengths: list[tuple[I64, I64]] = field(default_factory=list)
    longest: list[Longest | None] = field(default_factory=list)

    def id_of(self, key: Key) -> int:
        """Return the number of a key, a new one for a new key."""
        known = self.ids.setdefault(key, len(self.ids))
        if known == len(self.texts):
            self.texts.append({})
            self.longest.append(None)
        return known


def pivot(ranks: Sequence[RankView], group: Group) -> list[PivotRow]:
    """Return the device work of ranks by key, the most time first.

    Holds eight bytes for each device event of the ranks.

    Args:
        ranks: the ranks; each is measured in its windows.
        group: returns the groups of a rank's device work.
    """
    sums = _Sums()
    for rank in ranks:
        _add(sums, rank, group(rank))
    rows = _rows(sums)
    return sorted(rows, key=lambda row: (-row.total_ns, [text or "" for text in row.key]))


def _add(sums: _Sums, rank: RankView, groups: Grouping) -> None:
    known = groups.index >= 0
    measured = np.flatnonzero(known & ((rank.clipped_ns > 0) | rank.starts_inside))
    local, length = groups.index[measured], rank.clipped_ns[measured]
    num = len(groups.keys)
    # bincount sums in float64, which is exact for whole nanoseconds up to 104 days
    total = np.bincount(local, weights=length, minlength=num).astype(np.int64)
    used = np.zeros(num, np.bool_)
    used[local] = True
    of_key = np.full(num, -1, np.int64)
    for one in np.flatnonzero(used).tolist():
        of_key[one] = number = sums.id_of(groups.keys[one])
        texts, text = sums.texts[number], groups.texts[one]
        texts[text] = texts.get(text, 0) + int(total[one])
    row_key, size = of_key[local], len(sums.ids)
    exposed = exposed_ns(rank)[measured]
    begun = rank.starts_inside[measured]
    sums.per_rank.append((rank.label, _sum(row_key, length, size)))
    sums.exposed.append(_sum(row_key, exposed, size))
    sums.calls.append(np.bincount(row_key[begun], minlength=size))
    sums.lengths.append((row_key[begun], length[begun]))
    _add_longest(sums, rank.label, row_key[begun], length[begun], measured[begun])


def _sum(keys: I64, values: I64, size: int) -> I64:
    return np.bincount(keys, weights=values, minlength=size).astype(np.int64)


def _add_longest(sums: _Sums, label: str, keys: I64, length: I64, rows: I64) -> None:
    """Note the longest instance of each key; of several as long the first."""
    most = np.full(len(sums.ids), -1, np.int64)
    np.maximum.at(most, keys, length)
    at = np.flatnonzero(length == most[keys])[::-1]
    first = np.full(len(sums.ids), -1, np.int64)
    first[keys[at]] = rows[at]
    for key in np.flatnonzero(first >= 0).tolist():
        before = sums.longest[key]
        if before is None or most[key] > before.dur_ns:
            sums.longest[key] = Longest(label, int(first[key]), int(most[key]))


def exposed_ns(rank: RankView) -> I64:
    """Return the ns of each row of ``gpu`` that work of another kind does not hide, int64.

    Communication is hidden by computation, computation by communication, copies by both.
    """
    comm, comp, _ = (busy & rank.windows for busy in rank.facts.busy)
    gpu, classes = rank.trace.group("gpu"), rank.facts.classes
    exposed = rank.clipped_ns.copy()
    for kind in range(3):
        rows = np.flatnonzero(classes == kind)
        if len(rows):
            others = comp if kind == COMM else comm if kind == COMP else comm | comp
            start = gpu.start_ns[rows]
            exposed[rows] -= others.before(start + gpu.dur_ns[rows]) - others.before(start)
    return exposed


def _rows(sums: _Sums) -> list[PivotRow]:
    size = len(sums.ids)
    calls, exposed = _total(sums.calls, size), _total(sums.exposed, size)
    median, p95, largest = _quantiles(sums.lengths, calls)
    per_rank: list[dict[str, int]] = [{} for _ in range(size)]
    for label, totals in sums.per_rank:
        for one in np.flatnonzero(totals).tolist():
            per_rank[one][label] = int(totals[one])
    rows = []
    for key, number in sums.ids.items():
        texts, n = sums.texts[number], int(calls[number])
        rows.append(
            PivotRow(
                key=key,
                calls=n,
                total_ns=sum(per_rank[number].values()),
                exposed_ns=int(exposed[number]),
                median_ns=float(median[number]) if n else None,
                p95_ns=int(p95[number]) if n else None,
                max_ns=int(largest[number]) if n else None,
                per_rank_ns=per_rank[number],
                longest=sums.longest[number],
                example=_most(texts),
                num_texts=len(texts),
            )
        )
    return rows


def _most(texts: Mapping[str, int]) -> str:
    """Return the text with the most time; of several the first by name."""
    return min(texts, key=lambda text: (-texts[text], text))


def _total(parts: Sequence[I64], size: int) -> I64:
    total = np.zeros(size, np.int64)
    for part in parts:
        total[: len(part)] += part
    return total


def _quantiles(lengths: Sequence[tuple[I64, I64]], calls: I64) -> tuple[F64, I64, I64]:
    """Return median, p95 and maximum of the lengths of each key; 0 where it has no call."""
    size = len(calls)
    if not lengths or not calls.sum():
        nothing = np.zeros(size, np.int64)
        return nothing.astype(np.float64), nothing, nothing
    keys = np.concatenate([key for key, _ in lengths])
    length = np.concatenate([one for _, one in lengths])
    bits = int(length.max()).bit_length()
    if bits + size.bit_length() < 63:  # one sort of numbers that hold key and length
        length = np.sort((keys << bits) | length) & ((1 << bits) - 1)
    else:
        length = length[np.lexsort((length, keys))]
    ends = np.cumsum(calls)
    first, last = ends - calls, np.maximum(ends - 1, 0)
    place = np.array([rank_place(n, _P95) if n else 0 for n in calls.tolist()], np.int64)
    halves = length[np.minimum(first + (calls - 1).clip(0) // 2, len(length) - 1)]
    upper = length[np.minimum(first + calls // 2, len(length) - 1)]
    high = np.minimum(first + place, len(length) - 1)
    return (halves + upper) / 2, length[high], length[last]
