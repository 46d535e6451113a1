"""Sums of device work from one compiled pass, and from sets of intervals."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Event, job, kernel, rank_trace

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.arrays.intervals import Intervals, union
from ccltui.metrics.model.classify import COMM, COMP, MEM
from ccltui.metrics.model.rank_facts import (
    OTHER,
    DeviceSums,
    Window,
    Work,
    _compiled,
    device_sums,
    sums_in_arrays,
)
from ccltui.metrics.view.job_view import View


def _work(random: np.random.Generator, count: int) -> Work:
    """Device work in which several kinds run at once, some of it without a length or a name."""
    names = ["gemm", "relu", ""]
    events = [
        kernel(names[random.integers(3)], 0.01 * int(start), 0.01 * int(random.integers(0, 40)))
        for start in random.integers(0, 3 * count + 1, count)
    ]
    trace = rank_trace(0, gpu=events)
    classes = random.integers(0, 3, count).astype(np.int8)
    other = (classes != MEM) & (random.random(count) < 0.2)
    kinds = np.where(other, np.int8(OTHER), classes)
    return Work(trace.group("gpu"), classes, kinds, len(trace.strings))


def _windows(random: np.random.Generator, work: Work) -> tuple[list[Window], Intervals]:
    """Windows that are apart, some of them next to each other, and what is known of them."""
    edges = np.sort(random.choice(400, 8, replace=False)) * 10 + int(work.gpu.start_ns[0]) - 300
    ends = np.where(random.random(4) < 0.5, edges[1::2], np.append(edges[2::2], edges[-1]))
    rows = list(zip(range(-1, 3), edges[::2].tolist(), ends.tolist(), strict=True))
    known = union([start for _, start, _ in rows], [end for _, _, end in rows])
    if random.random() < 0.4:
        hole = int(random.choice(edges))
        known = known - Intervals.of(hole, hole + 150)
    return rows, known


def _plain(sums: DeviceSums) -> list[object]:
    times, work = sums.times, sums.work
    return [
        times.steps,
        times.window_ns.tolist(),
        times.state_ns.tolist(),
        times.all_ns,
        list(work.rows()),
        sums.started,
        sums.summed_ns,
    ]


@pytest.mark.skipif(not available(), reason="the compiled modules are not built")
@pytest.mark.parametrize("seed", range(150))
def test_the_compiled_pass_finds_what_sets_of_intervals_do(seed: int) -> None:
    random = np.random.default_rng(seed)
    work = _work(random, int(random.integers(1, 60)))
    windows, known = _windows(random, work)

    compiled = _compiled(work, windows, known)

    assert compiled is not None
    assert _plain(compiled) == _plain(sums_in_arrays(work, windows, known))


def test_work_that_is_not_in_order_and_windows_that_overlap_are_summed_in_arrays() -> None:
    random = np.random.default_rng(1)
    work = _work(random, 40)
    first = int(work.gpu.start_ns[0])
    windows = [(0, first, first + 600), (1, first + 200, first + 900)]
    known = Intervals.of(first, first + 900)

    assert _plain(device_sums(work, windows, known)) == _plain(sums_in_arrays(work, windows, known))


def test_times_and_sums_of_three_kernels() -> None:
    allreduce = "ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
    copy = Event("Memcpy HtoD (Pinned -> Device)", 50, 20, 8, category="gpu_memcpy")
    gpu = [kernel("gemm", 0, 40), kernel(allreduce, 20, 40, stream=20), copy]
    rank = View(job(rank_trace(0, gpu=gpu))).ranks[0]

    times = rank.times

    assert (times.any_of(COMM), times.any_of(COMP), times.any_of(MEM)) == (40000, 40000, 20000)
    assert times.any_of(COMM, COMP) == 60000
    assert times.busy_ns == 70000
    assert times.exclusive_ns[1 << COMM | 1 << COMP] == 20000
    assert rank.exposed_ns == 10000  # neither beside the product nor beside the copy
    assert times.by_step(COMM) == {}  # no step is marked
    assert rank.device_sums().summed_ns == (40000, 40000, 20000, 0)
    assert rank.device_sums().kernels_ns == 80000
