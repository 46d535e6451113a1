"""Clock offsets from collective ends: exact, pooled by host, linked by groups, and unknown."""

from __future__ import annotations

import numpy as np
import pytest
from calls_by_hand import EPOCH_NS, Call, group, member
from hypothesis import given, settings
from hypothesis import strategies as st

from ccltui.metrics.arrays.typical import UNKNOWN_ERROR, Z_99, slopes
from ccltui.metrics.collectives.clocks.clock_estimate import (
    Observation,
    components,
    estimate_clocks,
    solve,
    standard_errors,
)
from ccltui.metrics.collectives.clocks.clock_model import Clock, ClockModel
from ccltui.metrics.collectives.matching.match import MatchInput, match_calls
from ccltui.metrics.model.communicator_groups import CommGroup


def clocks_of(inputs: list[MatchInput], *groups: CommGroup) -> ClockModel:
    return estimate_clocks(match_calls(inputs, groups), inputs)


def rows(
    ends_us: np.ndarray | list[float], late_us: float = 0, group: int = 0, kind: str = "AllReduce"
) -> list[Call]:
    """Calls with sequence numbers that began 50 µs, less ``late_us``, before they ended."""
    return [
        Call(float(end) - 50 + late_us, float(end), kind, group=group, seq=index, elems=4)
        for index, end in enumerate(ends_us)
    ]


def test_worked_example_of_one_allreduce_with_one_clock_ahead() -> None:
    inputs = [
        member(0, [Call(0, 100, seq=0)]),
        member(1, [Call(30, 100, seq=0)], shift_us=5000),
        member(2, [Call(90, 101, seq=0)]),
    ]

    clocks = clocks_of(inputs, group(0, 1, 2))

    assert clocks.offsets_ns == {"0": 0, "1": 5_000_000, "2": 1_000}
    assert all(clock.known and clock.n == 1 for clock in clocks.clocks.values())


@pytest.mark.parametrize("shift_us", [2500, 5000, -5000, 1_000_000])
def test_a_shifted_clock_is_found_to_the_microsecond_under_jitter(shift_us: int) -> None:
    jitter = np.random.default_rng(7).uniform(-3, 3, (4, 200))
    ends = 1000.0 * np.arange(1, 201)
    inputs = [
        member(rank, rows(ends + jitter[rank], late_us=7 * rank), shift_us=shift_us * (rank == 3))
        for rank in range(4)
    ]

    clocks = clocks_of(inputs, group(0, 1, 2, 3))

    assert clocks.offsets_ns["3"] == pytest.approx(shift_us * 1000, abs=1000)
    assert clocks.offsets_ns["1"] == pytest.approx(0, abs=1000)
    assert clocks.clocks["3"].residual_p95_ns == pytest.approx(3_000, abs=1_500)
    assert clocks.clocks["3"].drift_ppb is None
    assert clocks.evidence == "dependent collectives"


@given(st.integers(-(10**9), 10**9))
@settings(max_examples=30)
def test_a_constant_added_to_one_clock_is_added_to_its_offset(shift_us: int) -> None:
    ends = [100.0, 310.0, 480.0, 900.0]
    before = clocks_of([member(r, rows(ends, late_us=r)) for r in range(3)], group(0, 1, 2))
    moved = [member(r, rows(ends, late_us=r), shift_us=shift_us * (r == 1)) for r in range(3)]

    after = clocks_of(moved, group(0, 1, 2))

    assert after.offsets_ns["1"] - before.offsets_ns["1"] == shift_us * 1000
    assert after.offsets_ns["2"] == before.offsets_ns["2"]


def test_ranks_are_linked_across_groups() -> None:
    shifts = {0: 0.0, 1: 300.0, 2: -4000.0, 3: 777.0}
    groups = (group(0, 1), group(2, 3), group(1, 3))
    ends = [100.0, 310.0, 480.0]
    other = [150.0, 350.0, 700.0]
    belongs = {0: (0,), 1: (0, 2), 2: (1,), 3: (1, 2)}
    inputs = [
        member(
            rank,
            [row for g in belongs[rank] for row in rows(other if g == 2 else ends, group=g)],
            shift_us=shifts[rank],
        )
        for rank in range(4)
    ]

    clocks = clocks_of(inputs, *groups)

    expected = {str(rank): round(shift * 1000) for rank, shift in shifts.items()}
    assert clocks.offsets_ns == expected
    assert clocks.comparable(["0", "2"])


