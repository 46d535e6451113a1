"""Compute statistics of groups of numbers, vectorised over all groups."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.nsys_reports.rows.report import Kind, ReportColumn
from ccltui.parsers.array_types import F64, I64


@dataclass(frozen=True, slots=True)
class Groups:
    """One row per group, by falling total. ``std`` is that of a sample (n - 1), 0 for one value."""

    key: I64
    count: I64
    total: I64
    mean: F64
    median: F64
    smallest: I64
    largest: I64
    std: F64

    def __len__(self) -> int:
        return len(self.key)

    def take(self, places: I64) -> Groups:
        """Return the groups at these places."""
        return Groups(*(getattr(self, name)[places] for name in Groups.__dataclass_fields__))

    def tied_by(self, texts: Sequence[str]) -> Groups:
        """Return the groups with those of equal totals in order of these texts, one per group."""
        ranks = np.unique(np.array([*texts, ""], object)[:-1], return_inverse=True)
        return self.take(np.lexsort((ranks[1], -self.total)))

    def statistics(self, kind: Kind, mean_kind: Kind, prefix: str = "") -> list[ReportColumn]:
        """Return the columns Avg, Med, Min, Max and StdDev."""
        return [
            ReportColumn(f"{prefix}Avg", mean_kind, self.mean),
            ReportColumn(f"{prefix}Med", mean_kind, self.median),
            ReportColumn(f"{prefix}Min", kind, self.smallest),
            ReportColumn(f"{prefix}Max", kind, self.largest),
            ReportColumn(f"{prefix}StdDev", mean_kind, self.std),
        ]


def group(keys: I64, values: I64) -> Groups:
    """Group values by equal keys; ties of the total are in order of first appearance."""
    if not len(keys):
        none, nothing = np.empty(0, np.int64), np.empty(0, np.float64)
        return Groups(none, none, none, nothing, nothing, none, none, nothing)
    order = np.lexsort((values, keys))
    keys, first_rows = keys[order], order
    values = values[order]
    starts = np.flatnonzero(np.concatenate([[True], keys[1:] != keys[:-1]]))
    count = np.diff(np.concatenate([starts, [len(keys)]]))
    total = np.add.reduceat(values, starts)
    mean = total / count
    middle = (values[starts + (count - 1) // 2] + values[starts + count // 2]) / 2
    spread = values - np.repeat(mean, count)
    squares = np.add.reduceat(spread * spread, starts)
    std = np.sqrt(squares / np.maximum(count - 1, 1))
    rank = np.lexsort((np.minimum.reduceat(first_rows, starts), -total))
    return Groups(
        keys[starts][rank],
        count[rank],
        total[rank],
        mean[rank],
        middle[rank],
        values[starts][rank],
        values[starts + count - 1][rank],
        std[rank],
    )


def shares(total: I64) -> F64:
    """Return the percentage of each total in the sum of all, 0 where the sum is 0."""
    whole = int(total.sum())
    return total * 100 / whole if whole else np.zeros(len(total))
