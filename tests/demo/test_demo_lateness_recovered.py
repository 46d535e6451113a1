"""Matching, clocks and lateness find what was injected, collective by collective."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from recovery import FAMILY, LOSSY, Recovered

from ccltui.demo.truth import CallTruth
from ccltui.metrics.collectives.arrivals import GroupArrivals
from ccltui.metrics.collectives.matching.match import HIGH
from ccltui.metrics.model.classify import TYPES

EVERY = sorted(FAMILY)
WHOLE = sorted(set(FAMILY) - LOSSY)
NUMBERED = [name for name in WHOLE if FAMILY[name].metadata != "no_seq"]
EVEN_ENDS = [name for name in EVERY if not FAMILY[name].end_skew_ns]
"""Where ends differ, durations tell the last arrival, and ends the clocks, only up to that."""
FULLY_DEPENDENT = ("AllReduce", "AllGather", "ReduceScatter")

Row = tuple[tuple[int, ...], str, tuple[int, ...]]


def found_groups(recovered: Recovered) -> list[tuple[tuple[int, ...], GroupArrivals]]:
    """(ranks, arrivals) of every matched group."""
    groups = recovered.view.groups
    return [(groups[part.match.group].ranks, part) for part in recovered.view.arrivals.groups]


def injected(recovered: Recovered, *, exchanges: bool = True) -> list[CallTruth]:
    return [
        call
        for call in recovered.truth.collectives
        if call.complete and (exchanges or call.type in FULLY_DEPENDENT)
    ]


@pytest.mark.parametrize("recovered", EVERY, indirect=True)
def test_every_complete_collective_is_matched_and_no_other(recovered: Recovered) -> None:
    wanted: Counter[Row] = Counter(
        (call.group_ranks, call.type, call.known_dur_ns) for call in injected(recovered)
    )

    found: Counter[Row] = Counter()
    for ranks, part in found_groups(recovered):
        for row in np.flatnonzero(part.match.usable):
            kind = TYPES[part.match.kind[row]]
            found[ranks, kind, tuple(part.dur_ns[row].tolist())] += 1

    assert found == wanted


@pytest.mark.parametrize("recovered", WHOLE, indirect=True)
def test_nothing_is_left_over(recovered: Recovered) -> None:
    for _, part in found_groups(recovered):
        assert part.match.num_incomplete == 0
        assert part.match.num_mismatched == 0
        assert (part.match.overlap == 1).all()


@pytest.mark.parametrize("recovered", NUMBERED, indirect=True)
def test_sequence_numbers_give_certain_matches(recovered: Recovered) -> None:
    for _, part in found_groups(recovered):
        expected = 1 if recovered.spec.metadata == "comms_id" else 2
        assert (part.match.level == expected).all()
        assert (part.match.confidence == HIGH).all()


@pytest.mark.parametrize("recovered", EVERY, indirect=True)
def test_clock_free_lag_of_every_collective(recovered: Recovered) -> None:
    wanted = Counter((call.group_ranks, call.lag_ns, call.wait_ns) for call in injected(recovered))

    found: Counter[tuple[tuple[int, ...], int, tuple[int, ...]]] = Counter()
    for ranks, part in found_groups(recovered):
        for row in np.flatnonzero(part.match.usable):
            found[ranks, int(part.lag_ns[row]), tuple(part.wait_ns[row].tolist())] += 1

    assert found == wanted


@pytest.mark.parametrize("recovered", EVEN_ENDS, indirect=True)
def test_the_blamed_rank_arrived_last(recovered: Recovered) -> None:
    floor_ns = recovered.view.arrivals.floor_ns
    last_of = {
        (call.group_ranks, call.known_dur_ns): call.last
        for call in injected(recovered)
        if call.lag_ns > floor_ns
    }

    blamed = 0
    for ranks, part in found_groups(recovered):
        for row in np.flatnonzero(part.last >= 0):
            key = ranks, tuple(part.dur_ns[row].tolist())
            assert int(part.labels[part.last[row]]) in last_of[key]
            blamed += 1
    assert blamed == sum(call.lag_ns > floor_ns for call in injected(recovered))


@pytest.mark.parametrize("recovered", EVERY, indirect=True)
def test_clocks(recovered: Recovered) -> None:
    spec, truth = recovered.spec, recovered.truth

    clocks = recovered.view.clocks.clocks

    tolerance_ns = spec.end_skew_ns
    for rank in truth.ranks:
        clock = clocks[str(rank.rank)]
        assert clock.known
        assert clock.drift_ppb is None
        assert abs(clock.offset_ns - truth.clock_offset_ns[rank.rank]) <= tolerance_ns


@pytest.mark.parametrize(
    "recovered",
    [name for name in EVEN_ENDS if name in WHOLE and FAMILY[name].layout != "integer_us"],
    indirect=True,
)
def test_lateness_by_start_on_corrected_clocks(recovered: Recovered) -> None:
    wanted = Counter(
        (call.group_ranks, max(call.late_ns), call.late_ns) for call in injected(recovered)
    )

    found: Counter[tuple[tuple[int, ...], int, tuple[int, ...]]] = Counter()
    for ranks, part in found_groups(recovered):
        assert part.by_start is not None
        for row in np.flatnonzero(part.match.usable):
            late = tuple(part.by_start.late_ns[row].tolist())
            found[ranks, int(part.by_start.lag_ns[row]), late] += 1

    assert found == wanted
