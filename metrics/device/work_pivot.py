"""Sum the device work of all ranks by what it has in common: name, operator, path, stream, ….

The table has the longest instance of each row. Its JSON form is rows by descending time, and the
sum of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from msgspec import Struct, field

from ccltui.metrics.arrays.reductions import unique_inverse
from ccltui.metrics.arrays.statistics import microseconds, milliseconds, rank_place, ratio
from ccltui.metrics.device.launch_origin import operator_rows, path_rows
from ccltui.metrics.device.product_rates import NO_FLOPS, ProductRate, product_rates
from ccltui.metrics.model.classify import COMM, COMP, MEM
from ccltui.metrics.model.kernel_names import bare_name, category_of
from ccltui.metrics.result import Reason
from ccltui.metrics.unavailable import Refusal
from ccltui.metrics.workload.hardware import device_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.metrics.view.rank_view import RankView
    from ccltui.parsers.array_types import F64, I64


CLASSES: Final = ("comm", "comp", "mem")
"""Names of the classes COMM, COMP and MEM."""
PATH_SEPARATOR: Final = " / "


def category(text: str, kind: int) -> str:
    """Return the category of a kernel of a class: "comm", "mem", or that of its name."""
    return "comm" if kind == COMM else "mem" if kind == MEM else category_of(text)


def by_name(rank: RankView) -> Grouping:
    """Group by bare name and class; the full names are the texts."""
    names, kinds, index = _names(rank)
    keys = [(bare_name(name), CLASSES[kind]) for name, kind in zip(names, kinds, strict=True)]
    return Grouping(index, keys, names)


def by_category(rank: RankView) -> Grouping:
    """Group by category."""
    names, kinds, index = _names(rank)
    keys = [(category(name, kind),) for name, kind in zip(names, kinds, strict=True)]
    return Grouping(index, keys, names)


def by_operator(rank: RankView) -> Grouping:
    """Group by the host operator of the launch and the recorded shapes of its inputs."""
    operators, rows = rank.trace.group("cpu_ops"), operator_rows(rank)
    names = np.append(operators.name, -1)[rows].astype(np.int64)
    shapes = np.append(operators.sparse("shapes"), -1)[rows].astype(np.int64)
    size = len(rank.trace.strings) + 1
    codes, index = unique_inverse((names + 1) * size + shapes + 1)
    text = rank.trace.text
    keys = [(text(code // size - 1) or None, text(code % size - 1) or None) for code in codes]
    return Grouping(index, keys, [key[0] or "" for key in keys])


def by_path(rank: RankView) -> Grouping:
    """Group by the ranges of the user and modules around the launch."""
    rows, paths = path_rows(rank)
    texts = [PATH_SEPARATOR.join(path) for path in paths]
    keys = [*((text,) for text in texts), (None,)]
    return Grouping(np.where(rows >= 0, rows, len(paths)), keys, [*texts, ""])


def by_stream(rank: RankView) -> Grouping:
    """Group by stream, whatever the device."""
    streams = [track.stream for track in rank.trace.tracks]
    keys = [(f"stream {stream}" if stream >= 0 else None,) for stream in streams]
    index = np.append(np.arange(len(keys)), len(keys))[rank.trace.group("gpu").track]
    return Grouping(index, [*keys, (None,)], [*(key[0] or "" for key in keys), ""])


def by_rank(rank: RankView) -> Grouping:
    """Put all work of a rank into one group."""
    key = f"rank {rank.label}"
    return Grouping(np.zeros(len(rank.trace.group("gpu")), np.int64), [(key,)], [key])


PIVOTS: Final[Mapping[str, Group]] = {
    "name": by_name,
    "category": by_category,
    "operator": by_operator,
    "module": by_path,
    "stream": by_stream,
    "rank": by_rank,
}
"""Groupings by the name of what they group by."""


def _names(rank: RankView) -> tuple[list[str], list[int], I64]:
    """Distinct full names with their classes, and the index of each row of ``gpu`` in them."""
    gpu, num = rank.trace.group("gpu"), len(CLASSES)
    code = (gpu.name.astype(np.int64) + 1) * num + rank.facts.classes
    present = np.flatnonzero(np.bincount(code, minlength=1))
    place = np.zeros(int(present[-1]) + 1 if len(present) else 1, np.int64)
    place[present] = np.arange(len(present))
    names = [rank.trace.text(one // num - 1) for one in present.tolist()]
    return names, [one % num for one in present.tolist()], place[code]


MOST_ROWS: Final = 5_000
"""Rows of a table; the others are only counted."""
_UNKNOWN: Final = {"operator": "(no operator)", "module": "(outside of any range)"}


class PivotColumns(Struct, frozen=True, eq=False):
    """Device work of all ranks by key, the most time first; columns of n rows.

    Attributes:
        by: the name of the pivot.
        num_ranks: ranks with kernels.
        num_rows: rows with those beyond `MOST_ROWS`.
        all_ns: time of all rows.
        key: what identifies a row in another job: name and class, operator and shapes; "" for
            what is unknown or not part of the pivot.
        name: text of each key.
        detail: category of a name, shapes of an operator; "" for none.
        example: full name with the most time.
        calls: int64.
        total_ns: int64.
        exposed_ns: int64.
        mean_ns: float64, NaN without a call, as in the next three.
        median_ns: float64.
        p95_ns: float64.
        max_ns: float64.
        imbalance: largest total of a rank over the mean of ranks, float64; NaN of one rank.
        tflops: rate of operators with known FLOPs, float64; NaN where unknown.
        tbps: rate of their least bytes, TB/s, float64; NaN where unknown.
        roofline: attainable over measured time, float64; NaN where unknown.
        roofline_text: what limits the attainable time, or why there is no roofline; "" for rows
            that are no operators.
        longest_rank: label of the rank of the longest instance, "" without a call.
        longest_row: its row of ``gpu``, int64, -1 without a call.
        longest_start_ns: its start on the clock of its rank, int64; 0 without a call.
        longest_ns: its length, int64.
    """

    by: str
    num_ranks: int
    num_rows: int
    all_ns: int
    key: tuple[tuple[str, str], ...]
    name: tuple[str, ...]
    detail: tuple[str, ...]
    example: tuple[str, ...]
    calls: I64
    total_ns: I64
    exposed_ns: I64
    mean_ns: F64
    median_ns: F64
    p95_ns: F64
    max_ns: F64
    imbalance: F64
    tflops: F64
    tbps: F64
    roofline: F64
    roofline_text: tuple[str, ...]
    longest_rank: tuple[str, ...]
    longest_row: I64
    longest_start_ns: I64
    longest_ns: I64

    def __len__(self) -> int:
        return len(self.name)


def pivot_columns(view: View, by: str) -> PivotColumns:
    """Return the device work of the selected ranks by one of `PIVOTS`; no row without kernels.

    Raises:
        KeyError: there is no such pivot.
    """
    ranks = [rank for rank in view.ranks if rank.facts.has_kernels and rank.window_ns]
    every = pivot(ranks, PIVOTS[by])
    rows = every[:MOST_ROWS]
    rates = product_rates(ranks, device_of(view)) if by == "operator" else {}
    found = [rates.get(row.key) for row in rows]
    longest = [row.longest for row in rows]
    return PivotColumns(
        by=by,
        num_ranks=len(ranks),
        num_rows=len(every),
        all_ns=total_ns(every),
        key=tuple(_key(row) for row in rows),
        name=tuple(row.key[0] or _UNKNOWN.get(by, "(unknown)") for row in rows),
        detail=tuple(_detail(row, by) for row in rows),
        example=tuple(row.example for row in rows),
        calls=np.array([row.calls for row in rows], np.int64),
        total_ns=np.array([row.total_ns for row in rows], np.int64),
        exposed_ns=np.array([row.exposed_ns for row in rows], np.int64),
        mean_ns=_floats([row.mean_ns for row in rows]),
        median_ns=_floats([row.median_ns for row in rows]),
        p95_ns=_floats([row.p95_ns for row in rows]),
        max_ns=_floats([row.max_ns for row in rows]),
        imbalance=_floats([row.imbalance(len(ranks)) for row in rows]),
        tflops=_floats([None if one is None else one.tflops for one in found]),
        tbps=_floats([None if one is None else one.tbps for one in found]),
        roofline=_floats([None if one is None else one.roofline for one in found]),
        roofline_text=tuple(_roofline_text(one, by) for one in found),
        longest_rank=tuple("" if one is None else one.rank for one in longest),
        longest_row=np.array([-1 if one is None else one.row for one in longest], np.int64),
        longest_start_ns=_starts(view, rows),
        longest_ns=np.array([0 if one is None else one.dur_ns for one in longest], np.int64),
    )


def _key(row: PivotRow) -> tuple[str, str]:
    return row.key[0] or "", (row.key[1] or "") if len(row.key) > 1 else ""


def _roofline_text(rate: ProductRate | None, by: str) -> str:
    if by != "operator":
        return ""
    if rate is None:
        return NO_FLOPS
    return rate.why or f"{rate.limit or 'nothing'} limits"


def _floats(values: list[float | None] | list[int | None]) -> F64:
    return np.array([np.nan if value is None else value for value in values], np.float64)


def _detail(row: PivotRow, by: str) -> str:
    second = row.key[1] if len(row.key) > 1 else None
    if by == "name":
        return category(row.example, CLASSES.index(str(second)))
    return second or ""


def _starts(view: View, rows: list[PivotRow]) -> I64:
    """Start of the longest instance of each row on its rank's clock; 0 without one."""
    starts = np.zeros(len(rows), np.int64)
    for index, row in enumerate(rows):
        if row.longest is not None:
            gpu = view.facts.ranks[row.longest.rank].trace.group("gpu")
            starts[index] = gpu.start_ns[row.longest.row]
    return starts


