"""Identities that hold for every trace, exactly in ns."""

from __future__ import annotations

import itertools
import random

from factories import Coll, Event, copy, job, kernel, launch, rank_trace, step, world
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import structs

from ccltui.metrics.catalog.communication.comm_comp_overlap import measure
from ccltui.metrics.model.bandwidth import wire_factor
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.registry import metrics
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import RankTrace
from ccltui.parsers.window import Window

FEW = settings(max_examples=25, deadline=None)  # every metric, twice
MANY = settings(deadline=None)

NAMES = ("sm80_xmma_gemm", "elementwise", "ncclDevKernel_AllReduce_Sum_f32_RING_LL(a)", "copy")
TIMES = st.integers(0, 400)
DURATIONS = st.integers(0, 60)


@st.composite
def device_events(draw: st.DrawFn) -> list[Event]:
    """Kernels, collectives and copies on three streams, launched or not."""
    events = []
    for number in range(draw(st.integers(1, 25))):
        name, stream = draw(st.sampled_from(NAMES)), draw(st.sampled_from((7, 8, 20)))
        start, dur = draw(TIMES) / 1000, draw(DURATIONS) / 1000
        correlation = number if draw(st.booleans()) else -1
        if name == "copy":
            events.append(structs.replace(copy(start, dur, stream), correlation=correlation))
        elif name.startswith("nccl"):
            coll = Coll("allreduce", 8, 8, seq=number) if draw(st.booleans()) else None
            events.append(Event(name, start, dur, stream, coll, correlation))
        else:
            events.append(kernel(name, start, dur, stream, correlation=correlation))
    return events


def trace_of(
    events: list[Event], *, marked: bool, shift_us: float = 0.0, rank: int = 0
) -> RankTrace:
    launches = [launch(e.correlation, e.start_us / 2) for e in events if e.correlation >= 0]
    steps = [step(1, 0, 0.1), step(2, 0.1, 0.12), step(3, 0.25, 0.1)] if marked else []
    return rank_trace(
        rank,
        gpu=events,
        runtime=launches,
        annotations=steps,
        groups=[world(2)],
        world_size=2,
        shift_us=shift_us,
    )


@MANY
@given(device_events(), st.booleans(), st.tuples(TIMES, TIMES))
def test_time_is_divided_without_rest(
    events: list[Event], marked: bool, window: tuple[int, int]
) -> None:
    start, end = sorted(window)
    view = View(job(trace_of(events, marked=marked)), ViewOptions(window=Window(start, end)))
    (rank,) = view.ranks
    comm, comp, mem = rank.comm, rank.comp, rank.mem

    comp_only, comm_only = (comp - comm).total_ns, (comm - comp).total_ns
    mem_only, overlap = (mem - (comm | comp)).total_ns, (comm & comp).total_ns
    part = measure(rank)

    assert part.idle + comp_only + comm_only + overlap + mem_only == rank.window_ns
    assert comm.total_ns == comm_only + overlap == part.exposed + part.overlap
    assert 0 <= part.overlap <= min(part.comm, part.comp)
    assert part.comm <= part.comm_sum
    assert part.comp <= part.comp_sum
    assert part.span_idle >= part.idle


@MANY
@given(device_events(), st.booleans())
def test_counts_by_type_and_by_rank_sum_to_the_total(events: list[Event], marked: bool) -> None:
    view = View(job(trace_of(events, marked=marked), trace_of(events[:3], marked=marked, rank=1)))

    details = metrics()["coll_call_num"].run(view).details

    total = details["total_calls"]
    assert sum(details["calls_by_type"].values()) == total
    assert sum(details["calls_per_rank"].values()) == total
    assert sum(row["calls"] for row in details["calls_by_group"]) == total
    by_step = sum(sum(steps.values()) for steps in details["calls_per_step"].values())
    assert by_step == (total if marked else 0)


@MANY
@given(device_events())
def test_fractions_sum_to_one_or_are_all_null(events: list[Event]) -> None:
    result = metrics()["traffic_distribution"].run(View(job(trace_of(events, marked=False))))

    if result.status != "unavailable":
        for name in ("fractions", "time_fractions"):
            known = [share for share in result.details[name].values() if share is not None]
            assert not known or abs(sum(known) - 1) < 1e-9


@FEW
@given(device_events(), st.booleans(), st.integers(-10_000, 10_000))
def test_a_constant_on_every_time_of_a_rank_changes_nothing(
    events: list[Event], marked: bool, shift: int
) -> None:
    plain = View(job(trace_of(events, marked=marked)))
    moved = View(job(trace_of(events, marked=marked, shift_us=shift)))

    for metric in metrics().values():
        assert metric.run(plain).to_document() == metric.run(moved).to_document()


@FEW
@given(device_events(), st.booleans(), st.randoms(use_true_random=False))
def test_the_order_in_the_file_changes_nothing(
    events: list[Event], marked: bool, shuffler: random.Random
) -> None:
    # The columns are sorted by (start, longer first); equal ones may stand in any order.
    shuffled = events.copy()
    shuffler.shuffle(shuffled)

    one = View(job(trace_of(events, marked=marked)))
    other = View(job(trace_of(shuffled, marked=marked)))
    for metric in metrics().values():
        assert metric.run(one).to_document() == metric.run(other).to_document()


@MANY
@given(device_events())
def test_windows_that_partition_the_job_sum_to_the_whole(events: list[Event]) -> None:
    trace = trace_of(events, marked=False)
    whole = View(job(trace)).ranks[0]

    edges = [None, 100, 250, None]
    parts = [
        View(job(trace), ViewOptions(window=Window(a, b))).ranks[0]
        for a, b in itertools.pairwise(edges)
    ]

    assert sum(part.window_ns for part in parts) == whole.window_ns
    assert sum(part.comm.total_ns for part in parts) == whole.comm.total_ns
    assert sum(len(part.selected_calls) for part in parts) == len(whole.selected_calls)


@MANY
@given(st.integers(2, 64))
def test_a_gather_and_a_reduce_scatter_of_one_size_cost_the_same(size: int) -> None:
    kinds = [TYPES.index("AllGather"), TYPES.index("ReduceScatter"), TYPES.index("AllReduce")]

    gather, scatter, both = wire_factor(kinds, [size] * 3)

    assert gather == scatter
    assert both == 2 * gather
