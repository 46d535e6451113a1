"""A table of device work over all ranks as columns, with the longest instance of each row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from ccltui.metrics.device.pivot_groups import CLASSES, PIVOTS, category
from ccltui.metrics.device.pivot_rows import total_ns
from ccltui.metrics.device.product_rates import NO_FLOPS, ProductRate, product_rates
from ccltui.metrics.device.work_pivot import PivotRow, pivot
from ccltui.metrics.workload.hardware import device_of

if TYPE_CHECKING:
    from ccltui.metrics.view.job_view import View
    from ccltui.parsers.array_types import F64, I64

MOST_ROWS: Final = 5_000
"""Rows of a table; the others are only counted."""
_UNKNOWN: Final = {"operator": "(no operator)", "module": "(outside of any range)"}


@dataclass(frozen=True, slots=True, eq=False)
class PivotColumns:
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
