"""Idle times and the launches behind them, from compiled code and from arrays."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Event, job, kernel, launch, rank_trace, step

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.findings.rank_time.idle_causes import (
    LATE_START_NS,
    _compiled,
    _idle_of,
    _in_arrays,
    _summed_in_arrays,
    gaps_in,
    idle_times,
)
from ccltui.metrics.model.rank_steps import NOT_LAUNCHED
from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.rank_view import RankView
from ccltui.metrics.view.view_options import ViewOptions
from ccltui.parsers.array_types import I32, I64


def _pieces(random: np.random.Generator, count: int, calls: int) -> tuple[I64, I64, I32]:
    """Return starts in order, ends and launching rows of device events; some begin together."""
    start = np.sort(random.integers(0, 3 * count + 1, count)) * 5
    launch = random.integers(-1, calls, count).astype(np.int32)
    return start, start + random.integers(0, 30, count), launch


@pytest.mark.skipif(not available(), reason="the compiled modules are not built")
@pytest.mark.parametrize("seed", range(40))
def test_compiled_gaps_are_equal_to_those_of_arrays(seed: int) -> None:
    random = np.random.default_rng(seed)
    count, calls = int(random.integers(0, 30)), int(random.integers(1, 20))
    start, end, launch = _pieces(random, count, calls)
    work = union(start, end)
    edges = np.sort(random.choice(500, 8, replace=False))
    idle = union(edges[::2], edges[1::2]) - work
    launches = np.sort(random.integers(0, 400, calls)), np.broadcast_to(np.int64(7), (calls,))

    both = [
        gaps_of(
            (work.start_ns, work.end_ns), (idle.start_ns, idle.end_ns), (start, launch), launches
        )
        for gaps_of in (_compiled, _in_arrays)
    ]

    for compiled, in_arrays in zip(*both, strict=True):
        assert compiled.tolist() == in_arrays.tolist()


def test_a_gap_ends_with_the_latest_launch_of_the_work_that_starts_there() -> None:
    work, idle = Intervals.of([0, 100], [10, 120]), Intervals.of([10, 120], [100, 150])
    pieces = np.array([0, 100, 100]), np.array([-1, 0, 1], np.int32)

    found = _in_arrays(
        (work.start_ns, work.end_ns),
        (idle.start_ns, idle.end_ns),
        pieces,
        (np.array([20, 60]), np.array([5, 9])),
    )

    start, end, launched, returned = (column.tolist() for column in found)
    assert (start, end) == ([10, 120], [100, 150])
    assert launched == [60, NOT_LAUNCHED]
    assert returned == [69, NOT_LAUNCHED]


def _random_rank(random: np.random.Generator) -> RankView:
    """A rank whose launches are early, late, long or not recorded, in steps or without them."""
    longest = float(random.choice([20, 2 * LATE_START_NS / 1000]))
    moments = np.sort(random.uniform(0, 30 * longest, 30)).tolist()
    lengths = random.uniform(0, longest, (4, 30)).tolist()
    gpu, runtime, operators = [], [], []
    for at, moment in enumerate(moments):
        begun = moment + random.choice([-0.5, 0.2, 3]) * longest
        correlation = at if random.random() < 0.9 else -1
        gpu.append(kernel("gemm", moment, lengths[0][at], correlation=correlation))
        runtime.append(launch(at, max(begun, 0.0), lengths[1][at] * random.choice([0.01, 1])))
        name = random.choice(["aten::mm", "aten::item", "checkpoint_save"])
        operators.append(Event(str(name), max(begun - 2 * longest, 0.0), lengths[2][at]))
    waits = [Event("cudaStreamSynchronize", moments[at], lengths[3][at]) for at in range(0, 30, 7)]
    edges = np.linspace(0, moments[-1] * random.uniform(0.6, 1.1), 1 + random.integers(0, 5))
    marks = [
        step(number + 2 * (number > 1), start, 0.9 * edges[1])
        for number, start in enumerate(edges[:-1].tolist())
    ]
    trace = rank_trace(0, gpu=gpu, runtime=[*runtime, *waits], cpu_ops=operators, annotations=marks)
    return View(job(trace), ViewOptions(span="steps" if random.random() < 0.7 else "trace")).ranks[
        0
    ]


def test_a_long_call_in_a_gap_that_two_windows_cut_counts_once_in_each() -> None:
    gpu = [kernel("a", 0, 10, correlation=0), kernel("b", 9000, 10, correlation=1)]
    late = [launch(0, 0), launch(1, 1000, 6000)]
    rank = View(job(rank_trace(0, gpu=gpu, runtime=late))).ranks[0]
    first = int(rank.trace.group("gpu").start_ns[0])
    windows = union([first + 2_000_000, first + 5_000_000], [first + 3_000_000, first + 8_000_000])

    times = idle_times(rank, gaps_in(rank, windows), windows)

    assert {cause: one.total_ns for cause, one in times.items() if len(one)} == {
        "launch_call": 3_000_000,
        "dependency": 1_000_000,
    }


@pytest.mark.skipif(not available(), reason="the compiled modules are not built")
@pytest.mark.parametrize("seed", range(120))
def test_compiled_sums_of_idle_times_are_those_of_sets_of_intervals(seed: int) -> None:
    rank = _random_rank(np.random.default_rng(seed))

    compiled, in_arrays = _idle_of(rank), _summed_in_arrays(rank)

    assert compiled.gaps == in_arrays.gaps
    assert list(compiled.causes.items()) == list(in_arrays.causes.items())
    assert compiled.steps == in_arrays.steps
    assert {cause: ns.tolist() for cause, ns in compiled.step_ns.items()} == {
        cause: ns.tolist() for cause, ns in in_arrays.step_ns.items()
    }