MOST_SHOWN: Final = 200
"""Rows in a document; the others are summed."""

COLUMNS_BASIS: Final[Mapping[str, str]] = {
    "total_ms": "summed durations inside the measured time, over all ranks",
    "mean_us": "total over calls; median, p95 (nearest rank) and max of the calls that begin in "
    "the measured time",
    "exposed_ms": "the part of the total that work of another kind does not hide: communication "
    "outside computation, computation outside communication, copies outside kernels",
    "imbalance_ratio": "largest total of a rank over the mean of the ranks with a device",
}


def table(
    rows: Sequence[PivotRow],
    ranks: Sequence[RankView],
    described: Callable[[PivotRow], Mapping[str, Any]],
) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return the rows with the most time, and the sum of the others.

    Args:
        rows: all rows, the most time first.
        ranks: the ranks that they are measured on.
        described: returns the first cells of a row, which name it.
    """
    total = total_ns(rows)
    shown = [_cells(row, total, len(ranks), described(row)) for row in rows[:MOST_SHOWN]]
    rest = rows[MOST_SHOWN:]
    other = {
        "num_rows": len(rest),
        "calls": sum(row.calls for row in rest),
        "total_ms": milliseconds(total_ns(rest)),
        "exposed_ms": milliseconds(sum(row.exposed_ns for row in rest)),
        "share": ratio(total_ns(rest), total),
    }
    return shown, other


def total_ns(rows: Sequence[PivotRow]) -> int:
    """Return the time of all rows."""
    return sum(row.total_ns for row in rows)


def attributed_share(rows: Sequence[PivotRow]) -> float | None:
    """Return the share of the time that belongs to a key that was recorded."""
    return ratio(total_ns([row for row in rows if row.key[0] is not None]), total_ns(rows))


def _cells(
    row: PivotRow, total: int, num_ranks: int, described: Mapping[str, Any]
) -> dict[str, Any]:
    return {
        **described,
        "calls": row.calls,
        "total_ms": milliseconds(row.total_ns),
        "share": ratio(row.total_ns, total),
        "mean_us": _us(row.mean_ns),
        "median_us": _us(row.median_ns),
        "p95_us": _us(row.p95_ns),
        "max_us": _us(row.max_ns),
        "exposed_ms": milliseconds(row.exposed_ns),
        "imbalance_ratio": row.imbalance(num_ranks),
        "num_ranks": len(row.per_rank_ns),
    }


def _us(nanoseconds: float | None) -> float | None:
    return None if nanoseconds is None else microseconds(nanoseconds)


def with_launches(
    ranks: Sequence[RankView], has: Callable[[RankView], bool], what: str
) -> tuple[list[RankView], list[Reason]]:
    """Return the ranks whose device work can be traced to the host, and why others cannot.

    Args:
        ranks: ranks with kernels.
        has: whether a rank has what work is attributed to.
        what: that, for the reasons: "operator".

    Raises:
        Refusal: there is no such rank.
    """
    reasons = [reason for rank in ranks if (reason := _missing(rank, has, what)) is not None]
    lacking = {reason.rank for reason in reasons}
    known = [rank for rank in ranks if rank.label not in lacking]
    if not known:
        raise Refusal(*reasons)
    return known, reasons


def _missing(rank: RankView, has: Callable[[RankView], bool], what: str) -> Reason | None:
    if not has(rank):
        text = f"rank {rank.label}: no {what} was recorded"
    elif (
        not (rank.facts.launch_row >= 0).any()
        and not (rank.trace.group("gpu").external_id >= 0).any()
    ):
        text = f"rank {rank.label}: no launch record links device work to the host"
    else:
        return None
    return Reason("not_applicable", text, rank=rank.label)


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


class PivotRow(Struct, frozen=True):
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


class _Sums(Struct):
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
            exposed[rows] -= others.within(start, start + gpu.dur_ns[rows])
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
