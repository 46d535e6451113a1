"""Lag, wait and last rank in both measures, the lag floor, and types that never blame a rank."""

from __future__ import annotations

import numpy as np
import pytest
from calls_by_hand import Call, group, member
from hypothesis import given
from hypothesis import strategies as st

from ccltui.metrics.collectives.arrivals import (
    Arrivals,
    GroupArrivals,
    arrivals,
    blame_floor,
    drawn_floor,
)
from ccltui.metrics.collectives.clocks.clock_estimate import estimate_clocks
from ccltui.metrics.collectives.matching.match import HIGH, LOW, MEDIUM, MatchInput, match_calls
from ccltui.metrics.model.communicator_groups import CommGroup


def arrived(inputs: list[MatchInput], *groups: CommGroup, raw_clocks: bool = False) -> Arrivals:
    matches = match_calls(inputs, groups)
    clocks = estimate_clocks(matches, inputs)
    return arrivals(matches, inputs, clocks, raw_clocks=raw_clocks)


def only(found: Arrivals) -> GroupArrivals:
    assert len(found.groups) == 1
    return found.groups[0]


def us(values: np.ndarray) -> list[object]:
    return list((values / 1000).tolist())


def one_allreduce(kind: str = "AllReduce", host: str = "a") -> list[MatchInput]:
    times = ((0, 100), (30, 100), (90, 101))
    return [
        member(rank, [Call(start, end, kind, seq=0, elems=4)], host=host)
        for rank, (start, end) in enumerate(times)
    ]


def test_worked_example_of_lag_blame_and_wait() -> None:
    found = only(arrived(one_allreduce(), group(0, 1, 2)))

    assert us(found.lag_ns) == [89]
    assert us(found.wait_ns) == [[89, 59, 0]]
    assert us(found.late_ns) == [[0, 30, 89]]
    assert found.last.tolist() == [2]
    aligned = found.by_start
    assert aligned is not None
    assert us(aligned.lag_ns) == [90]
    assert us(aligned.wait_ns) == [[90, 60, 0]]
    assert aligned.last.tolist() == [2]
    assert found.match.overlap.tolist() == [1]
    assert found.match.confidence.tolist() == [HIGH]


def test_two_ranks_with_a_clock_offset_and_no_lag_blame_no_rank() -> None:
    inputs = [member(rank, [Call(0, 200, step=5)], shift_us=5000 * rank) for rank in range(2)]

    found = only(arrived(inputs, group(0, 1)))
    raw = only(arrived(inputs, group(0, 1), raw_clocks=True))

    assert us(found.lag_ns) == [0]
    assert found.last.tolist() == [-1]
    assert found.by_start is not None
    assert us(found.by_start.lag_ns) == [0]
    assert raw.by_start is not None
    assert us(raw.by_start.lag_ns) == [5000]  # what the correction is for
    assert us(raw.lag_ns) == [0]


def test_a_lag_below_the_floor_is_a_tie() -> None:
    rows = [
        [Call(0, 100, seq=0), Call(200, 300, seq=1)],
        [Call(9, 100, seq=0), Call(211, 300, seq=1)],
    ]
    inputs = [member(rank, rows[rank]) for rank in range(2)]

    found = arrived(inputs, group(0, 1))

    assert found.floor_ns == 10_000
    assert us(only(found).lag_ns) == [9, 11]
    assert only(found).last.tolist() == [-1, 1]


def test_the_floor_is_three_residuals_of_the_clocks() -> None:
    jitter = np.random.default_rng(5).uniform(-20, 20, (2, 100))
    inputs = [
        member(rank, [Call(100 * k, 100 * k + 50 + jitter[rank, k], seq=k) for k in range(100)])
        for rank in range(2)
    ]
    clocks = estimate_clocks(match_calls(inputs, [group(0, 1)]), inputs)

    assert clocks.residual_p95_ns is not None
    assert blame_floor(clocks) == 3 * clocks.residual_p95_ns
    assert 30_000 < blame_floor(clocks) < 60_000


@pytest.mark.parametrize("kind", ["Broadcast", "Reduce", "Gather", "Scatter", "Other"])
def test_one_sided_and_unknown_types_are_measured_but_blame_no_rank(kind: str) -> None:
    found = only(arrived(one_allreduce(kind), group(0, 1, 2)))

    assert found.eligible.tolist() == [False]
    assert us(found.lag_ns) == [89]
    assert found.last.tolist() == [-1]


@pytest.mark.parametrize(
    ("kind", "confidence"), [("AllToAll", MEDIUM), ("SendRecv", LOW), ("Generic", LOW)]
)
def test_an_all_to_all_or_an_unknown_type_blames_with_less_confidence(
    kind: str, confidence: int
) -> None:
    found = only(arrived(one_allreduce(kind), group(0, 1, 2)))

    assert found.match.confidence.tolist() == [HIGH]
    assert found.confidence.tolist() == [confidence]
    assert found.eligible.tolist() == [True]
    assert found.last.tolist() == [2]


