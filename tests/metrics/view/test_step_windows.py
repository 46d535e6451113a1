"""The time of steps on the device: from first work to first work, and where that is not known."""

from __future__ import annotations

import random
from itertools import pairwise

import pytest
from factories import Event, copy, job, kernel, launch, rank_trace, step
from msgspec.structs import replace
from worked import two_steps

from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.metrics.view.rank_view import RankView
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window

Windows = tuple[tuple[int, float, float], ...]


def rank_of(trace: RankTrace, **options: object) -> RankView:
    (rank,) = View(job(trace), ViewOptions(**options)).ranks  # type: ignore[arg-type]
    return rank


def windows(trace: RankTrace, **options: object) -> Windows:
    """Step, start and end in us of each measured step."""
    rows = rank_of(trace, **options).step_windows
    return tuple((number, start / 1000, end / 1000) for number, start, end in rows)


def steps(
    *rows: tuple[int, float, float, float], runtime: tuple[Event, ...] = (), dur: float = 100
) -> RankTrace:
    """Steps (number, start of its marker, start and end of its one kernel), in us."""
    launches = [launch(i, marker + 1) for i, (_, marker, _, _) in enumerate(rows)]
    return rank_trace(
        0,
        annotations=[step(number, marker, dur) for number, marker, _, _ in rows],
        runtime=sorted([*launches, *runtime], key=lambda event: event.start_us),
        gpu=[
            Event("gemm", start, end - start, correlation=i)
            for i, (_, _, start, end) in enumerate(rows)
        ],
    )


THREE = ((3, 0, 10, 50), (4, 100, 130, 190), (5, 200, 240, 280))


def test_a_step_lasts_to_the_first_work_of_the_next_and_the_last_to_its_end() -> None:
    assert windows(steps(*THREE)) == ((3, 10, 130), (4, 130, 240), (5, 240, 280))


def test_the_next_step_is_known_where_it_is_not_selected() -> None:
    assert windows(steps(*THREE), steps=(3, 4)) == ((3, 10, 130), (4, 130, 240))
    assert windows(steps(*THREE), span="inner") == ((4, 130, 240),)
    assert windows(steps(*THREE), window=Window(20_000, 200_000)) == ((3, 20, 130), (4, 130, 200))
    assert windows(steps(*THREE), span="trace") == ((-1, 10, 280),)


def test_where_the_profiler_was_off_a_step_ends_with_its_work() -> None:
    later = ((3, 0, 10, 50), (4, 100, 130, 190), (10, 9000, 9010, 9050), (11, 9100, 9110, 9150))

    assert windows(steps(*later)) == (
        (3, 10, 130),
        (4, 130, 190),
        (10, 9010, 9110),
        (11, 9110, 9150),
    )


@pytest.mark.parametrize("name", ["cudaProfilerStop", "cuProfilerStop", "hipProfilerStop"])
def test_where_the_recording_was_stopped_a_step_ends_with_its_work(name: str) -> None:
    """NVTX ranges without a number are numbered in order, over all pauses."""
    rows = ((3, 0, 10, 50), (4, 500, 530, 590), (5, 600, 640, 680))
    stopped = steps(*rows, runtime=(Event(name, 150, 1, 1),))
    elsewhere = steps(*rows, runtime=(Event(name, 50, 1, 1),))

    assert windows(stopped) == ((3, 10, 50), (4, 530, 640), (5, 640, 680))
    assert windows(elsewhere) == ((3, 10, 530), (4, 530, 640), (5, 640, 680))


def test_a_step_without_device_work_is_in_the_time_of_the_one_before() -> None:
    trace = rank_trace(
        0,
        annotations=[step(i, 100 * i, 100) for i in range(3)],
        runtime=[launch(1, 10), launch(2, 210)],
        gpu=[Event("a", 20, 30, correlation=1), Event("b", 220, 30, correlation=2)],
    )

    assert windows(trace) == ((0, 20, 220), (2, 220, 250))
    assert windows(trace, steps=(1, 1)) == ()


def test_steps_whose_work_overlaps_share_no_time() -> None:
    """The work of a step ends after that of the next begins, and the first after all others."""
    rows = ((3, 0, 10, 300), (4, 100, 130, 190), (5, 200, 240, 280))

    assert windows(steps(*rows)) == ((3, 10, 130), (4, 130, 240), (5, 240, 300))


