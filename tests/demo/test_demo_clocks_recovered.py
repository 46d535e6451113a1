"""Clocks that drift, clocks that nothing links, and ranks known by order alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from recovery import Recovered, quick, recover

from ccltui.demo import LateStart, Spec, Straggler
from ccltui.metrics.collectives.matching.match import HIGH


@pytest.mark.parametrize("drift_ppb", [20_000, -3_000, 150_000])
def test_a_drift_is_estimated_with_the_offset(tmp_path: Path, drift_ppb: int) -> None:
    found = recover(tmp_path, drifting(drift_ppb, world_allreduce=False))

    clocks = found.view.clocks
    for rank in range(4):
        assert clocks.clocks[str(rank)].offset_ns == 0
    for rank in range(4, 8):
        assert clocks.clocks[str(rank)].drift_ppb == pytest.approx(drift_ppb, rel=0.01)
    assert worst_error_ns(found) <= 20


def test_a_group_that_meets_rarely_does_not_water_the_drift_down(tmp_path: Path) -> None:
    found = recover(tmp_path, drifting(20_000))

    assert found.view.clocks.clocks["4"].drift_ppb == pytest.approx(20_000, rel=0.01)


def test_a_clock_may_be_far_off_and_drift(tmp_path: Path) -> None:
    spec = drifting(20_000, world_allreduce=False, clock_offsets_ns=(0, 86_400_000_000_000))

    assert worst_error_ns(recover(tmp_path, spec)) <= 20


def drifting(drift_ppb: int, **changes: Any) -> Spec:
    """Two hosts that share the data-parallel groups; the clock of the second one drifts."""
    spec: Spec = quick(pp=1, dp_shard=4, steps=6, clock_drifts_ppb=(0, drift_ppb), **changes)
    return spec


def test_drift_and_lateness_are_distinguished(tmp_path: Path) -> None:
    spec = drifting(
        40_000,
        stragglers=(Straggler(rank=5, cause="compute", extra_ns=800_000),),
        jitter_ns=3_001,
        world_allreduce=False,
    )

    assert worst_error_ns(recover(tmp_path, spec)) <= 50


def worst_error_ns(found: Recovered) -> int:
    """Largest difference of any member's lateness by start from the truth."""
    truth = {(call.group_ranks, call.start_ns): call.late_ns for call in found.truth.collectives}
    worst = 0
    inputs = {item.label: item for item in found.view.match_inputs}
    for part in found.view.arrivals.groups:
        ranks = found.view.groups[part.match.group].ranks
        assert part.by_start is not None
        for row in range(len(part.match.rows)):
            starts = tuple(
                int(inputs[label].calls.start_ns[part.match.rows[row, member]])
                for member, label in enumerate(part.labels)
            )
            late = np.array(truth[ranks, starts])
            worst = max(worst, int(np.abs(part.by_start.late_ns[row] - late).max()))
    return worst


def test_a_drift_seen_by_a_few_collectives_only_is_not_claimed(tmp_path: Path) -> None:
    # the hosts meet in one all-reduce a step, six times in all
    spec = quick(steps=6, clock_drifts_ppb=(0, 20_000))

    found = recover(tmp_path, spec)

    assert {clock.drift_ppb for clock in found.view.clocks.clocks.values()} == {None}


def test_hosts_that_no_collective_links_are_linked_by_transfers(tmp_path: Path) -> None:
    # without the world's all-reduce the two stages, one a host, share sends and receives only
    spec = quick(world_allreduce=False, clock_offsets_ns=(0, 5_000_000))

    found = recover(tmp_path, spec)

    clocks = found.view.clocks
    assert "transfers" in clocks.evidence
    assert clocks.comparable(("0", "4"))
    bar = clocks.clocks["4"].residual_p95_ns
    assert bar is not None
    assert abs(clocks.clocks["4"].offset_ns - 5_000_000) <= max(bar, 20_000)


ORDER_ONLY = {
    "all ranks alike": quick(tp=4, pp=1, dp_shard=1, metadata="names_only"),
    "one rank begins later": quick(
        tp=4, pp=1, dp_shard=1, metadata="names_only", late_starts=(LateStart(3, 3),)
    ),
    "whole microseconds": quick(tp=4, pp=1, dp_shard=1, metadata="names_only", layout="integer_us"),
    "2021": quick(tp=4, pp=1, dp_shard=1, metadata="names_only", layout="old2021"),
    "rccl": quick(tp=4, pp=1, dp_shard=1, metadata="names_only", library="rccl"),
}


@pytest.mark.parametrize("spec", ORDER_ONLY.values(), ids=ORDER_ONLY.keys())
def test_without_metadata_order_is_enough_for_one_group(tmp_path: Path, spec: Spec) -> None:
    found = recover(tmp_path, spec)

    wanted = Counter(call.known_dur_ns for call in found.truth.collectives if call.complete)
    matched: Counter[tuple[int, ...]] = Counter()
    for part in found.view.arrivals.groups:
        assert (part.confidence < HIGH).all()
        for row in np.flatnonzero(part.match.usable):
            matched[tuple(part.dur_ns[row].tolist())] += 1
    assert matched == wanted
