"""comm_comp_overlap: unions of intervals in the step windows."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world

from ccltui.metrics.catalog.communication.comm_comp_overlap import comm_comp_overlap
from ccltui.metrics.metric import expect
from ccltui.metrics.model import rank_facts
from ccltui.metrics.registry import metrics
from ccltui.metrics.result import Result
from ccltui.metrics.view import job_view
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.metrics.view.rank_view import in_turn
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

TP = ProcessGroup("1", "mesh_tp", (0, 1), 2)


def run(*ranks: RankTrace, **options: object) -> Result:
    return comm_comp_overlap.run(View(job(*ranks), ViewOptions(**options)))  # type: ignore[arg-type]


def worked_example() -> RankTrace:
    """Window [0, 100): K = [10,50) + [60,70), C = [40,80), M = [75,90); marks at both ends."""
    return rank_trace(
        0,
        gpu=[
            kernel("mark", 0, 0),
            kernel("gemm", 10, 40),
            kernel("gemm", 60, 10),
            allreduce(40, 40),
            copy(75, 15),
            kernel("mark", 100, 0),
        ],
    )


def test_worked_example() -> None:
    result = run(worked_example())

    details = result.details
    assert details["window_ms"] == 0.1
    assert details["comp_time_ms"] == 0.05
    assert details["comm_time_ms"] == 0.04
    assert details["overlap_time_ms"] == 0.02
    assert details["exposed_comm_ms"] == 0.02
    assert details["mem_time_ms"] == 0.015
    assert details["idle_ms"] == 0.02
    assert details["overlap_ratio_of_comm"] == result.value == 0.5
    assert details["overlap_ratio_of_comp"] == 0.4
    assert details["exposed_comm_pct_of_step"] == 20.0
    assert set(details) == set(comm_comp_overlap.keys)


def test_two_streams_count_once_in_the_union_and_twice_in_the_sum() -> None:
    trace = rank_trace(
        0,
        gpu=[
            kernel("sm80_xmma_gemm", 100, 400, 7),
            kernel("elementwise", 300, 200, 8),
            allreduce(400, 200),
        ],
    )

    details = run(trace).details

    assert (details["comp_time_ms"], details["comp_sum_ms"]) == (0.4, 0.6)
    assert (details["comm_time_ms"], details["comm_sum_ms"]) == (0.2, 0.2)
    assert details["overlap_time_ms"] == 0.1
    assert (details["num_comm_kernels"], details["num_comp_kernels"]) == (1, 2)


def test_times_are_means_over_ranks_and_ratios_come_from_sums() -> None:
    result = run(
        rank_trace(0, gpu=[kernel("gemm", 0, 100), allreduce(0, 10)]),
        rank_trace(1, gpu=[kernel("gemm", 0, 100), allreduce(100, 90)]),
    )

    details = result.details
    assert details["comm_time_ms"] == 0.05
    assert details["overlap_ratio_of_comm"] == 0.1  # 10 of 100, not the mean of 1 and 0
    assert details["per_rank"]["0"]["overlap_ratio_of_comm"] == 1.0
    assert details["per_rank"]["1"]["overlap_ratio_of_comm"] == 0.0
    assert details["across_ranks"]["comm_time_ms"] == {
        "mean": 0.05,
        "min": 0.01,
        "max": 0.09,
        "spread": pytest.approx(0.08),
    }


def two_steps() -> RankTrace:
    """Two steps with an idle gap of 20 µs between their device windows."""
    return rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        runtime=[launch(i, t) for i, t in ((1, 5), (2, 20), (3, 105), (4, 120))],
        gpu=[
            Event("gemm", 10, 40, correlation=1),
            Event("ncclKernel_AllReduce_a", 40, 40, 20, correlation=2),
            Event("gemm", 100, 50, correlation=3),
            Event("ncclKernel_AllReduce_a", 140, 20, 20, correlation=4),
        ],
    )


def test_windows_are_those_of_the_steps_with_the_gaps_between_them() -> None:
    result = run(two_steps())

    assert result.basis["window"] == "step"
    assert result.details["window_ms"] == 0.15  # [10,100) and [100,160), idle [80,100)
    assert result.details["idle_ms"] == 0.02
    assert result.details["span_ms"] == 0.15
    assert result.details["span_idle_ms"] == 0.02


def test_the_whole_trace_can_be_measured_instead() -> None:
    result = run(two_steps(), span="trace")

    assert result.basis["window"] == "trace"
    assert (result.details["window_ms"], result.details["idle_ms"]) == (0.15, 0.02)


def test_steps_choose_windows() -> None:
    details = run(two_steps(), steps=(2, 2)).details

    assert (details["window_ms"], details["comm_time_ms"]) == (0.06, 0.02)
    assert details["num_comm_kernels"] == 1


def test_a_window_clips_intervals() -> None:
    result = run(two_steps(), window=Window(50_000, 110_000))

    # The job starts with its first event, the marker at 0.
    details = result.details
    assert details["window_ms"] == 0.06  # [50,110)
    assert details["comm_time_ms"] == 0.03
    assert details["comp_time_ms"] == 0.01
    assert details["comm_sum_ms"] == 0.03


def test_by_type_group_and_dimension() -> None:
    trace = rank_trace(
        0,
        gpu=[
            kernel("gemm", 0, 100),
            allreduce(50, 100, Coll("allreduce", group=1)),
            allreduce(200, 50, Coll("_allgather_base"), stream=21),
        ],
        groups=[world(2), TP],
        world_size=2,
    )

    details = run(trace).details

    assert details["by_dim"]["tp"] == {
        "comm_time_ms": 0.1,
        "overlap_time_ms": 0.05,
        "exposed_comm_ms": 0.05,
        "overlap_ratio_of_comm": 0.5,
        "num_comm_kernels": 1,
    }
    assert set(details["by_group"]) == {"tp 0,1", "default_pg 0,1"}
    assert details["by_type"]["AllGather"]["overlap_ratio_of_comm"] == 0.0


def test_parts_hold_what_already_ran_when_the_window_opened() -> None:
    result = run(worked_example(), window=Window(60_000, None))

    details = result.details
    assert (details["comm_time_ms"], details["num_comm_kernels"]) == (0.02, 0)
    parts = (details["by_type"]["AllReduce"], *details["by_group"].values())
    for part in (*parts, *details["by_dim"].values()):
        assert (part["comm_time_ms"], part["overlap_time_ms"]) == (0.02, 0.01)
        assert part["num_comm_kernels"] == 0


def test_parts_leave_out_what_ended_before_the_window() -> None:
    trace = rank_trace(0, gpu=[allreduce(0, 10), kernel("ncclDevKernel_Broadcast_X(", 30, 10)])

    details = run(trace, window=Window(20_000, None)).details

    assert list(details["by_type"]) == ["Broadcast"]


def test_a_large_job_is_measured_rank_by_rank(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers, and no rank's intervals are kept while others are measured."""

    def ranks() -> tuple[RankTrace, ...]:
        return tuple(
            rank_trace(
                rank,
                gpu=[allreduce(0, 60), kernel("gemm", 50 - 10 * rank, 30), copy(90, 5)],
                groups=(world(2),),
            )
            for rank in (0, 1)
        )

    usual = comm_comp_overlap.run(View(job(*ranks())))
    monkeypatch.setattr(job_view, "_MANY_ROWS", 5)
    view = View(job(*ranks()))
    large = comm_comp_overlap.run(view)

    assert large == usual
    assert usual.status == "ok"
    kept = {name for rank in view.ranks for name in (*vars(rank), *vars(rank.facts))}
    assert not kept & {"comm", "comp", "mem", "occupied", "clipped_ns", "busy", "device_work"}


