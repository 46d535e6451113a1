"""parallelism: communication by dimension and group, on jobs of known answer."""

from __future__ import annotations

from typing import Any

import pytest
from factories import Coll, Event, allreduce, job, kernel, rank_trace
from full_jobs import view_of
from worked import cpu_only, gloo, measure

from ccltui.metrics.registry import find
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View
from ccltui.parsers.columns import ProcessGroup, RankTrace

TP = ProcessGroup("1", "mesh_tp", (0, 1), 2)
DP = ProcessGroup("2", "mesh_dp", (0, 1), 2)
NAMELESS = ProcessGroup("3", "", (0, 1), 2)


def rank(number: int, late_us: float = 0.0, *, groups: Any = (TP, DP)) -> RankTrace:
    """Ten rounds of 1000 µs: computing until 400, gradients under it, then an exposed reduction.

    The gradients (2 MB) run from 100 to 300, all hidden; the reduction of 4 kB from 400 to 500 on
    a punctual rank, and ends at 500 on a late one, whose product takes that much longer.
    """
    gpu: list[Event] = []
    for i in range(10):
        at = 1000.0 * i
        gpu += [
            kernel("gemm", at, 400 + late_us),
            allreduce(at + 100, 200, Coll("allreduce", 500_000, 500_000, group=1, seq=i), 21),
            allreduce(at + 400 + late_us, 100 - late_us, Coll("allreduce", 1000, 1000, seq=i)),
        ]
    return rank_trace(number, gpu=gpu, groups=groups, world_size=2)


def rows(result: Result) -> dict[tuple[str, str | None], dict[str, Any]]:
    """Rows of dimensions and of groups by dimension and group."""
    found = (*result.details["dimensions"], *result.details["groups"])
    return {(row["dim"], row["group"]): row for row in found}


def test_each_dimension_by_hand() -> None:
    result = measure("parallelism", rank(0), rank(1, late_us=60))

    # of each rank 2000 µs are hidden; exposed 1000 µs of rank 0 and 400 of rank 1
    assert (result.status, result.unit) == ("ok", "ratio")
    assert result.value == pytest.approx(4000 / 5400)
    assert result.details["exposed_ms"] == pytest.approx(0.7)
    assert result.details["exposed_pct"] == pytest.approx(100 * 1.4 / 2 / 9.5)
    tp, dp = rows(result)["tp", None], rows(result)["dp", None]
    assert (tp["calls"], tp["message_bytes"], tp["ranks"]) == (20, 20 * 4000, 2)
    assert (tp["comm_ms"], tp["exposed_ms"], tp["hidden_ratio"]) == (0.7, 0.7, 0.0)
    assert (dp["comm_ms"], dp["exposed_ms"], dp["hidden_ratio"]) == (2.0, 0.0, 1.0)
    assert tp["busbw_GBps"] == pytest.approx(4000 / 40e3)  # of two ranks the factor is 1
    assert dp["busbw_GBps"] == pytest.approx(2e6 / 200e3)
    assert (tp["wait_ms"], tp["wait_ratio"]) == (0.6, pytest.approx(0.6 / 1.4))
    assert (tp["mean_lag_us"], tp["p95_lag_us"], tp["num_matched"]) == (60.0, 60.0, 10)
    assert (tp["worst_rank"], tp["worst_wait_ms"]) == ("1", 0.6)
    assert tp["worst"]["rank"] == "1"
    assert (dp["wait_ms"], dp["worst_rank"], dp["worst"]) == (0.0, None, None)
    assert dp["why"]["worst_rank"]
    assert result.details["absent"] == {"pp": "no call", "ep": "no call", "cp": "no call"}


