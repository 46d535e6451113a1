"""Compute how long all-to-all exchanges wait for their last device, from the kernels of a node.

    Total = longest kernel of an exchange: of the device that arrived first
    Actual = shortest kernel: of the device that arrived last and did not wait
    delay = Total - Actual

An exchange ends only when every device has joined it.

Devices may have different numbers of kernels: a window cuts at its edges, a capture drops
events. Kernels are therefore grouped by time and not by number: those that began before the
first of them ended belong together, because no device leaves an exchange that another has not
joined. Groups that lack a device are counted and omitted.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import numpy as np
from msgspec import Struct

from ccltui.metrics.arrays.statistics import mean, median, microseconds, nearest_rank, ratio
from ccltui.metrics.model.classify import TYPES, is_collective_kernel, type_of_kernel
from ccltui.metrics.model.kernel_names import category_of
from ccltui.metrics.nsys_reports.report import Report
from ccltui.metrics.nsys_reports.row_filter import Filter
from ccltui.parsers.array_types import I64, Bool
from ccltui.parsers.columns import MISSING
from ccltui.parsers.errors import TraceError
from ccltui.parsers.nsys.report_tables import KERNEL, ReportTables
from ccltui.parsers.nsys.typed_table import UNKNOWN, Section
from ccltui.parsers.window import Window


class Share(Struct, frozen=True):
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


_TYPES: Final = frozenset({TYPES.index("SendRecv"), TYPES.index("AllToAll")})


class Exchanges(Struct, frozen=True):
    """Kernels of exchanges sorted by start; times int64 ns, ``device`` indexes ``devices``."""

    start_ns: I64
    dur_ns: I64
    device: I64
    devices: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.start_ns)


class Study(Struct, frozen=True):
    """Exchanges of one capture. Arrays have one entry per complete exchange, in order of time.

    ``rows`` is int64 [exchanges, devices], the rows of the kernels, incomplete exchanges included
    (-1: no kernel of that device).
    """

    exchanges: Exchanges
    rows: I64
    total_ns: I64
    actual_ns: I64

    @property
    def delay_ns(self) -> I64:
        """Total - Actual of each complete exchange, int64 ns."""
        return self.total_ns - self.actual_ns

    @property
    def num_complete(self) -> int:
        """Number of exchanges with a kernel of every device."""
        return len(self.total_ns)

    @property
    def coverage(self) -> float | None:
        """Share of all kernels that belong to complete exchanges; None without kernels."""
        return ratio(self.num_complete * self.rows.shape[1], len(self.exchanges))

    @property
    def num_kernels(self) -> Mapping[str, int]:
        """Number of kernels of each device."""
        counts = np.bincount(self.exchanges.device, minlength=len(self.exchanges.devices))
        return dict(zip(self.exchanges.devices, counts.tolist(), strict=True))

    @property
    def last(self) -> Mapping[str, int]:
        """Number of complete exchanges that each device joined last (with the shortest kernel)."""
        complete = self.rows[(self.rows >= 0).all(axis=1)]
        durations = self.exchanges.dur_ns[complete]
        shortest = durations.argmin(axis=1) if len(complete) else np.empty(0, np.int64)
        counts = np.bincount(shortest, minlength=len(self.exchanges.devices))
        return dict(zip(self.exchanges.devices, counts.tolist(), strict=True))

    def summary(self) -> dict[str, dict[str, float | None]]:
        """Return mean, p50, p95 and max of Total, Actual and delay, in us."""
        columns = {"total": self.total_ns, "actual": self.actual_ns, "delay": self.delay_ns}
        return {name: spread_us(values) for name, values in columns.items()}


def spread_us(values_ns: I64) -> dict[str, float | None]:
    """Return mean, p50, p95 (nearest rank) and max in us; None without values."""
    values = values_ns.tolist()
    found = {
        "mean": mean(values),
        "p50": median(values),
        "p95": nearest_rank(values, 0.95),
        "max": max(values, default=None),
    }
    return {name: None if one is None else microseconds(one) for name, one in found.items()}


def study(exchanges: Exchanges) -> Study:
    """Group the kernels of exchanges and measure each complete group."""
    rows = group_kernels(exchanges)
    durations = exchanges.dur_ns[rows[(rows >= 0).all(axis=1)]]
    if not len(durations):
        none = np.empty(0, np.int64)
        return Study(exchanges, rows, none, none)
    return Study(exchanges, rows, durations.max(axis=1), durations.min(axis=1))


def group_kernels(exchanges: Exchanges) -> I64:
    """Return the rows of each exchange, int64 [exchanges, devices], -1 without a kernel."""
    queues = [
        np.flatnonzero(exchanges.device == device) for device in range(len(exchanges.devices))
    ]
    starts = [exchanges.start_ns[queue].tolist() for queue in queues]
    ends = [(exchanges.start_ns + exchanges.dur_ns)[queue].tolist() for queue in queues]
    heads = [0] * len(queues)
    groups: list[list[int]] = []
    while waiting := [d for d, queue in enumerate(queues) if heads[d] < len(queue)]:
        first = min(waiting, key=lambda d: ends[d][heads[d]])
        first_end = ends[first][heads[first]]
        group = [MISSING] * len(queues)
        for d in waiting:
            if d == first or starts[d][heads[d]] < first_end:
                group[d] = int(queues[d][heads[d]])
                heads[d] += 1
        groups.append(group)
    return np.array(groups, np.int64).reshape(len(groups), len(queues))


def exchanges_of_section(section: Section) -> Exchanges:
    """Return the all-to-all kernels of a ``cuda_gpu_trace`` in text form.

    NCCL performs all-to-all as SendRecv.

    Raises:
        TraceError: A start or duration is cut off before its decimal point.
    """
    names = section.text("Name").values
    chosen = _chosen(names)
    columns = section.number("Start"), section.number("Duration")
    for column in columns:
        if (column.state[chosen] == UNKNOWN).any():
            raise TraceError(f"{column.header}: nsys cut numbers off, so kernels cannot be grouped")
    start, duration = (column.ns()[chosen] for column in columns)
    labels = np.array(section.text("Device").values, object)[chosen].tolist()
    return _sorted(start, duration, labels)


def exchanges_of_tables(tables: ReportTables) -> Exchanges:
    """Return the all-to-all kernels of a capture."""
    work = tables.work
    if work is None:
        none = np.empty(0, np.int64)
        return Exchanges(none, none, none, ())
    exchanging = np.array([is_exchange(name) for name in tables.names] or [False], np.bool_)
    rows = np.flatnonzero((work.kind == KERNEL) & exchanging[work.name])
    numbers = work.device[rows].tolist()
    names = {number: f"{name} ({number})" for number, name in tables.devices.items()}
    labels = [names.get(number, f"GPU {number}") for number in numbers]
    return _sorted(work.start_ns[rows], (work.end_ns - work.start_ns)[rows], labels)


def exchanges_in(exchanges: Exchanges, window: Window | None) -> Exchanges:
    """Return the kernels that touch a window, whole, as ``--filter-time`` selects them."""
    if window is None:
        return exchanges
    ends = exchanges.start_ns + exchanges.dur_ns
    rows = Filter.of(window).rows(exchanges.start_ns, ends)
    columns = (exchanges.start_ns[rows], exchanges.dur_ns[rows], exchanges.device[rows])
    return Exchanges(*columns, exchanges.devices)


def _chosen(names: Sequence[str]) -> Bool:
    exchanging = {name: is_exchange(name) for name in set(names)}
    return np.array([exchanging[name] for name in names], np.bool_)


def is_exchange(name: str) -> bool:
    """Whether a kernel's name is that of an all-to-all: NCCL performs it as SendRecv."""
    return type_of_kernel(name) in _TYPES and "nccl" in name.lower()


def _sorted(start_ns: I64, dur_ns: I64, labels: Sequence[str]) -> Exchanges:
    devices = tuple(sorted(set(labels)))
    number = {label: index for index, label in enumerate(devices)}
    device = np.array([number[label] for label in labels], np.int64)
    order = np.argsort(start_ns, kind="stable")
    return Exchanges(start_ns[order], dur_ns[order], device[order], devices)
