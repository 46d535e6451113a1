"""Clocks that drift, clocks that nothing links, and ranks known by order alone."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from recovery import Recovered, quick, recover

from ccltui.demo import LateStart, Spec, Straggler
from metrics.collectives.match import HIGH


@pytest.mark.parametrize("drift_ppb", [20_000, -3_000, 150_000])
def test_a_drifting_clock_is_told_with_its_offset(tmp_path: Path, drift_ppb: int) -> None:
    spec = quick(steps=6, clock_offsets_ns=(0, 5_000_000), clock_drifts_ppb=(0, drift_ppb))

    found = recover(tmp_path, spec)

    clocks = found.view.clocks
    for rank in range(8):
        clock = clocks.clocks[str(rank)]
        if rank < 4:
            assert clock.offset_ns == 0
        else:
            assert clock.drift_ppb == pytest.approx(drift_ppb, rel=0.01)
    assert worst_error_ns(found) <= 20


def test_drift_and_lateness_are_told_apart(tmp_path: Path) -> None:
    spec = quick(
        steps=6,
        clock_drifts_ppb=(0, 40_000),
        stragglers=(Straggler(rank=5, cause="compute", extra_ns=800_000),),
        jitter_ns=3_001,
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


def test_hosts_that_no_collective_links_stay_unknown(tmp_path: Path) -> None:
    # without the world's all-reduce the two stages, one a host, share sends and receives only
    spec = quick(world_allreduce=False, clock_offsets_ns=(0, 5_000_000))

    found = recover(tmp_path, spec)

    clocks = found.view.clocks.clocks
    assert {clocks[str(rank)].component for rank in range(4)} == {0}
    assert {clocks[str(rank)].component for rank in range(4, 8)} == {4}
    assert not found.view.clocks.comparable(("0", "4"))


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
