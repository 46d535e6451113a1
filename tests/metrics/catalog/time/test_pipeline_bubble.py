"""pipeline_bubble: idle time and waiting inside transfers, beyond the data's own time."""

from __future__ import annotations

import pytest
from factories import Coll, Event, allreduce, card, job, kernel, rank_trace, step, world

from ccltui.metrics.catalog.time.pipeline_bubble import pipeline_bubble
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.side.workload_card import Card

SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"
MS = 1000.0
STAGES = ProcessGroup("1", "mesh_pp", (0, 1), 2)


def run(*ranks: RankTrace, stated: Card | None = None, **options: object) -> Result:
    view = View(job(*ranks, card=stated), ViewOptions(**options))  # type: ignore[arg-type]
    return pipeline_bubble.run(view)


def transfer(op: str, start_ms: float, dur_ms: float, **peer: int) -> Event:
    coll = Coll(op, 1000, 1000, **peer)  # type: ignore[arg-type]
    return kernel(SENDRECV, start_ms * MS, dur_ms * MS, 20, coll)


def receiver(*extra: Event) -> RankTrace:
    """Window of 100 ms: 50 of computation, a receive [50, 90) not overlapped, 10 idle."""
    return rank_trace(
        1,
        gpu=[
            kernel("gemm", 0, 50 * MS),
            transfer("recv", 50, 40, src=0),
            kernel("mark", 100 * MS, 0),
            *extra,
        ],
        groups=[STAGES],
        world_size=2,
    )


def sender() -> RankTrace:
    """The other stage: its send takes the last 4 of these 40 ms."""
    return rank_trace(
        0,
        gpu=[
            kernel("gemm", 0, 86 * MS),
            transfer("send", 86, 4, dst=1),
            kernel("gemm", 90 * MS, 10 * MS),
        ],
        groups=[STAGES],
        world_size=2,
    )


def test_worked_example() -> None:
    result = run(sender(), receiver())

    details = result.details
    assert (result.status, result.unit, details["method"]) == ("ok", "ratio", "p2p")
    (first, second) = details["stages"]
    assert (second["stage"], second["ranks"]) == (1, ["1"])
    assert second["idle_ms"] == 10.0
    assert second["exposed_p2p_ms"] == 40.0
    assert second["transfer_ms"] == 4.0
    assert second["bubble_ms"] == 46.0
    assert second["bubble_ratio"] == 0.46
    assert (second["warmup_ms"], second["steady_ms"], second["cooldown_ms"]) == (0.0, 50.0, 50.0)
    assert (first["exposed_p2p_ms"], first["transfer_ms"], first["bubble_ms"]) == (4.0, 4.0, 0.0)
    assert (details["bubble_time_ms"], details["total_time_ms"]) == (46.0, 200.0)
    assert details["bubble_ratio"] == result.value == 0.23
    assert details["idle_ratio"] == 0.05  # what would be said by idle time alone
    assert (details["num_ranks"], details["pp"], details["warning"]) == (2, 2, None)
    assert set(details) == set(pipeline_bubble.keys)


def test_without_the_other_side_it_is_an_upper_bound() -> None:
    result = run(receiver())

    assert result.status == "partial"
    assert result.details["bubble_time_ms"] == 50.0
    assert result.details["stages"][0]["transfer_ms"] is None
    assert "upper bound" in result.details["warning"]
    assert result.warnings == ()  # a reason is not said again as a warning
    assert "unmatched_collectives" in [reason.code for reason in result.reasons]


def test_a_bandwidth_stands_in_for_the_other_side() -> None:
    # 1000 floats at 0.001 GB/s take 4 ms.
    result = run(receiver(), overrides={"p2p_bandwidth_gbps": "0.001"})

    assert result.details["stages"][0]["transfer_ms"] == 4.0
    assert result.details["bubble_time_ms"] == 46.0
    assert run(receiver(), overrides={"p2p_bandwidth_gbps": "fast"}).reason == "card_invalid"


def test_waiting_that_computation_covers_is_no_bubble() -> None:
    result = run(sender(), receiver(kernel("gemm", 50 * MS, 30 * MS, 8)))

    # Of [50, 90) only [80, 90) is exposed, and its last 4 ms move data.
    assert result.details["stages"][1]["exposed_p2p_ms"] == 10.0
    assert result.details["stages"][1]["bubble_ms"] == 16.0


def test_communication_of_other_dimensions_is_work() -> None:
    result = run(sender(), receiver(allreduce(90 * MS, 10 * MS, Coll("allreduce", group=-1))))

    assert result.details["stages"][1]["idle_ms"] == 0.0
    assert result.details["stages"][1]["bubble_ms"] == 36.0


def test_every_step_has_its_own_window() -> None:
    def stage(rank: int) -> RankTrace:
        return rank_trace(
            rank,
            annotations=[step(1, 0, 100), step(2, 100, 100)],
            gpu=[
                kernel("gemm", 10, 20),
                kernel("mark", 50, 0),
                kernel("gemm", 110, 20),
                kernel("mark", 150, 0),
            ],
            world_size=2,
            groups=[STAGES],
        )

    result = run(stage(0), stage(1))

    assert result.details["total_time_ms"] == 0.16  # two ranks, two steps of [10, 50)
    assert result.details["method"] == "idle_only"  # pp = 2, but nothing was transferred
    assert result.status == "partial"
    only = run(stage(0), stage(1), steps=(2, 2)).details
    assert only["total_time_ms"] == 0.08


