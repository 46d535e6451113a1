"""coll_call_num: kernels once, by type, step and group."""

from __future__ import annotations

from factories import Coll, Event, allreduce, copy, job, kernel, launch, rank_trace, step, world

from ccltui.metrics.catalog.communication.coll_call_num import coll_call_num
from ccltui.metrics.result import Result
from ccltui.metrics.view.job_view import View, ViewOptions
from ccltui.parsers.columns import ProcessGroup, RankTrace
from ccltui.parsers.window import Window

TP = ProcessGroup("1", "mesh_tp", (0, 1), 2)
SENDRECV = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)"


def run(*ranks: RankTrace, **options: object) -> Result:
    return coll_call_num.run(View(job(*ranks), ViewOptions(**options)))  # type: ignore[arg-type]


def collective(start: float, op: str = "allreduce", group: int = 0, **fields: object) -> Event:
    """An all-reduce kernel with metadata on one of the rank's groups."""
    return allreduce(start, 5, Coll(op, 8, 8, group=group, **fields))  # type: ignore[arg-type]


def test_counts_by_rank_type_step_and_group() -> None:
    ranks = [
        rank_trace(
            rank,
            annotations=[step(1, 0, 100), step(2, 100, 100)],
            runtime=[launch(1, 5), launch(2, 105)],
            gpu=[
                Event("ncclDevKernel_AllReduce_x(a)", 20, 5, 20, Coll(), correlation=1),
                Event(
                    "ncclDevKernel_AllGather_x(a)",
                    120,
                    5,
                    20,
                    Coll("_allgather_base", group=1),
                    correlation=2,
                ),
                kernel(SENDRECV, 130, 5, 20),
                kernel("gemm", 140, 5),
            ],
            cpu_ops=[
                Event("record_param_comms", 5, 5, 1, Coll(seq=1)),
                Event("record_param_comms", 30, 2, 1, Coll("wait", seq=1)),
            ],
            groups=[world(2), TP],
            world_size=2,
        )
        for rank in (0, 1)
    ]

    result = run(*ranks)

    assert (result.status, result.value, result.unit) == ("ok", 6, "calls")
    assert result.source == "kernel"
    details = result.details
    assert details["total_calls"] == 6
    assert details["calls_per_rank"] == {"0": 3, "1": 3}
    assert details["calls_by_type"] == {
        "AllReduce": 2,
        "ReduceScatter": 0,
        "AllGather": 2,
        "Broadcast": 0,
        "Reduce": 0,
        "SendRecv": 2,
        "AllToAll": 0,
        "Send": 0,
        "Recv": 0,
        "Generic": 0,
        "Other": 0,
    }
    assert details["calls_per_step"] == {"0": {"1": 1, "2": 2}, "1": {"1": 1, "2": 2}}
    assert details["calls_by_group"] == [
        {
            "ranks": None,
            "desc": None,
            "name": None,
            "dim": "unknown",
            "type": "SendRecv",
            "calls": 2,
        },
        {
            "ranks": [0, 1],
            "desc": "default_pg",
            "name": "0",
            "dim": "world",
            "type": "AllReduce",
            "calls": 2,
        },
        {
            "ranks": [0, 1],
            "desc": "mesh_tp",
            "name": "1",
            "dim": "tp",
            "type": "AllGather",
            "calls": 2,
        },
    ]
    assert details["num_traces"] == 2
    assert details["api_calls"] == 2
    assert details["num_without_metadata"] == 2
    assert details["rank_mismatch"] == []
    assert set(details) == set(coll_call_num.keys)


def test_kernels_without_any_collective_are_a_real_zero() -> None:
    result = run(rank_trace(0, gpu=[kernel("gemm", 0, 1)]))

    assert (result.status, result.value) == ("ok", 0)
    assert result.details["api_calls"] is None


def test_copies_alone_show_that_the_device_was_recorded() -> None:
    assert run(rank_trace(0, gpu=[copy(0, 1)])).value == 0


def test_a_cpu_only_trace_without_collectives_is_refused() -> None:
    result = run(rank_trace(0, cpu_ops=[Event("aten::mm", 0, 1, 1)]))

    assert (result.status, result.value, result.reason) == ("unavailable", None, "no_gpu_events")
    assert result.details == dict.fromkeys(coll_call_num.keys)


def test_a_cpu_only_trace_counts_one_family_and_says_which() -> None:
    result = run(
        rank_trace(
            0,
            cpu_ops=[Event("c10d::allreduce_", 0, 9, 1)],
            annotations=[Event("gloo:all_reduce", 1, 9, 2)],
        )
    )

    assert (result.value, result.source) == (1, "cpu_op")
    assert result.basis["unit"] == "host-side events"


