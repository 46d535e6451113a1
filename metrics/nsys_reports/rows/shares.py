"""Compute the shares of device time by kind of work and by operation, down to a cutoff."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from ccltui.metrics.model.classify import is_collective_kernel
from ccltui.metrics.model.kernel_names import category_of
from ccltui.metrics.nsys_reports.rows.report import Report


@dataclass(frozen=True, slots=True)
class Share:
    """Total time of a kind or an operation, and its percentage of all."""

    name: str
    total_ns: int
    percent: float
    operations: int = 1


def kind_shares(summary: Report, cutoff_percent: float) -> tuple[Share, ...]:
    """Return the shares of the kinds of work (comm, mem, gemm, …) of a ``cuda_gpu_sum``."""
    return _cut(_totals((_kind(c, n), t) for c, n, t in _rows(summary)), cutoff_percent)


def operation_shares(summary: Report, cutoff_percent: float) -> tuple[Share, ...]:
    """Return the shares of the operations of a ``cuda_gpu_sum``, by possibly truncated name."""
    return _cut(_totals((name, total) for _, name, total in _rows(summary)), cutoff_percent)


def total_of(summary: Report, name: str) -> tuple[int, int] | None:
    """Return total time in ns and instances of an operation; None where it is not listed."""
    counts = np.asarray(summary.column("Instances").values).tolist()
    for (_, operation, total), count in zip(_rows(summary), counts, strict=True):
        if operation == name:
            return total, int(count)
    return None


def _rows(summary: Report) -> list[tuple[str, str, int]]:
    categories = summary.column("Category").values
    names = summary.column("Operation").values
    totals = np.asarray(summary.column("Total Time").values)
    rounded = [round(value) for value in totals.tolist()]
    return [(str(c), str(n), t) for c, n, t in zip(categories, names, rounded, strict=True)]


def _kind(category: str, name: str) -> str:
    if category != "CUDA_KERNEL":
        return "mem"
    return "comm" if is_collective_kernel(name) else category_of(name.removesuffix("…"))


def _totals(pairs: Iterable[tuple[str, int]]) -> list[tuple[str, int, int]]:
    totals: dict[str, int] = defaultdict(int)
    counts: dict[str, int] = defaultdict(int)
    for name, total in pairs:
        totals[name] += total
        counts[name] += 1
    return [(name, total, counts[name]) for name, total in totals.items()]


def _cut(totals: list[tuple[str, int, int]], cutoff_percent: float) -> tuple[Share, ...]:
    """Return the shares at or above the cutoff, largest first, then one share of all others."""
    whole = sum(total for _, total, _ in totals)
    if not whole:
        return ()
    shares = [Share(name, total, 100 * total / whole, n) for name, total, n in totals]
    shares.sort(key=lambda share: (-share.total_ns, share.name))
    kept = [share for share in shares if share.percent >= cutoff_percent]
    rest = shares[len(kept) :]
    if not rest:
        return tuple(kept)
    below = sum(share.total_ns for share in rest)
    count = sum(share.operations for share in rest)
    return (*kept, Share(f"below {cutoff_percent:g} %", below, 100 * below / whole, count))