def test_incomplete_and_mismatched_instances_have_no_lag() -> None:
    left = [Call(0, 9, seq=0), Call(20, 29, elems=4, seq=1), Call(40, 59, seq=2)]
    right = [Call(20, 29, elems=5, seq=1), Call(52, 59, seq=2)]

    found = only(arrived([member(0, left), member(1, right)], group(0, 1)))

    assert found.eligible.tolist() == [False, False, True]
    assert found.lag_ns.tolist() == [-1, -1, 12_000]
    assert found.wait_ns.tolist() == [[-1, -1], [-1, -1], [12_000, 0]]
    assert found.dur_ns.tolist()[0] == [9_000, -1]
    assert found.start_ns[0, 1] == -1
    assert found.last.tolist() == [-1, -1, 1]
    assert found.first_start_ns[0] == found.start_ns[0, 0]


def test_without_a_known_clock_only_durations_count() -> None:
    groups = (group(0, 1), group(0, 2))
    rows = [Call(0, 10, "Broadcast", group=0, seq=0)]
    found = only(arrived([member(0, rows), member(1, rows)], *groups))

    assert found.by_start is None


@given(
    delay_us=st.integers(11, 5000),
    late=st.integers(0, 3),
    count=st.integers(1, 12),
    shift_us=st.integers(-100_000, 100_000),
)
def test_delaying_one_rank_with_equal_ends_is_its_lag_and_the_others_wait(
    delay_us: int, late: int, count: int, shift_us: int
) -> None:
    inputs = [
        member(
            rank,
            [
                Call(10_000 * k + delay_us * (rank == late), 10_000 * k + 6000, seq=k)
                for k in range(count)
            ],
            shift_us=shift_us * (rank == 1),
        )
        for rank in range(4)
    ]

    found = only(arrived(inputs, group(0, 1, 2, 3)))

    assert found.by_start is not None
    for lateness in (found.clock_free, found.by_start):
        assert us(lateness.lag_ns) == [delay_us] * count
        assert lateness.last.tolist() == [late] * count
        expected = [0 if rank == late else delay_us for rank in range(4)]
        assert us(lateness.wait_ns) == [expected] * count
        assert np.array_equal(
            lateness.wait_ns + lateness.late_ns, np.full((count, 4), delay_us * 1000)
        )


@given(st.data())
def test_the_sum_of_waits_equals_the_sum_of_caused_waits(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 8))
    starts = data.draw(
        st.lists(
            st.lists(st.integers(0, 900), min_size=3, max_size=3), min_size=count, max_size=count
        )
    )
    inputs = [
        member(
            rank,
            [Call(2000 * k + row[rank], 2000 * k + 1000, seq=k) for k, row in enumerate(starts)],
        )
        for rank in range(3)
    ]

    found = only(arrived(inputs, group(0, 1, 2)))

    blamed = found.last >= 0
    caused = [int(found.wait_ns[found.last == rank].sum()) for rank in range(3)]
    assert sum(caused) == int(found.wait_ns[blamed].sum())


@given(st.lists(st.integers(-(10**8), 10**8), min_size=3, max_size=3))
def test_clocks_change_no_clock_free_number(shifts_us: list[int]) -> None:
    def found(shifts: list[int]) -> GroupArrivals:
        rows = [
            [Call(100 * k + 7 * rank * k, 100 * k + 90, seq=k) for k in range(5)]
            for rank in range(3)
        ]
        inputs = [member(rank, rows[rank], shift_us=shifts[rank]) for rank in range(3)]
        return only(arrived(inputs, group(0, 1, 2)))

    still, moved = found([0, 0, 0]), found(shifts_us)

    assert np.array_equal(still.lag_ns, moved.lag_ns)
    assert np.array_equal(still.wait_ns, moved.wait_ns)
    assert np.array_equal(still.last, moved.last)


def send_receives(short: tuple[int, ...]) -> Arrivals:
    """12 SendRecv kernels of 4 ranks that end together; some ranks are 5 ms late in all of them."""
    rows: list[list[Call]] = [[], [], [], []]
    for number in range(12):
        end = 20_000.0 * (number + 1)
        for rank in range(4):
            start = end - (300 if rank in short else 5_300) - 3 * rank
            rows[rank].append(Call(start, end + rank, "SendRecv", group=-1))
    return arrived([member(rank, row, host="a") for rank, row in enumerate(rows)])


def test_exchanges_in_which_all_wait_for_one_rank_are_no_transfers() -> None:
    assert set(only(send_receives((2,))).confidence.tolist()) == {MEDIUM}
    assert set(only(send_receives((1, 2))).confidence.tolist()) == {LOW}  # two sides of a transfer


@pytest.mark.parametrize(("blamed_ns", "drawn_ns"), [(10_000, 100_000), (180_000, 180_000)])
def test_no_lag_is_drawn_as_late_that_blames_nobody(blamed_ns: int, drawn_ns: int) -> None:
    assert drawn_floor(blamed_ns) == drawn_ns