def test_groups_that_nothing_links_are_not_comparable() -> None:
    inputs = [
        member(rank, rows([100.0, 200.0], group=rank // 2), shift_us=100.0 * rank)
        for rank in range(4)
    ]

    clocks = clocks_of(inputs, group(0, 1), group(2, 3))

    assert clocks.offsets_ns == {"0": 0, "1": 100_000, "2": 0, "3": 100_000}
    assert [clocks.clocks[str(rank)].component for rank in range(4)] == [0, 0, 2, 2]
    assert clocks.comparable(["2", "3"])
    assert not clocks.comparable(["1", "2"])


def test_a_common_host_links_groups_and_pools_its_ranks() -> None:
    hosts = ("a", "b", "a", "b")
    small = (0.0, 9.0, 12.0, -3.0)  # devices of one host end some µs apart
    inputs = [
        member(
            rank,
            rows([100.0, 250.0, 390.0], group=rank // 2),
            host=hosts[rank],
            shift_us=small[rank] + 5000 * (hosts[rank] == "b"),
        )
        for rank in range(4)
    ]

    clocks = clocks_of(inputs, group(0, 1), group(2, 3))

    assert clocks.offsets_ns["0"] == clocks.offsets_ns["2"] == 0
    assert clocks.offsets_ns["1"] == clocks.offsets_ns["3"]
    assert clocks.offsets_ns["1"] == pytest.approx(5_000_000, abs=20_000)
    assert clocks.comparable(["0", "1", "2", "3"])


def test_a_rank_that_disagrees_with_its_host_keeps_its_own_offset() -> None:
    inputs = [
        member(rank, rows([100.0, 250.0]), host="a", shift_us=5000 * (rank == 2))
        for rank in range(3)
    ]

    assert clocks_of(inputs, group(0, 1, 2)).offsets_ns == {"0": 0, "1": 0, "2": 5_000_000}


def test_ranks_of_one_host_share_a_clock_without_any_collective() -> None:
    clocks = clocks_of([member(0, [], host="a"), member(1, [], host="a"), member(2, [])])

    assert clocks.evidence == "none"
    assert clocks.clocks["1"] == Clock(component=0, known=True)
    assert clocks.clocks["2"] == Clock(component=2, known=False)


def test_a_drifting_clock_is_corrected_along_the_run() -> None:
    ends = 10_000.0 * np.arange(1, 401)  # 4 s
    jitter = np.random.default_rng(3).uniform(-5, 5, (2, 400))
    drifting = rows((ends + jitter[1]) * (1 + 50e-6))  # 50 ppm fast
    inputs = [member(0, rows(ends + jitter[0])), member(1, drifting, shift_us=800)]

    clocks = clocks_of(inputs, group(0, 1))

    clock = clocks.clocks["1"]
    assert clock.drift_ppb == pytest.approx(50_000, abs=500)
    assert clock.residual_p95_ns is not None
    assert clock.residual_p95_ns < 10_000
    truth = EPOCH_NS + np.array([10_000_000, 4_000_000_000])
    own = truth + np.array([800_500, 1_000_000])
    assert np.abs(clocks.corrected("1", own) - truth).max() < 2_000


def test_broadcasts_are_never_clock_evidence_and_all_to_alls_only_without_other() -> None:
    alone = [member(r, rows([100.0, 200.0], kind="Broadcast"), shift_us=500 * r) for r in range(2)]
    swaps = rows([100.0, 200.0, 270.0], kind="AllToAll")
    only_swaps = [member(r, swaps, shift_us=500 * r) for r in range(2)]
    late_swaps = [
        Call(c.start_us + 900 * r, c.end_us + 900 * r, "AllToAll", seq=9)
        for r in range(2)
        for c in swaps[:1]
    ]
    mixed = [
        member(r, [*rows([1000.0, 1100.0]), late_swaps[r]], shift_us=500 * r) for r in range(2)
    ]

    assert clocks_of(alone, group(0, 1)).evidence == "none"
    assert clocks_of(only_swaps, group(0, 1)).evidence == "all-to-all"
    assert clocks_of(only_swaps, group(0, 1)).offsets_ns["1"] == 500_000
    assert clocks_of(mixed, group(0, 1)).offsets_ns["1"] == 500_000


def test_matches_that_may_be_wrong_correct_no_clock_but_show_how_far_they_scatter() -> None:
    left = [Call(0, 10), Call(100, 110), Call(200, 210), Call(500, 510)]
    right = [Call(20, 30), Call(150, 160), Call(205, 208), Call(900, 910)]

    clocks = clocks_of([member(0, left), member(1, right)], group(0, 1))

    assert clocks.evidence == "uncertain matches"
    assert clocks.offsets_ns == {"0": 0, "1": 0}
    assert not clocks.comparable(["0", "1"])
    assert clocks.residual_p95_ns is not None
    assert clocks.residual_p95_ns > 100_000


def test_skipped_labels_have_no_clock() -> None:
    clocks = clocks_of([member(None, rows([100.0]), label="odd.json")])

    assert clocks.clocks == {"odd.json": Clock()}
    assert clocks.comparable(["odd.json"]) is False


def test_least_squares_over_a_loop_of_groups_shares_the_contradiction() -> None:
    pairs = (((0, 1), 3.0), ((1, 2), 3.0), ((0, 2), 3.0))
    observations = [
        Observation(np.array(members), np.array([0.0, value]), 1.0) for members, value in pairs
    ]

    assert solve(observations, 3) == pytest.approx([0.0, 2.0, 4.0])


def test_components_are_named_by_their_lowest_member() -> None:
    links = [np.array([3, 4]), np.array([1, 4])]

    assert components(links, 6).tolist() == [0, 1, 2, 1, 1, 5]


def test_a_clock_a_day_off_may_drift_as_well() -> None:
    ends = 10_000.0 * np.arange(1, 401)
    drifting = rows(ends * (1 + 50e-6))
    day_us = 86_400e6
    inputs = [member(0, drifting, shift_us=-day_us), member(1, rows(ends))]

    clocks = clocks_of(inputs, group(0, 1))

    assert clocks.clocks["1"].drift_ppb == pytest.approx(-50_000, abs=10)
    own = np.array([inputs[1].calls.end_ns[0], inputs[1].calls.end_ns[-1]])
    reference = np.array([inputs[0].calls.end_ns[0], inputs[0].calls.end_ns[-1]])
    assert np.abs(clocks.corrected("1", own) - reference).max() < 50


def test_a_group_with_few_collectives_does_not_bias_the_drift() -> None:
    ends = 10_000.0 * np.arange(1, 401)
    few = [5_000.0, 2_005_000.0, 3_995_000.0]
    both = [rows(ends) + rows(few, group=1), rows(ends * (1 + 20e-6)) + rows(few, group=1)]
    inputs = [member(rank, both[rank]) for rank in range(2)]

    clocks = clocks_of(inputs, group(0, 1), group(0, 1, name="1"))

    assert clocks.clocks["1"].drift_ppb == pytest.approx(20_000, rel=0.001)


def test_the_error_of_a_chain_adds_up() -> None:
    pairs = [np.array([0, 1]), np.array([1, 2])]
    observations = [Observation(pair, np.zeros(2), 1 / 9) for pair in pairs]

    assert standard_errors(observations, 3) == pytest.approx([0, 18**0.5, 6])


def test_slopes_come_with_their_error() -> None:
    time = np.linspace(0, 10, 50)
    noise = np.random.default_rng(1).normal(0, 1, 50)

    found, error = slopes(time, np.stack([100 * noise, 100 * noise + 300 * time], axis=1))

    assert abs(found[0]) < Z_99 * error[0]
    assert found[1] == pytest.approx(300, abs=Z_99 * error[1])
    assert found[1] > Z_99 * error[1]
    assert error[0] == pytest.approx(100 / (50**0.5 * time.std()), rel=0.3)


def test_too_few_points_and_points_at_one_time_give_no_slope() -> None:
    time = np.linspace(0, 10, 7)

    for when in (time, np.zeros(9)):
        found, error = slopes(when, np.arange(len(when), dtype=float)[:, np.newaxis])
        assert found.tolist() == [0]
        assert error.tolist() == [UNKNOWN_ERROR]


def test_ends_that_scatter_give_no_known_clock() -> None:
    # taken for one by order, and 30 to 900 ms apart
    rows = [
        [Call(i * 5e6, i * 5e6 + 100 + 30_000 * ((i * r) % 30)) for i in range(20)] for r in (1, 7)
    ]
    inputs = [member(rank, calls, host="one") for rank, calls in enumerate(rows)]

    model = estimate_clocks(match_calls(inputs, [group(0, 1)]), inputs)

    assert not model.comparable(("0", "1"))
    assert not any(clock.known for clock in model.clocks.values())
    assert model.residual_p95_ns is not None
    assert model.residual_p95_ns > 10_000_000