def test_a_copy_fetched_ahead_does_not_begin_a_step() -> None:
    trace = rank_trace(
        0,
        annotations=[step(i, 10 * i, 10) for i in range(3)],
        runtime=[launch(i, 10 * (i // 2)) for i in range(6)],
        gpu=[
            Event("copy", 1, 2, 8, category="gpu_memcpy", correlation=0),
            Event("gemm", 4, 90, correlation=1),
            Event("copy", 11, 2, 8, category="gpu_memcpy", correlation=2),
            Event("copy", 21, 2, 8, category="gpu_memcpy", correlation=4),
            Event("gemm", 100, 90, correlation=3),
            Event("gemm", 200, 90, correlation=5),
        ],
    )

    assert windows(trace) == ((0, 1, 100), (1, 100, 200), (2, 200, 290))


def test_a_stream_that_waits_for_nothing_does_not_begin_steps() -> None:
    """Its kernels run as soon as they are launched, two steps ahead of those that compute."""
    trace = rank_trace(
        0,
        annotations=[step(i, 10 * i, 10) for i in range(3)],
        runtime=[launch(i, 10 * (i // 2)) for i in range(6)],
        gpu=[
            Event("side", 1, 2, 8, correlation=0),
            Event("gemm", 4, 90, correlation=1),
            Event("side", 11, 2, 8, correlation=2),
            Event("side", 21, 2, 8, correlation=4),
            Event("gemm", 100, 90, correlation=3),
            Event("gemm", 200, 90, correlation=5),
        ],
    )

    assert windows(trace) == ((0, 1, 100), (1, 100, 200), (2, 200, 290))


def test_work_of_no_step_is_measured_between_steps() -> None:
    """A kernel launched between two markers, as of an evaluation."""
    trace = rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 300, 100)],
        runtime=[launch(1, 10), launch(2, 150), launch(3, 310)],
        gpu=[
            Event("a", 20, 30, correlation=1),
            Event("b", 200, 40, correlation=2),
            Event("c", 330, 30, correlation=3),
        ],
    )

    rank = rank_of(trace)
    assert (rank.window_ns, rank.occupied.total_ns) == (340_000, 100_000)
    assert rank.work_windows == ((1, 20_000, 50_000), (2, 330_000, 360_000))


def test_without_a_device_steps_are_markers_with_the_time_between_left_out() -> None:
    trace = rank_trace(0, annotations=[step(1, 0, 10), step(2, 20, 10)])

    assert windows(trace) == ((1, 0, 10), (2, 20, 30))


def test_two_steps_by_hand() -> None:
    assert windows(two_steps()) == ((1, 10, 100), (2, 100, 160))
    assert windows(two_steps(second=3)) == ((1, 10, 80), (3, 100, 160))


@pytest.mark.parametrize("seed", range(40))
def test_the_time_of_steps_is_the_span_of_their_work(seed: int) -> None:
    """Any work on three streams, launched in steps that follow: disjoint, whole, in order."""
    rng = random.Random(seed)
    gpu: list[Event] = []
    runtime: list[Event] = []
    for number in range(6):
        for _ in range(rng.randrange(0 if 0 < number < 5 else 1, 8)):
            row = len(gpu) + 1
            at, dur = 100 * number + rng.randrange(300), rng.randrange(1, 150)
            one = kernel("gemm", at, dur, stream=rng.randrange(2)) if rng.random() < 0.7 else None
            event = one or copy(at, dur, 5)
            gpu.append(replace(event, correlation=row))
            runtime.append(launch(row, 100 * number + rng.randrange(99)))
    trace = rank_trace(
        0,
        annotations=[step(number, 100 * number, 100) for number in range(6)],
        gpu=sorted(gpu, key=lambda event: event.start_us),
        runtime=sorted(runtime, key=lambda event: event.start_us),
    )

    rows = windows(trace)
    assert [number for number, _, _ in rows] == sorted(number for number, _, _ in rows)
    assert all(end == begin for (_, _, end), (_, begin, _) in pairwise(rows))
    first = min(event.start_us for event in gpu)
    last = max(event.start_us + event.dur_us for event in gpu)
    assert (rows[0][1], rows[-1][2]) == (first, last)
