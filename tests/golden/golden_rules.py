"""Which number of ours a row of golden.json is, or follows from; the rows of the reference.

A rule without ``differs`` reads our number as it is. One with ``differs`` says in words why ours
is another, and computes the other tool's from our columns by exactly that difference
(``other_tools``), so that the row is still compared.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
from golden_rows import Number, Value, rank_of, view_of
from msgspec import Struct
from other_tools import (
    by_name,
    by_position,
    input_bytes,
)

from ccltui.metrics.arrays.statistics import nearest_rank
from ccltui.metrics.catalog.communication.comm_comp_overlap import Overlap, measure
from ccltui.metrics.catalog.time.iter_time import iter_time
from ccltui.parsers.array_types import F64, I64

Read = Callable[[Number], Value | None]


class Rule(Struct, frozen=True):
    """Which rows, and their number from our columns."""

    tool: str  # how the tool's name begins
    metric: str  # whole metric, a pattern
    read: Read
    traces: tuple[str, ...] = ()  # all where empty
    differs: str = ""  # why our own number is another; empty where it is this one

    def knows(self, number: Number) -> bool:
        if self.traces and number.trace not in self.traces:
            return False
        of_tool = number.tool.startswith(self.tool)
        return of_tool and re.fullmatch(self.metric, number.metric) is not None


def us(nanoseconds: float) -> float:
    return nanoseconds / 1000


def ratio(numerator: float, denominator: float) -> float:
    return numerator / denominator if denominator else 0.0


def whole(read: Callable[[Overlap], float]) -> Read:
    """Of all kernels, over the whole trace."""
    return lambda number: read(measure(rank_of(number.path)))


def named(read: Callable[[Overlap], float]) -> Read:
    """Of the narrow compute set."""
    return lambda number: read(measure(rank_of(number.path), named=True))


def step_us(key: str) -> Read:
    """A key of iter_time, in µs."""

    def read(number: Number) -> float | None:
        value = iter_time.run(view_of(number.path)).details[key]
        return None if value is None else float(value) * 1000

    return read


def population_std_us(number: Number) -> float:
    times = iter_time.run(view_of(number.path)).details["iter_times_ms"]
    average = math.fsum(times) / len(times)
    return math.sqrt(math.fsum((t - average) ** 2 for t in times) / len(times)) * 1000


def lag(read: Callable[[F64, F64], Value]) -> Read:
    """Of the starts and durations [n, m] in µs of calls by their place, as recorded."""

    def of(number: Number) -> Value:
        group = by_position(number.paths, everything=True)
        return read((group.start - group.start.min()) / 1000, group.dur / 1000)

    return of


def wait(start: F64 | I64) -> F64:
    return np.asarray(start.max(axis=1, keepdims=True) - start)


def how_often(members: F64) -> dict[str, float]:
    return {str(rank): float(count) for rank, count in Counter(members.tolist()).items()}


def _reference_by_name(number: Number) -> float:
    work = by_name(number.path)
    comp = work.comp - (rank_of(number.path).mem - work.comm)
    comm, overlap = work.comm, work.comm & work.comp
    values = {
        "comm_us": us(comm.total_ns),
        "comp_all_us": us(comp.total_ns),
        "comp_gemm_us": us(work.named_comp.total_ns),
        "overlap_all_us": us(overlap.total_ns),
        "overlap_ratio_of_comm": ratio(overlap.total_ns, comm.total_ns),
        "overlap_ratio_of_comp": ratio(overlap.total_ns, comp.total_ns),
        "overlap_gemm_ratio_of_comm": ratio((comm & work.named_comp).total_ns, comm.total_ns),
        "n_nccl_kernels": work.num_comm,
        "bytes": work.comm_bytes,
    }
    return values[number.metric]


def _lag(number: Number) -> float:
    group = by_position(number.paths, everything=True)
    lags = np.sort(np.ptp(group.start, axis=1) / 1000)
    values = {
        "lag.mean_lag_us": float(lags.mean()),
        "lag.p50_lag_us": float(np.median(lags)),
        "lag.max_lag_us": float(lags.max()),
        "lag.p95_lag_us_nearest": float(nearest_rank(lags.tolist(), 0.95) or math.nan),
    }
    return values[number.metric]


REFERENCE = (
    Rule(
        "reference",
        "comm_us|comp_all_us|comp_gemm_us|overlap_all_us|overlap_ratio_of_com.|"
        "overlap_gemm_ratio_of_comm|n_nccl_kernels|bytes",
        _reference_by_name,
        traces=("b200_eager",),
        differs="multimem_all_reduce_kernel is a collective through symmetric memory, 73 of them: "
        "the reference knows collectives by the name nccl alone, and takes these for computation",
    ),
    Rule("reference", "span_us", whole(lambda p: us(p.span))),
    Rule("reference", "idle_us", whole(lambda p: us(p.idle))),
    Rule("reference", "busy_us", lambda n: us(rank_of(n.path).occupied.total_ns)),
    Rule(
        "reference",
        "bubble_ratio",
        whole(lambda p: ratio(p.idle, p.window)),
        differs="the quantity is our idle_ratio; our bubble_ratio counts waiting for a stage",
    ),
    Rule("reference", "comm_us", whole(lambda p: us(p.comm))),
    Rule("reference", "comp_all_us", whole(lambda p: us(p.comp))),
    Rule("reference", "mem_us", whole(lambda p: us(p.mem))),
    Rule("reference", "overlap_all_us", whole(lambda p: us(p.overlap))),
    Rule("reference", "overlap_ratio_of_comm", whole(lambda p: ratio(p.overlap, p.comm))),
    Rule("reference", "overlap_ratio_of_comp", whole(lambda p: ratio(p.overlap, p.comp))),
    Rule("reference", "comp_gemm_us", named(lambda p: us(p.comp))),
    Rule("reference", "overlap_gemm_ratio_of_comm", named(lambda p: ratio(p.overlap, p.comm))),
    Rule("reference", "n_nccl_kernels", whole(lambda p: p.num_comm)),
    Rule(
        "reference",
        "bytes",
        lambda n: int(input_bytes(rank_of(n.path).named_calls).sum()),
        differs="the reference sums the input of every call; our size of an all-gather is its "
        "output, and a broadcast counts its larger side",
    ),
    Rule("reference", "iter_avg_us", step_us("avg_iter_time_ms")),
    Rule("reference", "iter_min_us", step_us("min_iter_time_ms")),
    Rule("reference", "iter_max_us", step_us("max_iter_time_ms")),
    Rule(
        "reference",
        "iter_stdev_us",
        lambda n: 0.0 if step_us("std_iter_time_ms")(n) is None else math.nan,
        traces=("qwen_h100",),
        differs="the deviation of a single step is not 0 but undefined: ours is null",
    ),
    Rule("reference", "iter_stdev_us", step_us("std_iter_time_ms")),
    Rule(
        "reference",
        "iter_pstdev_us",
        population_std_us,
        differs="of the population; ours is that of a sample, and std_kind says so",
    ),
    Rule("reference", "lag.num_collectives", lag(lambda start, _: len(start))),
    Rule(
        "reference",
        r"lag\.(mean|p50|max)_lag_us|lag\.p95_lag_us_nearest",
        _lag,
        differs="by starts as recorded, calls paired by place: our lag is clock-free, and pairs "
        "by group, type and size",
    ),
    Rule(
        "reference",
        "lag.last_counts",
        lag(lambda start, _: how_often(start.argmax(axis=1))),
        differs="by starts as recorded",
    ),
    Rule(
        "reference",
        "lag.total_wait_us",
        lag(lambda start, _: wait(start).sum(axis=0).tolist()),
        differs="by starts as recorded",
    ),
    Rule("reference", "lag.total_dur_us", lag(lambda _, dur: dur.sum(axis=0).tolist())),
)