def test_theory_of_fill_and_drain() -> None:
    def theory(**overrides: object) -> float | None:
        value = run(receiver(), overrides=overrides).details["theoretical_ratio"]
        assert value is None or isinstance(value, float)
        return value

    assert run(receiver(), stated=card(pp=2)).details["theoretical_ratio"] is None
    assert theory(pp_microbatches=4) == pytest.approx(1 / 5)
    assert theory(pp_microbatches=4, pp_virtual_stages=2) == pytest.approx(1 / 9)
    assert theory(pp_microbatches=4, pp_schedule="ZBVZeroBubble") is None


def test_four_stages_of_four_micro_batches_lose_three_sevenths() -> None:
    stages = ProcessGroup("1", "mesh_pp", (0, 1, 2, 3), 4)
    trace = rank_trace(0, gpu=[transfer("send", 0, 1, dst=1)], groups=[stages], world_size=4)

    result = run(trace, overrides={"pp_microbatches": 4, "pp_schedule": "1F1B"})

    assert result.details["theoretical_ratio"] == pytest.approx(3 / 7)
    assert (result.details["schedule"], result.details["microbatches"]) == ("1F1B", 4)


def test_no_pipeline_is_not_applicable() -> None:
    busy = rank_trace(0, gpu=[kernel("gemm", 0, 10), kernel("gemm", 20, 10)], world_size=8)
    alone = rank_trace(0, gpu=[kernel("gemm", 0, 10)], world_size=1)

    assert run(busy, stated=card(pp=1)).reason == "not_applicable"
    assert run(alone).reason == "not_applicable"


def test_where_a_pipeline_is_unknown_idle_time_is_called_so() -> None:
    busy = rank_trace(0, gpu=[kernel("gemm", 0, 10), kernel("gemm", 30, 10)], world_size=1 << 3)

    result = run(busy, ranks=frozenset({0}))

    assert (result.status, result.details["method"]) == ("partial", "idle_only")
    assert result.value == result.details["idle_ratio"] == 0.5
    assert "idle time, of which any part is a bubble" in result.details["warning"]
    assert "heuristic" in result.basis["bubble"]


def test_the_traces_groups_win_over_the_card() -> None:
    result = run(sender(), receiver(), stated=card(pp=4))

    assert result.details["pp"] == 2
    assert "the card states pp 4" in result.details["warning"]


def test_the_grid_tells_stages_where_groups_do_not() -> None:
    ranks = [
        rank_trace(rank, gpu=[transfer("send", 0, 1)], groups=[world(4)], world_size=4)
        for rank in range(4)
    ]

    result = run(*ranks, stated=card(pp=2, tp=2))

    assert [row["ranks"] for row in result.details["stages"]] == [["0", "1"], ["2", "3"]]


def test_bare_transfers_are_the_pipelines_if_the_card_has_one_and_no_experts() -> None:
    trace = rank_trace(0, gpu=[kernel("gemm", 0, 10), kernel(SENDRECV, 10, 10)], world_size=4)

    assumed = run(trace, stated=card(pp=4))
    assert (assumed.details["method"], assumed.details["bubble_ratio"]) == ("p2p", 0.5)
    assert "without metadata" in assumed.details["warning"]

    experts = run(trace, stated=card(pp=4, ep=2))
    assert (experts.details["method"], experts.details["bubble_ratio"]) == ("idle_only", 0.0)
    assert "without the waiting inside of transfers" in experts.details["warning"]


def test_an_all_to_all_is_no_transfer_between_stages() -> None:
    trace = rank_trace(
        0,
        gpu=[kernel("gemm", 0, 10), kernel(SENDRECV, 10, 10, coll=Coll("all_to_allv"))],
        groups=[world(4)],
        world_size=4,
    )

    assert run(trace, stated=card(pp=2, tp=2)).details["idle_ratio"] == 0.0
    assert run(trace, stated=card(pp=2, tp=2)).details["method"] == "idle_only"


def test_gloo_on_the_cpu_counts_waiting_only() -> None:
    gloo = ProcessGroup("0", "default_pg", (0, 1), 2, "cpu:gloo")

    def stage(rank: int, name: str, start: float, dur: float, peer: int) -> RankTrace:
        coll = Coll("", 8, dtype="float", group=-1, **{"dst" if rank == 0 else "src": peer})  # type: ignore[arg-type]
        return rank_trace(
            rank,
            annotations=[step(1, 0, 100), Event(f"gloo:{name}", start, dur, 1)],
            cpu_ops=[
                Event("aten::mm", 0, 10, 1),
                Event("c10d::send" if rank == 0 else "c10d::recv_", start, 1, 1, coll),
                Event("aten::mm", 70, 20, 1),
            ],
            groups=[gloo],
            world_size=2,
        )

    result = run(stage(0, "send", 56, 4, 1), stage(1, "recv", 20, 60, 0))

    assert (result.status, result.details["method"], result.source) == (
        "partial",
        "cpu_only",
        "cpu_op",
    )
    # Receive [20, 80), of which [20, 70) is not computed; the data takes [76, 80), hidden.
    assert result.details["bubble_time_ms"] == 0.05
    assert result.details["total_time_ms"] == 0.2


def test_a_cpu_only_trace_of_a_gpu_job_is_refused() -> None:
    trace = rank_trace(0, cpu_ops=[Event("record_param_comms", 0, 5, 1, Coll("send"))])

    assert run(trace).reason == "no_gpu_events"


def test_a_step_without_device_work_is_empty() -> None:
    trace = rank_trace(0, annotations=[step(1, 0, 10), step(2, 10, 10)], gpu=[kernel("gemm", 1, 2)])

    assert run(trace, steps=(2, 2)).reason == "window_empty"
