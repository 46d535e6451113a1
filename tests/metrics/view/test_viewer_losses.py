"""What other viewers hide: each rule counted on traces with known answers."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from factories import Event, allreduce, job, kernel, launch, rank_trace, step
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ccltui.metrics.view.job_view import View
from ccltui.metrics.view.viewer_losses import ViewerLoss, overlapping, viewer_losses
from ccltui.parsers.columns import RankTrace


def losses(*traces: RankTrace) -> dict[str, ViewerLoss]:
    return {f"{one.viewer}: {one.hides}"[:40]: one for one in viewer_losses(View(job(*traces)))}


def counts(*traces: RankTrace) -> dict[str, tuple[int, int]]:
    return {name: (one.count, one.total) for name, one in losses(*traces).items()}


def spans(*rows: tuple[int, int], stream: int = 7) -> list[Event]:
    return [kernel("k", start, end - start, stream) for start, end in rows]


@pytest.mark.parametrize(
    ("events", "count"),
    [
        (spans((0, 10), (10, 20)), 0),
        (spans((0, 10), (2, 8)), 0),  # inside
        (spans((0, 10), (0, 4), (4, 10)), 0),
        (spans((0, 10), (9, 20)), 1),
        (spans((0, 10), (9, 20), (19, 30)), 1),  # the second is not drawn, so the third is
        (spans((0, 10), (9, 20), (9, 20)), 2),
        (spans((0, 30), (5, 10), (9, 12), (11, 40)), 2),
        (spans((0, 10)) + spans((5, 15), stream=8), 0),  # another stream
        (spans((0, 10), (5, 5)), 0),
        ([], 0),
    ],
)
def test_events_that_overlap_on_a_stream_without_nesting(events: list[Event], count: int) -> None:
    assert overlapping(rank_trace(gpu=events)) == count


def drawn_one_by_one(rows: Sequence[tuple[int, int]]) -> int:
    """Place slices on a row as a viewer of nested ones does, without any short cut."""
    kept: list[tuple[int, int]] = []
    hidden = 0
    for start, end in sorted(rows, key=lambda row: (row[0], -row[1])):
        if any(one[0] <= start < one[1] < end for one in kept):
            hidden += 1
        else:
            kept.append((start, end))
    return hidden


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 12)), max_size=25))
def test_any_events_are_counted_as_one_by_one(rows: list[tuple[int, int]]) -> None:
    events = [(start, start + length) for start, length in rows]

    assert overlapping(rank_trace(gpu=spans(*events))) == drawn_one_by_one(events)


def stepped(*, last_first: bool = False) -> RankTrace:
    """Three steps of a kernel, one kernel after them, one without a launch."""
    steps = [step(n, 100 * n, 90) for n in ((2, 1, 0) if last_first else (0, 1, 2))]
    starts = [(1, 10), (2, 110), (3, 210), (4, 400)]
    return rank_trace(
        annotations=steps,
        runtime=[launch(number, start - 5) for number, start in starts],
        gpu=[
            *(kernel("gemm", start, 20, correlation=number) for number, start in starts),
            kernel("gemm", 150, 20),
        ],
    )


@pytest.mark.parametrize("last_first", [False, True])
def test_the_last_step_and_work_outside_of_steps(*, last_first: bool) -> None:
    assert counts(stepped(last_first=last_first)) == {
        "HTA: the last step, and what was launche": (2, 5),
        "HTA: device events without a launch reco": (1, 5),
    }


def test_work_launched_before_the_recording_is_named() -> None:
    trace = rank_trace(
        runtime=[launch(1, 50)], gpu=[kernel("a", 10, 5), kernel("b", 60, 5, correlation=1)]
    )

    (loss,) = losses(trace).values()

    assert loss.hides.endswith("(1 of them were launched before the recording began)")
    assert loss.here == "1 of 2 device events"


def test_fractions_of_microseconds_are_those_of_starts_and_durations() -> None:
    gpu = [kernel("a", 1.5, 2), kernel("b", 4, 0.25), kernel("c", 8, 1)]
    trace = rank_trace(
        gpu=[replace(one, correlation=n) for n, one in enumerate(gpu, 1)],
        runtime=[launch(n, 0) for n in (1, 2, 3)],
    )

    assert counts(trace) == {"HTA: fractions of a microsecond: it roun": (2, 3)}


def test_the_base_of_a_file_is_no_fraction() -> None:
    gpu, base_ns = [kernel("a", 1, 2, correlation=1)], 1_700_000_000_000_000_123
    trace = rank_trace(gpu=gpu, runtime=[launch(1, 0)], base_ns=base_ns)

    assert counts(trace) == {}


def test_names_of_todays_collectives_and_files_without_a_rank() -> None:
    gpu = [
        replace(allreduce(10, 5), correlation=1),
        replace(kernel("ncclKernel_AllReduce_RING_LL_Sum_float(x)", 30, 5), correlation=2),
    ]
    trace = rank_trace(None, gpu=gpu, runtime=[launch(1, 0), launch(2, 20)])

    assert counts(trace) == {
        "HTA, stragglers: collective kernels whos": (1, 2),
        "HTA: files that state no rank: it does n": (1, 1),
    }


def test_every_rule_names_where_it_is_reported() -> None:
    found = viewer_losses(View(job(stepped(), rank_trace(None, gpu=spans((0, 10), (9, 20))))))

    assert {one.viewer for one in found} == {"HTA", "Perfetto 49 and newer"}
    assert all(one.source and one.count <= one.total for one in found)


def test_files_of_other_profilers_are_not_judged() -> None:
    trace = stepped()
    source = replace(trace.source, format="nsys_sqlite")

    assert viewer_losses(View(job(replace(trace, source=source)))) == []
