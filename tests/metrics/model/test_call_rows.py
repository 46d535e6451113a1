"""Rows of calls: repeats, launch sites, rates."""

from __future__ import annotations

import numpy as np
import pytest
from factories import Event, launch, rank_trace
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.model.bandwidth import matched_bandwidth, message_bytes, wire_factor
from ccltui.metrics.model.call_families import _by_pair
from ccltui.metrics.model.calls import CallRows
from ccltui.metrics.model.classify import TYPES
from ccltui.metrics.model.launch_site import launch_site


def test_rows_are_given_for_their_own_group_only() -> None:
    rows = CallRows("cpu_ops", np.array([3, 5]))

    assert rows.of("cpu_ops").tolist() == [3, 5]
    with pytest.raises(ValueError, match="rows of cpu_ops, not of gpu"):
        rows.of("gpu")


def test_calls_without_a_row_follow() -> None:
    assert CallRows("gpu", np.array([3])).with_none(2).numbers.tolist() == [3, -1, -1]


FAR = st.integers(-(1 << 62), 1 << 62)
PAIRS = st.tuples(st.integers(0, 3) | FAR, st.integers(-2, 5) | FAR)


@given(st.lists(PAIRS, max_size=40))
def test_order_is_that_of_pairs(pairs: list[tuple[int, int]]) -> None:
    code, sequence = np.array(pairs, np.int64).reshape(-1, 2).T

    found = _by_pair(code, sequence).tolist()

    assert found == sorted(range(len(pairs)), key=lambda i: pairs[i])


def test_order_of_close_numbers() -> None:
    code, sequence = np.array([7, 7, 9, 7, 9]), np.array([1, 2, 1, 1, -1])

    assert _by_pair(code, sequence).tolist() == [0, 3, 1, 4, 2]


def test_the_innermost_operator_on_the_thread_of_the_launch() -> None:
    trace = rank_trace(
        0,
        gpu=[Event("gemm", 40, 10, correlation=5)],
        runtime=[launch(5, 30, 4, thread=1)],
        cpu_ops=[Event("linear", 10, 60, 1), Event("mm", 20, 30, 1), Event("load", 25, 30, 2)],
    )

    found = launch_site(trace, 0)

    assert found is not None
    assert (found.call.name, found.delay_ns) == ("cudaLaunchKernel", 10_000)
    assert found.operator is not None
    assert (found.operator.name, found.operator.end_ns - found.operator.start_ns) == ("mm", 30_000)


def test_the_operator_that_the_trace_names_comes_before_the_innermost() -> None:
    trace = rank_trace(
        0,
        gpu=[Event("gemm", 40, 10, correlation=5, external_id=9)],
        runtime=[launch(5, 30, 4, thread=1)],
        cpu_ops=[Event("linear", 10, 60, 1, external_id=9), Event("mm", 20, 30, 1)],
    )

    found = launch_site(trace, 0)

    assert found is not None
    assert found.operator is not None
    assert found.operator.name == "linear"


def test_a_launch_that_is_not_recorded_is_no_site() -> None:
    trace = rank_trace(0, gpu=[Event("gemm", 40, 10)], cpu_ops=[Event("mm", 20, 30, 1)])

    assert launch_site(trace, 0) is None
    with pytest.raises(IndexError):
        launch_site(trace, 1)


MI = 2**20


def size(kind: str, in_bytes: int = -1, out_bytes: int = -1, n: int = -1) -> int:
    return int(message_bytes([TYPES.index(kind)], [in_bytes], [out_bytes], [n])[0])


def factor(kind: str, n: int) -> float:
    return float(wire_factor([TYPES.index(kind)], [n])[0])


