"""hockney: latency and bandwidth from sizes and shortest times."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Coll, Event, allreduce, rank_trace, world
from hypothesis import given
from hypothesis import strategies as st
from worked import cpu_only, gloo_alone, measure

from ccltui.metrics.catalog.communication.hockney import Line, fit
from ccltui.parsers.columns import RankTrace

LATENCY_US, NS_PER_BYTE = 20.0, 0.1  # 10 GB/s


def call(start_us: float, elements: int, wait_us: float, seq: int) -> Event:
    """An all-reduce of floats on the line, with time spent waiting added."""
    time_us = LATENCY_US + 4 * elements * NS_PER_BYTE / 1000 + wait_us
    coll = Coll("allreduce", elements, elements, "Float", seq=seq)
    return allreduce(start_us - wait_us, time_us, coll)


def member(rank: int, count: int = 12) -> RankTrace:
    """Rank 0 waits 300 µs at every second call, rank 1 at the others."""
    calls = [
        call(10_000.0 * (i + 1), 1000 * (1 + i % 6), 300.0 * (i % 2 == rank), i)
        for i in range(count)
    ]
    return rank_trace(rank, gpu=calls, groups=[world(2)], world_size=2)


def test_waiting_bends_no_line_that_takes_the_shortest_over_ranks() -> None:
    result = measure("hockney", member(0), member(1))

    details = result.details
    assert result.value == pytest.approx(10.0, rel=1e-3)
    assert details["alpha_us"] == pytest.approx(LATENCY_US, abs=1e-2)
    assert details["of"] == "AllReduce default_pg 0,1"
    (row,) = details["fits"]
    assert row["beta_us_per_MB"] == pytest.approx(100.0, rel=1e-3)
    assert (row["n"], row["num_sizes"], row["group_size"]) == (12, 6, 2)
    assert row["r2"] == pytest.approx(1.0, abs=1e-6)
    assert row["ci_GBps"][0] <= row["inv_beta_GBps"] <= row["ci_GBps"][1]
    assert (result.status, result.basis["time"]) == ("ok", "shortest duration over ranks")


def test_one_rank_alone_cannot_tell_waiting_from_moving() -> None:
    punctual = [call(10_000.0 * (i + 1), 1000 * (1 + i % 6), 0.0, i) for i in range(12)]
    result = measure("hockney", rank_trace(0, gpu=punctual, groups=[world(2)], world_size=2))

    assert result.status == "partial"
    assert result.value == pytest.approx(10.0, rel=1e-3)
    assert "single_rank" in [reason.code for reason in result.reasons]
    assert result.basis["time"] == "single_rank_dur"


def test_waiting_that_hides_the_size_is_no_bandwidth() -> None:
    """300 µs of waiting at every second call, against 0.4 to 2.4 µs of moving."""
    result = measure("hockney", member(0))

    assert (result.status, result.reason, result.value) == ("unavailable", "not_applicable", None)
    assert "95 % interval of the slope contains 0" in result.reasons[0].message


def test_what_it_needs() -> None:
    assert measure("hockney", cpu_only()).reason == "no_collectives"
    assert measure("hockney", gloo_alone()).reason == "no_gpu_events"
    assert measure("hockney", rank_trace(0, gpu=[allreduce(0, 5)])).reason == "no_message_size"
    few = measure("hockney", member(0, count=4), member(1, count=4))
    assert few.reason == "not_applicable"
    assert "4 calls of 4 sizes" in few.reasons[0].message


def test_a_group_that_fits_no_line_is_listed() -> None:
    """Times that fall with the size: the fit of another group is given, this one explained."""
    odd = [
        Event(
            "ncclDevKernel_Broadcast_RING_LL(a)",
            200_000 + 1000 * i,
            100 - i,
            20,
            Coll("broadcast", 10 * (i + 1), 10 * (i + 1), "Float", seq=100 + i),
        )
        for i in range(8)
    ]

    def with_odd(rank: int) -> RankTrace:
        calls = [call(10_000.0 * (i + 1), 1000 * (1 + i % 6), 0.0, i) for i in range(12)]
        return rank_trace(rank, gpu=[*calls, *odd], groups=[world(2)], world_size=2)

    details = measure("hockney", with_odd(0), with_odd(1)).details

    assert [row["type"] for row in details["fits"]] == ["AllReduce"]
    (rejected,) = details["rejected"]
    assert rejected["type"] == "Broadcast"
    assert "no longer" in rejected["why"]


@given(
    st.floats(1_000, 1e6),
    st.floats(1e-3, 10),
    # Durations are whole ns: sizes nearer to each other than this have no slope of their own.
    st.lists(st.integers(1, 1 << 10).map(lambda n: n << 16), min_size=6, max_size=40, unique=True),
)
def test_calls_on_a_line_give_that_line(alpha: float, beta: float, sizes: list[int]) -> None:
    size = np.array(sizes, np.int64)

    line = fit(size, np.rint(alpha + beta * size).astype(np.int64))

    if isinstance(line, Line):  # not where all sizes are so near that rounding hides the slope
        assert line.beta_low <= line.beta_ns_per_byte <= line.beta_high
        assert line.beta_ns_per_byte == pytest.approx(beta, rel=0.05, abs=2 / np.ptp(size))


def test_a_negative_latency_is_no_fit() -> None:
    size = np.array([1000, 2000, 3000, 4000, 5000], np.int64)

    found = fit(size, np.array([100, 1100, 2100, 3100, 4100], np.int64))

    assert isinstance(found, str)
    assert "negative" in found


def test_many_calls_are_fitted_from_an_even_selection() -> None:
    size = np.tile(np.arange(1, 101), 50).astype(np.int64) * 1000

    line = fit(size, 5000 + 2 * size)

    assert isinstance(line, Line)
    assert (line.n, line.sizes) == (5000, 100)
    assert line.beta_ns_per_byte == 2.0
    assert line.alpha_ns == 5000.0


def test_a_fit_that_sizes_do_not_explain_is_no_value() -> None:
    times = [300.0, 20.0, 250.0, 30.0, 280.0, 40.0, 260.0, 35.0]
    gpu = []
    for k, dur in enumerate(times):
        size = 1_000 * (k + 1)
        gpu.append(allreduce(1_000.0 * k, dur, Coll("allreduce", size, size, group_size=1, seq=k)))
    result = measure("hockney", rank_trace(0, gpu=gpu, groups=[world(2)]))

    assert result.value is None
    assert result.reason == "not_applicable"