def test_hidden_waiting_is_due_to_nobody() -> None:
    late = rank(1)
    early = rank(0)
    # the same, and the gradients of rank 1 begin 80 µs late: rank 0 waits under its product
    shifted = [
        allreduce(1000.0 * i + 180, 120, Coll("allreduce", 500_000, 500_000, group=1, seq=i), 21)
        for i in range(10)
    ]
    others = [
        event
        for i in range(10)
        for event in (
            kernel("gemm", 1000.0 * i, 400),
            allreduce(1000.0 * i + 400, 100, Coll("allreduce", 1000, 1000, seq=i)),
        )
    ]
    late = rank_trace(1, gpu=[*others, *shifted], groups=(TP, DP), world_size=2)
    dp = rows(measure("parallelism", early, late))["dp", None]

    assert dp["mean_lag_us"] == 80.0
    assert dp["wait_ms"] == 0.8
    assert dp["worst_rank"] is None


def test_a_dimension_that_nothing_tells_is_a_row_with_its_reason() -> None:
    result = measure("parallelism", *(rank(i, groups=(TP, NAMELESS)) for i in range(2)))

    unknown = rows(result)["unknown", None]
    assert result.status == "partial"
    assert (unknown["calls"], unknown["hidden_ratio"]) == (20, 1.0)
    assert "the dimension of 20 calls" in unknown["why"]["dim"]
    assert any(reason.message == unknown["why"]["dim"] for reason in result.reasons)
    assert set(result.details["absent"]) == {"pp", "dp", "ep", "cp"}
    assert all(
        "the dimension of some is not known" in why for why in result.details["absent"].values()
    )


def test_without_kernels_the_calls_remain_and_times_have_a_reason() -> None:
    result = measure("parallelism", gloo(0), gloo(1))

    (row,) = result.details["dimensions"]
    assert (result.status, result.value) == ("partial", None)
    assert row["calls"] > 0
    assert row["exposed_ms"] is None
    assert "ran on the host" in row["why"]["hidden_ratio"]


def test_one_rank_has_no_waiting_and_a_bound_of_bandwidth() -> None:
    tp = rows(measure("parallelism", rank(0)))["tp", None]

    assert (tp["exposed_ms"], tp["wait_ratio"], tp["worst_rank"]) == (1.0, None, None)
    assert "needs at least two" in tp["why"]["wait_ratio"]
    assert "lower bound" in tp["why"]["busbw_GBps"]


def test_what_it_needs() -> None:
    assert measure("parallelism", cpu_only()).reason == "no_gpu_events"
    assert measure("parallelism", rank_trace(0, gpu=[kernel("a", 0, 5)])).reason == "no_collectives"


@pytest.mark.parametrize("name", ["training", "pipelined"])
def test_every_column_is_that_of_its_own_metric(name: str) -> None:
    view = view_of(name)
    found = {metric: find(metric).run(view).details for metric in _SOURCES}
    by_key = rows(find("parallelism").run(view))

    for (dim, group), row in by_key.items():
        if group is None:
            assert row["calls"] == found["traffic_distribution"]["by_dim"][dim]["calls"]
            assert row["message_bytes"] == found["traffic_distribution"][f"{dim}_bytes"]
            exposed = found["exposed_communication"]["by_dim"][dim]["exposed_ms"]
            assert row["exposed_ms"] == pytest.approx(exposed)
    whole = sum(row["wait_ms"] or 0 for (_, group), row in by_key.items() if group is None)
    assert whole == pytest.approx(found["wait_vs_transfer"]["wait_ms"] or 0)
    for one in found["wait_vs_transfer"]["by_group"] or ():
        parts = [row for (_, group), row in by_key.items() if group == one["group"]]
        assert sum(row["wait_ms"] or 0 for row in parts) == pytest.approx(one["wait_ms"])


_SOURCES = ("traffic_distribution", "exposed_communication", "wait_vs_transfer")


def test_groups_add_up_to_their_dimension() -> None:
    by_key = rows(find("parallelism").run(View(job(rank(0), rank(1, late_us=60)))))

    for dim in ("tp", "dp"):
        parts = [row for (one, group), row in by_key.items() if one == dim and group is not None]
        for key in ("calls", "message_bytes", "wait_ms"):
            assert sum(row[key] for row in parts) == by_key[dim, None][key]