def test_expected_sums_are_computed_from_intervals_that_are_merged_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Whatever metric comes first, where one of the others is refused, and after a release."""
    events = [allreduce(0, 60), kernel("gemm", 50, 30), copy(90, 5)]
    traces = tuple(rank_trace(rank, gpu=events, groups=(world(2),)) for rank in (0, 1))
    names = sorted(name for name, one in metrics().items() if one.sums)
    usual = {name: metrics()[name].run(View(job(*traces))) for name in names}
    monkeypatch.setattr(job_view, "_MANY_ROWS", 5)

    for first in ("comm_comp_overlap", "gpu_busy", "temporal_breakdown"):
        view = View(job(*traces))
        expect(view, [metrics()[name] for name in names])

        assert metrics()[first].run(view) == usual[first]
        view.release()
        with monkeypatch.context() as patch:
            patch.setattr(rank_facts, "union", None)  # nothing is merged any more
            for name in {*names} - {"findings", "parallelism"}:  # which ask for more than sums
                assert metrics()[name].run(view) == usual[name]


def test_which_call_launched_what_is_not_kept_for_all_ranks_of_a_large_job(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for most, kept in ((5, True), (1, False)):
        monkeypatch.setattr(job_view, "_MANY_ROWS", most)
        view = View(job(rank_trace(0, gpu=[allreduce(0, 60), kernel("gemm", 70, 30)])))

        assert len(view.facts.named_calls["0"]) == 1
        assert ("launch_row" in vars(view.facts.ranks["0"])) is kept


def test_ranks_of_a_large_job_free_their_columns_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(job_view, "_MANY_ROWS", 1)
    view = View(job(*(rank_trace(rank, gpu=[kernel("gemm", 0, 30)]) for rank in (0, 1))))

    held = []
    for rank in in_turn(view.ranks):
        assert rank.comp_ns == 30_000
        assert len(rank.comp) == 1
        held.append(["comp" in vars(one) for one in view.ranks])

    assert held == [[True, False], [False, True]]
    assert not any("comp" in vars(one) for one in view.ranks)


def test_a_group_limits_communication_and_leaves_computation() -> None:
    trace = rank_trace(
        0,
        gpu=[
            kernel("gemm", 0, 100),
            allreduce(50, 100, Coll("allreduce", group=1)),
            allreduce(200, 50, Coll("_allgather_base")),
        ],
        groups=[world(2), TP],
        world_size=2,
    )

    details = run(trace, group="tp").details

    assert (details["comm_time_ms"], details["comp_time_ms"]) == (0.1, 0.1)
    assert (details["num_comm_kernels"], details["overlap_ratio_of_comm"]) == (1, 0.5)
    assert details["idle_ms"] == 0.05  # what is no work of any group
    assert run(trace, group="ep").reason == "no_collectives"


def test_the_narrow_compute_set_is_an_option() -> None:
    trace = rank_trace(0, gpu=[kernel("sgemm", 0, 10), kernel("add", 20, 30), allreduce(5, 40)])

    everything = run(trace).details
    named = run(trace, overrides={"compute_set": "named"}).details

    assert (everything["compute_set"], everything["overlap_time_ms"]) == ("all", 0.03)
    assert (named["compute_set"], named["overlap_time_ms"]) == ("named", 0.005)
    assert (named["comp_time_ms"], named["num_comp_kernels"]) == (0.01, 1)


def test_a_compute_set_of_another_name_is_refused() -> None:
    result = run(rank_trace(0, gpu=[allreduce(0, 5)]), overrides={"compute_set": "nmaed"})

    assert (result.status, result.reason) == ("unavailable", "card_invalid")


def test_without_computation_its_ratio_is_null() -> None:
    details = run(rank_trace(0, gpu=[allreduce(0, 5)])).details

    assert details["overlap_ratio_of_comm"] == 0.0
    assert details["overlap_ratio_of_comp"] is None


def test_refusals() -> None:
    cpu = rank_trace(0, cpu_ops=[Event("c10d::allreduce_", 0, 5, 1)])
    alone = rank_trace(0, gpu=[kernel("gemm", 0, 5)])

    assert run(cpu).reason == "no_gpu_events"
    assert run(alone).reason == "no_collectives"
    assert run(alone).value is None
    assert run(alone).details["comm_time_ms"] is None


def test_a_step_without_device_work_is_empty_not_idle() -> None:
    trace = rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 100, 100)],
        runtime=[launch(1, 5)],
        gpu=[Event("ncclKernel_AllReduce_a", 10, 5, 20, correlation=1)],
    )

    assert run(trace, steps=(2, 2)).reason == "window_empty"
    assert run(trace).details["window_ms"] == 0.005


def test_a_cpu_only_rank_beside_others_makes_it_partial() -> None:
    result = run(
        rank_trace(0, gpu=[allreduce(0, 5)]), rank_trace(1, cpu_ops=[Event("aten::mm", 0, 1, 1)])
    )

    assert (result.status, list(result.details["per_rank"])) == ("partial", ["0"])
    assert (result.reasons[0].code, result.reasons[0].rank) == ("no_gpu_events", "1")