@pytest.mark.parametrize(
    ("kind", "in_bytes", "out_bytes", "n", "expected"),
    [
        ("AllReduce", 8, 8, 4, 8),
        ("AllReduce", -1, 8, 4, 8),
        ("ReduceScatter", 16 * MI, 8 * MI, 2, 16 * MI),
        ("ReduceScatter", -1, 8 * MI, 2, 16 * MI),
        ("AllGather", 8 * MI, 16 * MI, 2, 16 * MI),
        ("AllGather", 8 * MI, -1, 2, 16 * MI),
        ("AllGather", 8 * MI, -1, 1, 8 * MI),
        ("AllReduce", 0, 8, 4, 0),  # what the input states counts, also that it is empty
        ("AllGather", 8 * MI, -1, -1, -1),  # a part of an unknown number of parts
        ("AllToAll", 12, 20, 4, 12),
        ("AllToAll", -1, 20, 4, -1),
        ("Broadcast", 0, 7, 4, 7),
        ("Reduce", 7, 0, 4, 7),
        ("Gather", 5, 0, 4, 20),
        ("Gather", 5, 20, 4, 20),
        ("Gather", 5, 20, -1, 20),
        ("Scatter", 0, 5, 4, 20),
        ("Send", 2 * MI, -1, 2, 2 * MI),
        ("Recv", -1, 2 * MI, 2, 2 * MI),
        ("SendRecv", -1, -1, 2, -1),
        ("Generic", 3, 4, 2, 4),
    ],
)
def test_message_size(kind: str, in_bytes: int, out_bytes: int, n: int, expected: int) -> None:
    assert size(kind, in_bytes, out_bytes, n) == expected


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("AllReduce", 1.5),
        ("ReduceScatter", 0.75),
        ("AllGather", 0.75),
        ("AllToAll", 0.75),
        ("Gather", 0.75),
        ("Scatter", 0.75),
        ("Broadcast", 1.0),
        ("Reduce", 1.0),
        ("Send", 1.0),
        ("Recv", 1.0),
    ],
)
def test_factor_of_a_group_of_four(kind: str, expected: float) -> None:
    assert factor(kind, 4) == expected


def test_a_factor_that_is_not_known_is_not_a_number() -> None:
    assert np.isnan(factor("SendRecv", 4))
    assert np.isnan(factor("Generic", 4))
    assert np.isnan(factor("AllReduce", -1))
    assert factor("AllReduce", 1) == 0.0


def test_worked_example_of_an_allreduce() -> None:
    dur_ns = np.array([[12_000_000, 10_000_000, 11_000_000, 10_000_000]])
    bytes_each = np.full((1, 4), 100_000_000)

    found = matched_bandwidth([TYPES.index("AllReduce")], bytes_each, dur_ns, [4])

    assert found.time_ns.tolist() == [10_000_000]
    assert found.algbw_gbps.tolist() == [10.0]
    assert found.busbw_gbps.tolist() == [15.0]


def test_worked_example_of_an_all_gather_counts_the_whole_output() -> None:
    message = size("AllGather", 25_000_000, 100_000_000, 4)
    dur_ns = np.full((1, 4), 10_000_000)

    gather = matched_bandwidth([TYPES.index("AllGather")], np.full((1, 4), message), dur_ns, [4])

    assert message == 100_000_000
    assert gather.busbw_gbps.tolist() == [7.5]


@pytest.mark.parametrize("n", [2, 3, 8, 64])
def test_gathering_the_parts_is_as_fast_as_reducing_the_whole(n: int) -> None:
    part = 1000
    dur_ns = np.full((1, n), 5000)
    kinds = {name: [TYPES.index(name)] for name in ("AllGather", "ReduceScatter")}
    gathered = np.full((1, n), size("AllGather", part, n * part, n))
    scattered = np.full((1, n), size("ReduceScatter", n * part, part, n))

    one = matched_bandwidth(kinds["AllGather"], gathered, dur_ns, [n])
    other = matched_bandwidth(kinds["ReduceScatter"], scattered, dur_ns, [n])

    assert one.busbw_gbps.tolist() == other.busbw_gbps.tolist()
    assert one.busbw_gbps / one.algbw_gbps == pytest.approx([(n - 1) / n])


def test_absent_members_unknown_sizes_and_empty_times_give_no_number() -> None:
    kinds = [TYPES.index("AllReduce")] * 4
    sizes = np.array([[8, -1], [-1, -1], [8, 8], [8, 8]])
    durations = np.array([[4, -1], [4, 4], [0, 4], [-1, -1]])

    found = matched_bandwidth(kinds, sizes, durations, [2] * 4)

    assert found.message_bytes.tolist() == [8, -1, 8, 8]
    assert found.time_ns.tolist() == [4, 4, 0, -1]
    assert found.busbw_gbps[0] == 2.0
    assert np.isnan(found.busbw_gbps[1:]).all()


def test_an_empty_message_has_a_bandwidth_of_zero_and_an_unknown_one_has_none() -> None:
    sizes, times = np.array([[0], [-1], [8]]), np.array([[5], [5], [1]])

    found = matched_bandwidth([TYPES.index("AllReduce")] * 3, sizes, times, [2, 2, 2])

    np.testing.assert_array_equal(found.algbw_gbps, [0.0, np.nan, 8.0])
