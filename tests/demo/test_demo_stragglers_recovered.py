"""straggler_lag names the delayed rank, and no rank where none is delayed."""

from __future__ import annotations

import statistics
from collections import Counter
from pathlib import Path

import pytest
from recovery import FAMILY, LOSSY, Recovered, quick, recover

from ccltui.demo import SlowLink, Straggler
from ccltui.demo.truth import CallTruth

WHOLE = sorted(set(FAMILY) - LOSSY)
FULLY_DEPENDENT = ("AllReduce", "AllGather", "ReduceScatter", "AllToAll")


def counted(recovered: Recovered) -> list[CallTruth]:
    return [
        call
        for call in recovered.truth.collectives
        if call.complete and call.type in FULLY_DEPENDENT
    ]


@pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
def test_lag_statistics(recovered: Recovered) -> None:
    lags = sorted(call.lag_ns / 1e3 for call in counted(recovered))

    found = recovered.metric("straggler_lag").details

    assert found["num_collectives"] == len(lags)
    assert found["mean_lag_us"] == pytest.approx(statistics.fmean(lags), rel=1e-9, abs=1e-9)
    assert found["p50_lag_us"] == pytest.approx(statistics.median(lags), rel=1e-9, abs=1e-9)
    nearest_95 = lags[-(-len(lags) * 95 // 100) - 1]
    assert found["p95_lag_us"] == pytest.approx(nearest_95, rel=1e-9, abs=1e-9)
    assert found["max_lag_us"] == pytest.approx(lags[-1], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("recovered", sorted(FAMILY), indirect=True)
def test_wait_of_every_rank(recovered: Recovered) -> None:
    waits: Counter[str] = Counter({str(rank.rank): 0 for rank in recovered.truth.ranks})
    for call in counted(recovered):
        for rank, wait_ns in zip(call.members, call.wait_ns, strict=True):
            waits[str(rank)] += wait_ns

    found = recovered.metric("straggler_lag").details["wait_us"]

    assert {rank: round(us * 1e3) for rank, us in found.items()} == dict(waits)


@pytest.mark.parametrize("recovered", WHOLE, indirect=True)
def test_blame(recovered: Recovered) -> None:
    details = recovered.metric("straggler_lag").details
    floor_ns = details["floor_us"] * 1e3
    caused: Counter[str] = Counter({str(rank.rank): 0 for rank in recovered.truth.ranks})
    last: Counter[str] = Counter(caused)
    for call in counted(recovered):
        if call.lag_ns > floor_ns:
            # in a tie of durations the first member stands for the others
            rank = str(call.members[call.wait_ns.index(0)])
            caused[rank] += sum(call.wait_ns)
            last[rank] += 1

    found = details["blame"]

    assert {rank: row["last_count"] for rank, row in found.items()} == dict(last)
    assert {rank: round(row["caused_wait_us"] * 1e3) for rank, row in found.items()} == dict(caused)


@pytest.mark.parametrize("recovered", ["the demo"], indirect=True)
def test_the_demo_names_rank_1_and_the_rank_with_a_pause(recovered: Recovered) -> None:
    found = recovered.metric("straggler_lag")

    assert found.status == "ok"
    assert found.details["stragglers"] == [1, 6]  # rank 6 loads data for 12 ms in one step
    assert (found.details["worst_straggler"], found.details["persistent"]) == (1, True)
    assert found.details["clock"]["4"]["offset_us"] == 5_000


@pytest.mark.parametrize("recovered", ["the demo"], indirect=True)
def test_the_stall_of_the_demo_is_the_largest_lag_of_its_step(recovered: Recovered) -> None:
    details = recovered.metric("straggler_lag").details

    worst = max(recovered.truth.collectives, key=lambda call: call.lag_ns)
    assert (worst.step, worst.last) == (13, (6,))
    assert details["max_lag_us"] == worst.lag_ns / 1e3


@pytest.mark.parametrize("recovered", ["slow stage"], indirect=True)
def test_a_slow_rank_of_the_last_stage_is_named(recovered: Recovered) -> None:
    # the first stage ends its backward pass last and is late at the world's all-reduce as well
    details = recovered.metric("straggler_lag").details

    assert details["stragglers"] == [5]
    assert details["blame"]["5"]["last_count"] == max(
        row["last_count"] for row in details["blame"].values()
    )


@pytest.mark.parametrize("rank", range(4))
def test_any_slow_rank_is_named(tmp_path: Path, rank: int) -> None:
    slow = Straggler(rank, "compute", extra_ns=900_000)
    spec = quick(tp=4, pp=1, dp_shard=1, stragglers=(slow,), jitter_ns=1_003)

    found = recover(tmp_path, spec).metric("straggler_lag").details

    assert found["stragglers"] == [rank]


@pytest.mark.parametrize("offset_ns", [0, 5_000_000, -900_000_000])
def test_a_clock_is_no_straggler(tmp_path: Path, offset_ns: int) -> None:
    spec = quick(clock_offsets_ns=(0, offset_ns), jitter_ns=1_003, tp=4, pp=1)

    found = recover(tmp_path, spec).metric("straggler_lag").details

    assert found["stragglers"] == []
    assert found["max_lag_us"] < 20


def test_a_slow_link_is_no_straggler(tmp_path: Path) -> None:
    spec = quick(tp=4, pp=1, dp_shard=1, slow_links=(SlowLink("tp", 2, 400_000),))

    found = recover(tmp_path, spec).metric("straggler_lag").details

    assert found["stragglers"] == []
    assert found["max_lag_us"] == 0


def test_one_stall_is_seen_in_its_step_but_is_not_persistent(tmp_path: Path) -> None:
    stall = Straggler(1, "data_loading", extra_ns=7_000_000, steps=(1,))
    spec = quick(tp=4, pp=1, dp_shard=1, stragglers=(stall,))

    found = recover(tmp_path, spec).metric("straggler_lag").details

    assert found["max_lag_us"] == 7_000
    assert found["blame"]["1"]["last_count"] == 1
    assert (found["stragglers"], found["patterns"]["1"]) == ([1], "transient")
    assert found["persistent"] is False


@pytest.mark.parametrize("recovered", ["the demo"], indirect=True)
def test_the_waits_for_a_slow_rank_are_listed_once(recovered: Recovered) -> None:
    first, *others = recovered.metric("findings").details["findings"]

    assert (first["class"], first["where"]["ranks"]) == ("slow_worker", ["1"])
    assert "waiting_for_rank" not in [one["class"] for one in others]
    assert sum(one["share"] for one in (first, *others)) < 1