def test_a_silent_rank_beside_others_makes_the_count_partial() -> None:
    result = run(
        rank_trace(0, gpu=[allreduce(0, 1)]), rank_trace(1, cpu_ops=[Event("aten::mm", 0, 1, 1)])
    )

    assert (result.status, result.value) == ("partial", 1)
    assert [(reason.code, reason.rank) for reason in result.reasons] == [("no_gpu_events", "1")]


def test_ranks_of_one_group_that_differ_are_named() -> None:
    ranks = [
        rank_trace(
            rank,
            gpu=[collective(10 * index) for index in range(count)],
            groups=[TP],
            world_size=2,
        )
        for rank, count in ((0, 3), (1, 2))
    ]

    assert run(*ranks).details["rank_mismatch"] == [
        {"group": "tp 0,1", "type": "AllReduce", "calls_per_rank": {"0": 3, "1": 2}}
    ]


def test_a_call_belongs_to_a_window_by_its_start() -> None:
    trace = rank_trace(0, gpu=[allreduce(0, 50), allreduce(10, 50), allreduce(20, 50)])

    assert run(trace, window=Window(10_000, 20_000)).value == 1
    assert run(trace, window=Window(None, 20_000)).value == 2
    assert run(trace, window=Window(10_000, None)).value == 2


def test_a_window_without_collectives_is_zero_and_one_without_events_is_refused() -> None:
    trace = rank_trace(0, gpu=[allreduce(0, 5), kernel("gemm", 10, 5)])

    assert run(trace, window=Window(8_000, 12_000)).value == 0
    (late,) = run(trace, window=Window(20_000, None)).reasons
    assert late.code == "window_empty"
    assert late.message == ("no rank has an event in the window; the longest trace takes 15 us")


def test_steps_choose_calls_by_their_launch() -> None:
    trace = rank_trace(
        0,
        annotations=[step(1, 0, 100), step(2, 100, 100), step(3, 200, 100)],
        runtime=[launch(1, 90), launch(2, 110), launch(3, 400)],
        gpu=[
            Event("ncclKernel_AllReduce_a", 120, 5, 20, correlation=1),
            Event("ncclKernel_AllReduce_a", 130, 5, 20, correlation=2),
            Event("ncclKernel_AllReduce_a", 410, 5, 20, correlation=3),
        ],
    )

    assert run(trace).value == 3
    assert run(trace).details["calls_per_step"] == {"0": {"1": 1, "2": 1, "outside": 1}}
    assert run(trace, steps=(1, 1)).value == 1
    assert run(trace, steps=(2, 9)).value == 1
    assert run(trace, span="inner").value == 2  # without steps 1 and 3; what is in no step stays
    assert run(trace, steps=(7, 9)).reason == "window_empty"


def test_steps_without_markers_are_refused() -> None:
    assert run(rank_trace(0, gpu=[allreduce(0, 5)]), steps=(1, 2)).reason == "no_step_markers"


def test_a_group_chooses_by_label_description_name_or_dimension() -> None:
    trace = rank_trace(
        0, gpu=[collective(0), collective(10, group=1)], groups=[world(2), TP], world_size=2
    )

    assert [run(trace, group=text).value for text in ("tp", "mesh_tp", "TP 0,1", "1")] == [1] * 4
    assert run(trace, group="world").value == 1
    assert run(trace, group="ep").value == 0
    refused = run(trace, group="nonsense")
    assert refused.reason == "no_process_groups"
    assert "tp 0,1" in refused.reasons[0].message


def test_a_dimension_that_no_call_is_known_to_have_is_no_zero() -> None:
    trace = rank_trace(0, gpu=[collective(0), allreduce(10, 5)], groups=[TP], world_size=2)

    assert run(trace, group="tp").value == 1
    assert run(trace, group="unknown").value == 1
    refused = run(trace, group="dp")
    assert (refused.reason, refused.value) == ("no_process_groups", None)
    assert "the dimension of 1 is not known" in refused.reasons[0].message
    assert run(trace, group="").reason == "no_process_groups"


def test_ranks_are_chosen_and_absent_ones_named() -> None:
    ranks = [rank_trace(rank, gpu=[allreduce(0, 1)], world_size=4) for rank in (0, 1)]

    some = run(*ranks, ranks=frozenset({1}))
    assert (some.status, some.details["calls_per_rank"]) == ("ok", {"1": 1})

    half = run(*ranks, ranks=frozenset({1, 3}))
    assert (half.status, half.reason, half.inputs["missing_ranks"]) == (
        "partial",
        "missing_ranks",
        [3],
    )

    assert run(*ranks, ranks=frozenset({3})).reason == "missing_ranks"


def test_a_file_without_a_rank_counts_under_its_name() -> None:
    result = run(rank_trace(None, gpu=[allreduce(0, 1)], label="trace.json"))

    assert result.details["calls_per_rank"] == {"trace.json": 1}
    assert result.inputs["ranks"] == ["trace.json"]
