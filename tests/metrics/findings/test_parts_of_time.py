"""One pass along the events of a rank finds what the sets of intervals of all it did tell."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Event, rank_trace
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from ccltui.metrics.arrays.compiled import available
from ccltui.metrics.findings.causes.activity import (
    NO_TRIGGER,
    OWN,
    RIGHT_AFTER_NS,
    STANDSTILL_NS,
    Activity,
    KernelNames,
)
from ccltui.metrics.findings.causes.segments import time_between, time_of_sets
from ccltui.metrics.model.calls import CallRows, Calls
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.rank_facts import RankFacts
from ccltui.parsers.array_types import I64
from ccltui.parsers.columns import MISSING

pytestmark = pytest.mark.skipif(not available(), reason="the passes were not compiled")

UNIT_NS = RIGHT_AFTER_NS // 2
"""Times are multiples of it: some ends are just as far back as counts as right before."""
MOMENTS = st.integers(0, 120)
SPANS = st.lists(st.tuples(MOMENTS, st.integers(0, 40)), max_size=12)
CALLS = st.lists(
    st.tuples(MOMENTS, st.integers(0, 40), st.sampled_from([0, 1, 2]), st.booleans()), max_size=12
)
KINDS_OF_GROUPS = np.array([5, 6, 7])


def events(spans: list[tuple[int, int]], *names: str, shift_ns: int = 0) -> list[Event]:
    unit_us = UNIT_NS / 1000
    return [
        Event(names[place % len(names)], at * unit_us + shift_ns / 1000, length * unit_us, 1)
        for place, (at, length) in enumerate(sorted(spans))
    ]


def calls_of(rows: list[tuple[int, int, int, bool]]) -> Calls:
    ordered = sorted(rows)
    count = len(ordered)
    start = np.array([row[0] * UNIT_NS for row in ordered], np.int64)
    types = [TYPES.index("Broadcast" if row[3] else "AllReduce") for row in ordered]
    none: I64 = np.full(count, MISSING, np.int64)
    return Calls(
        source="kernel",
        start_ns=start,
        dur_ns=np.array([row[1] * UNIT_NS for row in ordered], np.int64),
        kind=np.array(types, np.int8),
        group=np.array([row[2] for row in ordered], np.int32),
        message_bytes=none,
        wire_bytes=none,
        in_elems=none,
        out_elems=none,
        dtype=none.astype(np.int32),
        seq=none,
        comms_id=none.astype(np.uint64),
        step=none,
        src=none,
        dst=none,
        rows=CallRows("gpu", np.arange(count)),
        has_metadata=np.zeros(count, np.bool_),
        library=np.zeros(count, np.int8),
    )


@st.composite
def activities(draw: st.DrawFn) -> Activity:
    """A rank with computation, copies, ranges of the host, and calls of three groups."""
    kernels = events(draw(SPANS) or [(0, 1)], "gemm")
    copies = [replace(one, category="gpu_memcpy") for one in events(draw(SPANS), "Memcpy DtoD")]
    shift_ns = draw(st.sampled_from([0, 1]))  # gaps just below the length of a standstill
    trace = rank_trace(
        0,
        gpu=sorted([*kernels, *copies], key=lambda one: one.start_us),
        cpu_ops=events(draw(SPANS), "aten::mm", "aten::add"),
        runtime=events(draw(SPANS), "cudaLaunchKernel", "cudaMalloc", shift_ns=shift_ns),
        annotations=events(draw(SPANS), "get_batch", "forward"),
    )
    calls = calls_of(draw(CALLS))
    kinds = KINDS_OF_GROUPS[calls.group]
    return Activity(
        RankFacts(trace), calls, lambda rows: kinds[rows], KernelNames(), is_large=False
    )


GROUPS = st.sampled_from([frozenset({0}), frozenset({0, 1}), frozenset({3})])


@given(activities(), GROUPS, st.lists(st.tuples(MOMENTS, MOMENTS), max_size=8), st.data())
def test_time_between_moments(
    one: Activity, groups: frozenset[int], spans: list[tuple[int, int]], data: st.DataObject
) -> None:
    last_ns = one.trace.last_ns
    assert last_ns is not None
    table: I64 = np.minimum(np.array(spans, np.int64).reshape(-1, 2) * UNIT_NS, last_ns)
    begin, end = np.ascontiguousarray(table.T)
    drawn = st.sampled_from([NO_TRIGGER, OWN, *KINDS_OF_GROUPS.tolist()])
    triggers = np.array([data.draw(drawn) for _ in spans], np.int32)

    found = time_between(one, begin, end, groups, triggers)

    for place, trigger in enumerate(triggers.tolist()):
        here = slice(place, place + 1)
        expected = time_of_sets(one, begin[here], end[here], groups, trigger)
        assert found[:, here].tolist() == expected.tolist()


@given(activities(), st.lists(MOMENTS, max_size=12), GROUPS)
def test_calls_that_ended_right_before_moments(
    one: Activity, moments: list[int], groups: frozenset[int]
) -> None:
    times = np.array(moments, np.int64) * UNIT_NS

    assert one.ended_before(times).tolist() == one.ended_of_all(times).tolist()
    rows = one.ended_of_all(times)
    kinds = np.where(one.foreign(groups)[rows], one.group_kinds[rows], OWN) if len(one.calls) else 0
    assert one.triggers(times, groups).tolist() == np.where(rows >= 0, kinds, NO_TRIGGER).tolist()


def test_gaps_as_long_as_a_standstill_occur() -> None:
    assert STANDSTILL_NS % UNIT_NS == 0
    assert STANDSTILL_NS // UNIT_NS < 40
